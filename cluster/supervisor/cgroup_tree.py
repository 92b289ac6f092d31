"""Cgroup tree: the cgroups of a supervisor's processes, in a folder of cgroup v2 (see cgroups.py).

1. `found` looks whether there is a subtree that this supervisor may use, and changes nothing.
2. `CgroupTree.opened` moves what is in the root below it, and enables the controllers. Twice is as good as once.
3. What is left in the cgroup of a process that has ended is ended, and the cgroup is removed; one that is busy is
   tried again (`tidy`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ...runtime import AiostormError
from .cgroups import (
    OPTIONAL,
    SUPERVISOR_GROUP,
    WANTED,
    Limits,
    folder_of,
    group_name,
    mount_in,
    own_cgroup,
    settings_of,
    why_ended,
)

if TYPE_CHECKING:
    from .slots import Key

log = logging.getLogger("aiostorm.supervisor")

MAX_BYTES: Final = 64 * 1024
"""Of a file that is read."""

ROUNDS: Final = 10
"""How often processes that have just been born are moved out of the root, too."""


class CgroupError(AiostormError):
    """No subtree of cgroup v2 can be used here: why."""


class CgroupFiles(Protocol):
    """Folders and files of cgroup v2. All methods raise OSError."""

    def read(self, path: Path) -> str:
        """What the kernel says."""
        ...

    def write(self, path: Path, text: str) -> None:
        """Tell the kernel. The file is there."""
        ...

    def make(self, path: Path) -> None:
        """A new cgroup; no error if it is there."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a cgroup without processes and children."""
        ...


class KernelFiles:
    """Those of the system."""

    def read(self, path: Path) -> str:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_BYTES)

    def write(self, path: Path, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def remove(self, path: Path) -> None:
        path.rmdir()


def found(proc: Path = Path("/proc/self")) -> Path:
    """The folder of the subtree that is delegated to this process. CgroupError says why there is none.

    `proc`: where the system describes this process.
    """
    try:
        cgroup, mount = own_cgroup((proc / "cgroup").read_text()), mount_in((proc / "mountinfo").read_text())
    except OSError as error:
        raise CgroupError(f"the system has no cgroups ({error.strerror or error})") from error
    folder = None if cgroup is None or mount is None else folder_of(mount, cgroup)
    if cgroup is None or mount is None or folder is None:
        raise CgroupError("cgroup v2 is not mounted here")
    root = Path(folder)
    if mount.read_only:
        raise CgroupError(f"cgroup v2 is mounted read-only at {mount.point}")
    check_controllers(root, KernelFiles())
    if not is_delegated(root, cgroup):
        raise CgroupError(f"{root} is not delegated to this process (systemd: Delegate=cpu memory pids)")
    return root


def check_controllers(root: Path, files: CgroupFiles) -> tuple[str, ...]:
    """The controllers that can be used there. CgroupError if memory is not one of them, or nothing can be written."""
    try:
        controllers = files.read(root / "cgroup.controllers").split()
    except OSError as error:
        raise CgroupError(f"{root} is no folder of cgroup v2 ({error.strerror or error})") from error
    if "memory" not in controllers:
        raise CgroupError(f"{root} has no memory controller: it was not delegated, or cgroup v1 has it")
    for path in (root, root / "cgroup.procs", root / "cgroup.subtree_control"):
        if not os.access(path, os.W_OK):
            raise CgroupError(f"{path} cannot be written by this user")
    return tuple(name for name in WANTED if name in controllers)


def is_delegated(root: Path, cgroup: str) -> bool:
    """May this process make cgroups there? That of its container, or one that systemd has marked.

    Not one only because it belongs to this user: so does that of the user's terminal, which systemd has for itself.
    """
    if cgroup in ("/", f"/{SUPERVISOR_GROUP}"):  # of a container; the one of the machine has no such file
        return (root / "cgroup.events").exists()
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError, AttributeError):
            if os.getxattr(root, name) == b"1":
                return True
    return False


