"""A folder that looks like cgroup v2, with the kernel's rules: what is written there moves and ends processes."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path


class FakeKernel:
    """`mounted`: the root of the subtree. `slow`: what ends is there once more."""

    def __init__(self, mounted: Path, controllers: str = "cpuset cpu io memory pids", *, processes: str = "") -> None:
        self.mounted = mounted
        self.slow = False
        self._one = threading.Lock()
        self.make(mounted)
        (mounted / "cgroup.controllers").write_text(controllers)
        (mounted / "cgroup.procs").write_text(processes)

    def make(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        enabled = "" if path == self.mounted else self.read(path.parent / "cgroup.subtree_control")
        files = {"cgroup.controllers": enabled, "cgroup.events": "populated 0\n", "cgroup.kill": ""}
        files |= {"cgroup.procs": "", "cgroup.subtree_control": ""}
        if "memory" in enabled.split():
            files |= {"memory.max": "max\n", "memory.high": "max\n", "memory.oom.group": "0\n"}
            files["memory.events"] = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"
        if "cpu" in enabled.split():
            files |= {"cpu.max": "max 100000\n", "cpu.weight": "100\n"}
        if "pids" in enabled.split():
            files["pids.max"] = "max\n"
        for name, text in files.items():
            if not (path / name).exists():
                (path / name).write_text(text)

    def read(self, path: Path) -> str:
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        group = path.parent
        if path.name == "cgroup.procs":
            self._move(text, group)
        elif path.name == "cgroup.subtree_control":
            if self.read(group / "cgroup.procs").split():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
            path.write_text(text.replace("+", ""))
        elif path.name == "cgroup.kill":
            self.end_all(group)
        else:
            path.write_text(text + "\n")

    def remove(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self.slow or self.read(path / "cgroup.procs").split() or any(each.is_dir() for each in path.iterdir()):
            self.slow = False
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        for each in path.iterdir():
            each.unlink()
        path.rmdir()

    def _move(self, pid: str, group: Path) -> None:
        with self._one:  # processes are moved by several threads
            self._moved(pid, group)

    def _moved(self, pid: str, group: Path) -> None:
        if self.read(group / "cgroup.subtree_control").split():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(group))
        for each in [self.mounted, *self.groups()]:
            self._write_pids(each, [one for one in self.pids(each) if one != pid])
        self._write_pids(group, [*self.pids(group), pid])

    def _write_pids(self, group: Path, pids: list[str]) -> None:
        (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    # -- for tests -----------------------------------------------------------------------------------------------------

    def groups(self) -> list[Path]:
        """The cgroups below the root."""
        return sorted(each for each in self.mounted.iterdir() if each.is_dir())

    def pids(self, group: Path) -> list[str]:
        """The processes of one."""
        return self.read(group / "cgroup.procs").split()

    def end_all(self, group: Path) -> None:
        """Its processes end."""
        self._write_pids(group, [])

    def out_of_memory(self, group: Path) -> None:
        """The system ends the processes of a cgroup that has reached memory.max."""
        (group / "memory.events").write_text("low 0\nhigh 7\nmax 3\noom 1\noom_kill 2\noom_group_kill 1\n")
        self.end_all(group)
