"""Control folder: where the sockets of this user's running topologies on this machine are, by name and process id.

    $XDG_RUNTIME_DIR/aiostorm/               if that is set, and only this user may write there
    /tmp/aiostorm-UID/                       otherwise; `find` searches both
        4026531836-4711-word-count           process namespace - pid - name (other than A-Z a-z 0-9 _ . - as %XX)

1. The folder belongs to this user, has mode 0700, and is no link: every process that can open it may send requests. Any
   other folder is not used, and the error says what to do. It is checked each time, since any user can make a folder of
   that name in /tmp.
2. A name that is too long for a socket's path is cut and gets a hash, so two long names stay different.
3. Sockets of killed processes are removed by the next process (see stale files).
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

from ...runtime import process_exists
from ..errors import ControlError
from ..stale_files import names_in, own_name, sweep

NAME_CHARS: Final = 32
"""The characters of a topology's name in a file name: paths of temporary files on macOS leave no more."""

_HASH_CHARS: Final = 8
_CUT: Final = "~"

NO_SOCKETS: Final = "this system's Python has no unix sockets, which are needed to reach a running topology"


@dataclass(frozen=True, slots=True)
class TopologySocket:
    """A running topology of another process, and its socket."""

    file: str
    """The name of the topology as in the socket's file name."""
    pid: int
    path: str

    @property
    def name(self) -> str:
        """The topology's name as far as the file name contains it, on one line."""
        return shown_name(self.file)

    @property
    def is_there(self) -> bool:
        """Does the socket still exist?"""
        return Path(self.path).is_socket()

    def is_called(self, wanted: str) -> bool:
        """Does NAME or NAME@PID mean it?"""
        name, at, pid = wanted.rpartition("@")
        return self.file == file_name(wanted) or bool(at and pid == str(self.pid) and self.file == file_name(name))

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def own_socket(topology: str) -> str:
    """The path at which this process listens for a topology. ControlError if there is no usable folder."""
    folder = _places()[0]
    _make(folder)
    sweep(folder, "")
    return str(folder / (own_name("") + file_name(topology)))


def find(wanted: str) -> TopologySocket:
    """The running topology named NAME or NAME@PID. ControlError lists those that run."""
    running, refused = running_topologies()
    name, at, pid = wanted.rpartition("@")
    matching = _called(running, wanted)
    if not matching and at:
        matching = [one for one in _called(running, name) if str(one.pid) == pid]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ways = ", ".join(f"{wanted}@{one.pid}" for one in matching)
        raise ControlError(f"{len(matching)} topologies named {wanted} run here: choose one of {ways}")
    there = f"running: {', '.join(map(str, running))}" if running else "none does"
    skipped = "".join(f". Not searched: {why}" for why in refused)
    raise ControlError(
        f"no topology {wanted!r:.200} of yours runs here with `aiostorm run`; {there}{skipped}. One that was submitted "
        "to a cluster is asked on the node of its parent: `aiostorm show NAME` says which"
    )


def running_topologies() -> tuple[list[TopologySocket], list[str]]:
    """The topologies of this user and machine, and why a folder was skipped. ControlError without unix sockets."""
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
            if process_exists(pid):
                found.append(TopologySocket(rest, pid, str(path)))
    return sorted(found, key=lambda one: (one.name, one.pid)), refused


def file_name(topology: str) -> str:
    """A topology's name, encoded for a file name."""
    name = quote(topology, safe="", errors="surrogatepass").replace(_CUT, "%7E")
    if len(name) <= NAME_CHARS:
        return name
    digest = hashlib.sha256(topology.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return name[: NAME_CHARS - _HASH_CHARS - 1] + _CUT + digest


def shown_name(name: str) -> str:
    """The topology's name in a file name."""
    begin, cut, _ = name.partition(_CUT)
    name = unquote(begin) + ("…" if cut else "")
    return name if name.isprintable() else ascii(name)[1:-1]


def _called(running: Sequence[TopologySocket], name: str) -> list[TopologySocket]:
    wanted = file_name(name)
    return [one for one in running if one.file == wanted]


# -- the folder --------------------------------------------------------------------------------------------------------


def _places() -> list[Path]:
    """The folders that are searched; this process uses the first."""
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
        raise ControlError(f"{folder} cannot be created: {error.strerror or error}") from error
    _check(folder)


def _check(folder: Path) -> None:
    """FileNotFoundError; ControlError if other users may access the folder."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ControlError(f"{folder} cannot be checked: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise ControlError(f"{folder} is not a folder: remove it, or set XDG_RUNTIME_DIR to a folder of your own")
    if found.st_uid != os.geteuid():
        raise ControlError(
            f"{folder} belongs to another user: set XDG_RUNTIME_DIR (or TMPDIR) to a folder that is yours alone"
        )
    if found.st_mode & 0o077:
        raise ControlError(f"others may access {folder}: chmod 700 {folder}")