class CgroupTree:
    """The cgroups below a root. `prefix`: of those of this supervisor (see cgroups.prefix_of)."""

    def __init__(self, root: Path, prefix: str, controllers: Iterable[str], files: CgroupFiles) -> None:
        self.root = root
        self._prefix = prefix
        self._controllers = tuple(controllers)
        self._files = files
        self._left: set[Path] = set()

    @classmethod
    def opened(cls, root: Path, prefix: str, files: CgroupFiles | None = None) -> CgroupTree:
        """Prepare the subtree. CgroupError if that cannot be done."""
        files = files or KernelFiles()
        controllers = check_controllers(root, files)
        try:
            _empty(root, files)
            files.write(root / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))
        except OSError as error:
            raise CgroupError(f"{root} cannot be used: {error.strerror or error}") from error
        return cls(root, prefix, controllers, files)

    async def begin(self, key: Key, pid: int, limits: Limits) -> None:
        """Give a process, which has not begun its task, a cgroup with these limits. OSError."""
        await asyncio.to_thread(self._begin, self._path(key, pid), pid, limits)

    async def ended(self, key: Key, pid: int) -> str:
        """A process has ended: end what it has left, and remove its cgroup.

        Returns why the system ended it; empty: it did not.
        """
        return await asyncio.to_thread(self._ended, self._path(key, pid))

    async def keep(self, running: Iterable[tuple[Key, int]]) -> None:
        """These run, and were started by an earlier supervisor: other cgroups of this one are removed."""
        paths = {self._path(key, pid) for key, pid in running}
        await asyncio.to_thread(self._keep, paths)

    async def tidy(self) -> None:
        """Remove what was busy before."""
        if self._left:
            await asyncio.to_thread(self._tidy)

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _path(self, key: Key, pid: int) -> Path:
        return self.root / group_name(self._prefix, key, pid)

    def _begin(self, path: Path, pid: int, limits: Limits) -> None:
        self._files.make(path)
        try:
            for file, text in settings_of(limits, self._controllers):
                self._files.write(path / file, text)
            for file, text in OPTIONAL if limits.memory_bytes > 0 else ():
                with contextlib.suppress(FileNotFoundError):  # an older kernel, or one without swap
                    self._files.write(path / file, text)
            self._files.write(path / "cgroup.procs", str(pid))
        except BaseException:
            self._remove(path)
            raise

    def _ended(self, path: Path) -> str:
        try:
            why = why_ended(self._files.read(path / "memory.events"), self._files.read(path / "memory.max"))
        except FileNotFoundError:  # it was started without one
            why = ""
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror or error)
            why = ""
        self._remove(path)
        return why

    def _keep(self, running: set[Path]) -> None:
        for path in sorted(self.root.iterdir()):
            if path.name.startswith(self._prefix) and path.is_dir() and path not in running:
                log.info("the cgroup %s is removed: its process has ended", path)
                self._remove(path)
        for path in sorted(running):
            if not path.is_dir():
                log.info("%s is not there: its process has the limits of its start", path)

    def _tidy(self) -> None:
        for path in sorted(self._left):
            self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            self._end_all(path)
            self._files.remove(path)
        except FileNotFoundError:
            self._left.discard(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                log.warning("%s cannot be removed: %s", path, error.strerror or error)
            self._left.add(path)  # what was ended a moment ago is still there
        else:
            self._left.discard(path)

    def _end_all(self, path: Path) -> None:
        """End the processes that are left in it."""
        pids = self._files.read(path / "cgroup.procs").split()
        if not pids:
            return
        with contextlib.suppress(FileNotFoundError):  # before Linux 5.14: they have to end by themselves
            self._files.write(path / "cgroup.kill", "1")


def _empty(root: Path, files: CgroupFiles) -> None:
    """Move all processes of the root below it, this one among them. OSError."""
    own = root / SUPERVISOR_GROUP
    files.make(own)
    for _ in range(ROUNDS):
        pids = files.read(root / "cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            try:
                files.write(own / "cgroup.procs", pid)
            except ProcessLookupError:
                log.debug("process %s has ended before it was moved", pid)
    raise OSError(errno.EBUSY, f"new processes are started in {root} all the time")
