"""Archive: the code of a topology as one file, and that file as a folder again. Blocking: for a thread.

    folder ─► pack ────────────────╮
    zip or wheel ─► as it is ──────┼► bytes, whose SHA-256 names them in the cluster ─► unpack ─► a folder of modules
    additional files ─► add_files ─╯

1. The same files make the same archive: sorted, without times, owners and modes. (zlib compresses; another version of
   it may make other bytes, which are then another blob with the same files.)
2. What is no code is left out: caches, environments, and what begins with a dot. A link is refused: what it leads to
   may be elsewhere.
3. An archive is not trusted. Names are checked (names.py); links and special files are refused; what is unpacked is
   counted, not what the archive says; nothing is allocated by a size that it says.
4. It is unpacked into a temporary folder, which is then renamed: a folder of code is whole, also after a crash of the
   machine. If two unpack the same at once, one of them wins, and both succeed.

From: reproducible builds (sorted, one date); Storm's blob store, whose blobs are found by their keys.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from ...runtime import ProcessIdentity, sync_folder
from .errors import ArchiveError
from .names import EntryNames

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of an archive."""

MAX_UNPACKED_BYTES: Final = 1024 * 1024 * 1024
"""Of all its files together."""

CHUNK_BYTES: Final = 1024 * 1024

LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})
"""Folders without code of a topology, beside those whose name begins with a dot."""

ENVIRONMENTS: Final = ("pyvenv.cfg", "conda-meta")
"""A folder with one of these is an environment of Python's, whatever its name is."""

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
"""Of an additional file."""

_MAX_DIRECTORY_BYTES: Final = 8 * 1024 * 1024
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the first that a zip can have
_UNIX: Final = 3
_ENCRYPTED: Final = 1
_END: Final = struct.Struct("<4s4H2LH")
_END_MAGIC: Final = b"PK\5\6"
_END_64: Final = b"PK\6\7"
_END_64_BYTES: Final = 20
_MAX_COMMENT: Final = 65_535
_BAD_ZIP: Final = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    struct.error,
    zlib.error,
)
"""What zipfile raises for damaged archives."""

_unpacked = itertools.count()


def archive_of(path: Path) -> bytes:
    """A folder, packed; a zip or a wheel as it is, checked. ArchiveError."""
    try:
        if path.is_dir():
            return pack(path)
        with path.open("rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ArchiveError(f"{path} is neither a folder nor a file: give the folder of the code, or a zip")
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror or error}") from error
    with _opened(_bounded(data, str(path)), str(path)) as archive:
        _checked(archive, str(path))
    return data


def pack(folder: Path) -> bytes:
    """The files of a folder as a zip. ArchiveError, OSError."""
    made = io.BytesIO()
    left = MAX_UNPACKED_BYTES
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path in _files(folder):
            left = _add(archive, name, path, left, str(folder))
            if made.tell() > MAX_BYTES:
                raise _too_large(str(folder))
    return _bounded(made.getvalue(), str(folder))


def add_files(archive: bytes | None, files: Iterable[Path]) -> bytes:
    """An archive with these files at its top, beside its modules; None: an archive of these only. ArchiveError."""
    what = "the code with its additional files"
    made, names, left = io.BytesIO(), EntryNames(what), MAX_UNPACKED_BYTES
    if archive is not None:
        with _opened(_bounded(archive, what), what) as before:
            left -= sum(entry.file_size for _, entry in _checked(before, what, names))
        made.write(archive)
    with zipfile.ZipFile(made, "w" if archive is None else "a", zipfile.ZIP_DEFLATED, compresslevel=6) as opened:
        for path in sorted(files, key=lambda each: (each.name, each)):
            if not _FILE_NAME.fullmatch(path.name):
                raise ArchiveError(
                    f"the name of {str(path)!r:.300} cannot be that of an additional file: it has 1 to 128 of A-Z a-z "
                    "0-9 _ . -, and begins and ends with none of . and -"
                )
            try:
                if not path.is_file():
                    why = "is no file: a folder is code (--code, code=)" if path.exists() else "is not there"
                    raise ArchiveError(f"the additional file {path} {why}")
                left = _add(opened, names.add(path.name), path, left, what)
            except OSError as error:
                raise ArchiveError(f"the additional file {path} cannot be read: {error.strerror or error}") from error
            if made.tell() > MAX_BYTES:
                raise _too_large(what)
    return _bounded(made.getvalue(), what)


