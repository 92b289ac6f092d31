"""Names: which names the files of an archive may have. Pure.

1. A name is a relative path of plain parts: it cannot lead out of the folder into which it is unpacked, on any system.
2. No two names are the same file where a file system takes upper and lower case, or two spellings of an accent, for the
   same; and no name is a file and a folder at once.
3. Files and folders are counted together, with the folders that only a path names: an archive of few bytes cannot make
   millions of folders.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from .errors import ArchiveError

MAX_FILES: Final = 20_000
"""Files and folders of an archive."""

MAX_NAME_CHARS: Final = 1_000
MAX_PART_BYTES: Final = 255
MAX_DEPTH: Final = 40

_FORBIDDEN: Final = frozenset('\\:<>|"?*')


class EntryNames:
    """The names of one archive so far. `archive`: what it is, for errors."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._known: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, folder: bool = False) -> str:
        """One more name; without the slash at the end of a folder's. ArchiveError if there must be no such name."""
        path = name.removesuffix("/") if folder else name
        parts = path.split("/")
        if len(name) > MAX_NAME_CHARS or len(parts) > MAX_DEPTH or not all(map(_is_plain, parts)):
            raise ArchiveError(
                f"{self._archive} has a file named {name!r:.200}: names are relative paths of at most {MAX_DEPTH} "
                r"parts, without '..', control characters, \ : < > | ? * and quotes, and without a blank or a point "
                "at the end of a part"
            )
        for count in range(1, len(parts)):
            self._enter("/".join(parts[:count]), folder=True)
        self._enter(path, folder=folder)
        return path

    def _enter(self, path: str, *, folder: bool) -> None:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        known = self._known.get(key)
        if known is None:
            self._known[key] = (path, folder)
            if len(self._known) > MAX_FILES:
                raise ArchiveError(
                    f"{self._archive} has more than {MAX_FILES:,} files and folders: submit the code only, and let it "
                    "read its data from where they are"
                )
            return
        if folder and known == (path, True):
            return
        other, is_folder = known
        if other != path:
            raise ArchiveError(
                f"{self._archive} has {other!r:.200} and {path!r:.200}, which are one name on some systems: rename one"
            )
        kinds = "a file and a folder" if is_folder != folder else "there twice"
        raise ArchiveError(f"{self._archive} has {path!r:.200}, which is {kinds}: leave one out")


def _is_plain(part: str) -> bool:
    try:
        size_bytes = len(part.encode())
    except UnicodeEncodeError:
        return False
    return (
        0 < size_bytes <= MAX_PART_BYTES
        and part not in (".", "..")
        and part[-1] not in ". "
        and _FORBIDDEN.isdisjoint(part)
        and not any(ord(character) < 32 or ord(character) == 127 for character in part)
    )
