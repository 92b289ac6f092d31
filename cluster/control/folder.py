"""Control folder: where the running topologies of this user and machine are found: a socket each, by name and pid.

    $XDG_RUNTIME_DIR/aiostorm/               if that is set, and ours alone may write there
    /tmp/aiostorm-UID/                       else; whoever looks, looks into both
        4026531836-4711-word-count           whose process ids - pid - name (what is not A-Z a-z 0-9 _ . - as %XX)

1. The folder is ours and 0700, and no link to one: whoever is in there may ask. One that is not is not used, and the
   error says what to do. It is looked at each time, since anybody may make a folder of that name in /tmp.
2. A name that is too long for a socket's path is cut, and has a hash: two that begin alike stay two.
3. What processes that were killed leave is removed by the next that begins (see stale files).
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from ..errors import ControlError
from ..stale_files import lives, names_in, own_name, sweep

NAME_CHARS: Final = 32
"""Of a file's name, for the topology's: with a macOS folder for temporary files there is no room for more."""

_HASH_CHARS: Final = 8
_CUT: Final = "~"

NO_SOCKETS: Final = "this system's Python has no unix sockets, by which a running topology is asked"


@dataclass(frozen=True, slots=True)
class TopologySocket:
    """A running topology of another process, and its socket."""

    file: str
    """Its name as in the name of the socket's file."""
    pid: int
    path: str

    @property
    def name(self) -> str:
        """As far as the file tells it, on one line."""
        return shown_name(self.file)

    @property
    def is_there(self) -> bool:
        """Has it still its socket?"""
        return Path(self.path).is_socket()

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def own_socket(topology: str) -> str:
    """Where this process is to listen for a topology of that name. ControlError if there is no place."""
    folder = _places()[0]
    _make(folder)
    sweep(folder, "")
    return str(folder / (own_name("") + file_name(topology)))


def find(wanted: str) -> TopologySocket:
    """The running topology that is called NAME, or NAME@PID. ControlError says which there are."""
    running, refused = running_topologies()
    name, at, pid = wanted.rpartition("@")
    matching = _called(running, wanted)
    if not matching and at:
        matching = [one for one in _called(running, name) if str(one.pid) == pid]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ways = ", ".join(f"{wanted}@{one.pid}" for one in matching)
        raise ControlError(f"{len(matching)} topologies named {wanted} run here: say which, {ways}")
    there = f"running: {', '.join(map(str, running))}" if running else "none does"
    not_seen = "".join(f". Not looked at: {why}" for why in refused)
    raise ControlError(f"no topology {wanted!r:.200} of yours runs here with `aiostorm run`; {there}{not_seen}")


def running_topologies() -> tuple[list[TopologySocket], list[str]]:
    """Those of this user and machine, and why a folder was not looked at. ControlError without unix sockets."""
    found: list[TopologySocket] = []
    refused: list[str] = []
    for folder in _places():
        try:
            _check(folder)
        except FileNotFoundError:
            continue
        except ControlError as error:
            refused.append(str(error))
            continue
        for path, pid, rest in names_in(folder, ""):
            if lives(pid):
                found.append(TopologySocket(rest, pid, str(path)))
    return sorted(found, key=lambda one: (one.name, one.pid)), refused


def file_name(topology: str) -> str:
    """A topology's name, as it may stand in a file's."""
    name = quote(topology, safe="", errors="surrogatepass").replace(_CUT, "%7E")
    if len(name) <= NAME_CHARS:
        return name
    digest = hashlib.sha256(topology.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return name[: NAME_CHARS - _HASH_CHARS - 1] + _CUT + digest


def shown_name(name: str) -> str:
    """What a file's name tells of a topology's."""
    begin, cut, _ = name.partition(_CUT)
    told = unquote(begin) + ("…" if cut else "")
    return told if told.isprintable() else ascii(told)[1:-1]


def _called(running: Sequence[TopologySocket], name: str) -> list[TopologySocket]:
    wanted = file_name(name)
    return [one for one in running if one.file == wanted]


# -- the folder --------------------------------------------------------------------------------------------------------


def _places() -> list[Path]:
    """Where topologies may be found; they begin in the first."""
    if sys.platform == "win32":
        raise ControlError(NO_SOCKETS)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [Path(runtime) / "aiostorm"] if os.path.isabs(runtime) and _is_ours(Path(runtime)) else []
    try:
        places.append(Path(tempfile.gettempdir()) / f"aiostorm-{os.geteuid()}")
    except OSError as error:
        if not places:
            raise ControlError(f"{error.strerror}: set XDG_RUNTIME_DIR to a folder that is yours alone") from error
    return places


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _make(folder: Path) -> None:
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ControlError(f"{folder} cannot be made: {error.strerror or error}") from error
    _check(folder)


def _check(folder: Path) -> None:
    """FileNotFoundError; ControlError if others may reach into it."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ControlError(f"{folder} cannot be looked at: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise ControlError(f"{folder} is no folder: remove it, or set XDG_RUNTIME_DIR to a folder of your own")
    if found.st_uid != os.geteuid():
        raise ControlError(
            f"{folder} belongs to another user: set XDG_RUNTIME_DIR (or TMPDIR) to a folder that is yours alone"
        )
    if found.st_mode & 0o077:
        raise ControlError(f"others may reach into {folder}: chmod 700 {folder}")