def digest(data: bytes) -> str:
    """The SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def unpack(data: bytes, folder: Path, what: str = "the archive") -> None:
    """Unpack an archive as this folder; if it is there already, it stays as it is. ArchiveError, OSError."""
    _bounded(data, what)
    temporary = temporary_of(folder)
    temporary.mkdir(mode=0o700)
    try:
        with _opened(data, what) as archive:
            _unpack(archive, temporary, what)
        _rename(temporary, folder)
    except _BAD_ZIP as error:
        raise ArchiveError(f"{what} is no zip that can be read: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def temporary_of(folder: Path) -> Path:
    """A name beside this folder for what is not whole yet, or not whole any more: no other process has the same."""
    return folder.with_name(f".{folder.name}.{ProcessIdentity.own()}.{next(_unpacked)}")


# -- packing -----------------------------------------------------------------------------------------------------------


def _add(archive: zipfile.ZipFile, name: str, path: Path, left: int, what: str) -> int:
    """Write one file to it, and return how many bytes may still come after it."""
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    with path.open("rb") as source, archive.open(entry, "w") as target:
        return _copied(source, target, left, what)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name in the archive, path; sorted by name."""
    found: list[str] = []
    names = EntryNames(str(folder))
    for at, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not (name.startswith(".") or name in LEFT_OUT)]
        files = [name for name in files if not (name.startswith(".") or name.endswith((".pyc", ".pyo")))]
        for name in [*folders, *files]:
            if os.path.islink(os.path.join(at, name)):
                raise ArchiveError(
                    f"{os.path.join(at, name)} is a link: put what it leads to in its place, or submit a folder "
                    "without it"
                )
        folders[:] = [name for name in folders if not _is_environment(os.path.join(at, name))]
        for name in files:
            path = os.path.join(at, name)
            if os.path.isfile(path):  # no pipes and devices
                found.append(names.add(os.path.relpath(path, folder).replace(os.sep, "/")))
    if not found:
        raise ArchiveError(f"{folder} has no files to submit")
    for name in sorted(found):
        yield name, folder / name


def _raise(error: OSError) -> None:
    raise error


def _is_environment(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in ENVIRONMENTS)


# -- unpacking ---------------------------------------------------------------------------------------------------------


def _opened(data: bytes, what: str) -> zipfile.ZipFile:
    """The archive, whose list of files has been read. ArchiveError."""
    size_bytes = _directory_bytes(data)
    if size_bytes is None:
        raise ArchiveError(f"{what} is no zip and no wheel")
    if size_bytes > _MAX_DIRECTORY_BYTES:
        raise ArchiveError(
            f"{what} has a list of files with {size_bytes:,} bytes, and may have {_MAX_DIRECTORY_BYTES:,}: submit the "
            "code only"
        )
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _BAD_ZIP as error:
        raise ArchiveError(f"{what} is no zip that can be read: {error}") from error


def _directory_bytes(data: bytes) -> int | None:
    """How long the list of files says that it is: zipfile would read all of it. None: there is none."""
    at = data.rfind(_END_MAGIC, max(0, len(data) - _END.size - _MAX_COMMENT))
    largest = None
    while at >= 0:  # zipfile may take another one than the last
        if at + _END.size <= len(data):
            size_bytes = int(_END.unpack_from(data, at)[5])
            if data[max(0, at - _END_64_BYTES) : at].startswith(_END_64):
                size_bytes = 2**64 - 1  # for archives of more than 4 GiB or 65,535 files
            largest = max(size_bytes, largest or 0)
        at = data.rfind(_END_MAGIC, max(0, len(data) - _END.size - _MAX_COMMENT), at)
    return largest


def _checked(archive: zipfile.ZipFile, what: str, names: EntryNames | None = None) -> list[tuple[str, zipfile.ZipInfo]]:
    """The names and entries of an archive that may be unpacked. ArchiveError."""
    entries = []
    names = names or EntryNames(what)
    left = MAX_UNPACKED_BYTES
    for entry in archive.infolist():
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveError(f"{what} has {entry.filename!r:.200}, a link or a special file: it may have files only")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"{what} has {entry.filename!r:.200}, encrypted, or compressed by other than deflate")
        left -= entry.file_size
        if left < 0:
            raise _too_large(what)
        entries.append((names.add(entry.filename, folder=entry.filename.endswith("/")), entry))
    if not entries:
        raise ArchiveError(f"{what} has no files")
    return entries


def _unpack(archive: zipfile.ZipFile, folder: Path, what: str) -> None:
    left = MAX_UNPACKED_BYTES
    folders = {folder}
    for name, entry in _checked(archive, what):
        path = folder / name
        at = path if entry.is_dir() else path.parent
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders |= {parent for parent in (at, *at.parents) if parent.is_relative_to(folder)}
        if not entry.is_dir():
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with open(made, "wb") as target, archive.open(entry) as source:
                left = _copied(source, target, left, what)
                target.flush()
                os.fsync(made)
    for each in folders:
        sync_folder(str(each))


def _copied(source: IO[bytes], target: IO[bytes], left: int, what: str) -> int:
    """Copy it, and return how much may still come after it."""
    while chunk := source.read(min(CHUNK_BYTES, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise _too_large(what)
        target.write(chunk)
    return left


def _rename(temporary: Path, folder: Path) -> None:
    try:
        os.rename(temporary, folder)
    except OSError:
        if not folder.is_dir():
            raise


def _bounded(data: bytes, what: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise _too_large(what)
    return data


def _too_large(what: str) -> ArchiveError:
    return ArchiveError(
        f"{what} is too large: an archive has at most {MAX_BYTES // 1024**2} MiB, and its files together "
        f"{MAX_UNPACKED_BYTES // 1024**2} MiB. Submit the code only, and let it read its data from where they are"
    )
