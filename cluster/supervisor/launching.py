"""Launching: what a process of a topology is started with: its code, its arguments, its log.

    worker --name worker-1 --connect unix:HOME/run/…/parent --listen unix:HOME/run/…/worker-1 --target T --path CODE …
    worker --name worker-1 --parent-file HOME/run/…/parent.address --listen HOST:0 --credentials DIR …
    parent --home HOME --store URL --supervisor ID [--host HOST --credentials DIR] NAME

1. No argument is a secret: credentials are in files.
2. A worker outlives its parent by a lease: the parent is started again, and goes on with it.
3. With a `host`, the processes of a topology may be on several nodes: they listen at it, at any port, and workers find
   their parent by a file (see cluster.parent_address).
4. A worker with declared memory is killed by its supervisor when it has more. What grows faster than that looks is
   stopped by the system at STOP_FACTOR times as much: an allocation fails (RLIMIT_DATA, which counts what a process has
   to itself. RLIMIT_AS would also count files that are mapped, which need no memory of their own). Where there is a
   cgroup v2 for it (cgroups.py), the system keeps it to what was declared, cores included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ...runtime import make_folders
from ..nimbus import PARENT_PROCESS
from ..parent_address import write_address
from .cgroups import Limits
from .disk import KEEP_FREE_BYTES, check_free
from .logs import add_line, limit_log, prepare_log
from .old_logs import LogRetention, remove_old_logs

if TYPE_CHECKING:
    from ..home import Home
    from ..nimbus import TopologyRecord
    from .slots import Key

PARENT_LEASE_S: Final = 60
"""How long a worker goes on without its parent."""

STOP_FACTOR: Final = 2


class Code(Protocol):
    """The code of submitted topologies on this machine (see cluster.code.CodeCache)."""

    async def path(self, blob: str) -> str:
        """The folder with the code of this SHA-256. AiostormError, OSError."""
        ...

    async def remove_unused(self, used: Collection[str]) -> None:
        """Remove code that is not in `used` for some time. AiostormError, OSError."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process is started with. `log`: the file of its output. `limits`: for its cgroup."""

    log: Path
    arguments: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Listening:
    """How processes of this node are reached. `host`: at which address; empty: by sockets in the home folder.

    `security`: arguments that name the files with which they prove who they are; empty: those of the home folder.
    """

    host: str = ""
    security: tuple[str, ...] = ()

    @property
    def listen(self) -> str:
        """What a process listens at: any port of the host."""
        return f"[{self.host}]:0" if ":" in self.host else f"{self.host}:0"


class Launcher:
    """Prepares processes on this machine. `more`: further arguments of each process, as `--log-level`.

    `keep_free_bytes`: what must be free on the disk of the home folder; 0: it is not looked.
    """

    def __init__(
        self,
        home: Home,
        store: str,
        supervisor: str,
        code: Code,
        more: Sequence[str] = (),
        retention: LogRetention | None = None,
        listening: Listening | None = None,
        keep_free_bytes: int = KEEP_FREE_BYTES,
    ) -> None:
        self._home = home
        self._place = ("--home", str(home.path), "--store", store, "--supervisor", supervisor)
        self._code = code
        self._more = tuple(more)
        self._listening = listening or Listening()
        self._noted: dict[str, str] = {}  # topology → the address that its workers here can read
        self._retention = retention or LogRetention()
        self._keep_free_bytes = keep_free_bytes
        self._launched: set[str] = set()
        self._logs = asyncio.Lock()

    async def launch(self, key: Key, record: TopologyRecord) -> Launch:
        """Fetch its code, and prepare its folders. DiskFullError; AiostormError, OSError."""
        await asyncio.to_thread(check_free, self._home.path, self._keep_free_bytes)
        code = await self._code.path(record.blob) if record.blob else ""
        log_path = self._home.log(key.topology, key.process)
        async with self._logs:
            self._launched.add(key.topology)
            await asyncio.to_thread(self._prepare, key.topology, log_path)
        if key.process == PARENT_PROCESS:
            return Launch(log_path, self._parent(key.topology))
        limits = Limits(record.worker_memory_bytes, record.worker_cores)
        return Launch(log_path, self._worker(key, record, code), limits)

    async def note_parents(self, addresses: Mapping[str, str]) -> None:
        """Tell workers here where their parents listen: topology → address; empty: not known now. OSError.

        Workers keep the last address until there is another one: a parent may be cut off from the store only.
        """
        if not self._listening.host:
            return
        for topology in self._noted.keys() - addresses.keys():
            await asyncio.to_thread(write_address, self._home.parent_address(topology), "")
            del self._noted[topology]
        for topology, address in addresses.items():
            if address and self._noted.get(topology) != address:
                await asyncio.to_thread(self._note, topology, address)
                self._noted[topology] = address

    async def limit_logs(self, running: Collection[Key]) -> None:
        """Keep the logs of processes within their quota."""
        paths = [self._home.log(key.topology, key.process) for key in running]
        await asyncio.to_thread(_limit, paths)

    async def note(self, key: Key, text: str) -> None:
        """Write a line into the log of a process, which is there."""
        await asyncio.to_thread(add_line, self._home.log(key.topology, key.process), text)

    async def remove_unused(self, used: Collection[str]) -> None:
        """Remove code that no topology names. AiostormError, OSError."""
        await self._code.remove_unused(used)

    async def remove_logs(self, used: Collection[str], now_s: float) -> None:
        """Remove old logs of topologies that are not in `used`. OSError."""
        async with self._logs:  # what is launched meanwhile has its log afterwards
            used = {*used, *self._launched}
            self._launched.clear()
            await asyncio.to_thread(remove_old_logs, self._home.path / "logs", used, self._retention, now_s)

    def _note(self, topology: str, address: str) -> None:
        make_folders(str(self._home.sockets(topology)), mode=0o700)
        write_address(self._home.parent_address(topology), address)

    def _prepare(self, topology: str, log_path: Path) -> None:
        make_folders(str(self._home.sockets(topology)), mode=0o700)
        prepare_log(log_path)

    def _parent(self, topology: str) -> tuple[str, ...]:
        host = (f"--host={self._listening.host}",) if self._listening.host else ()
        return (PARENT_PROCESS, *self._place, *host, *self._listening.security, *self._more, "--", topology)

    def _worker(self, key: Key, record: TopologyRecord, code: str) -> tuple[str, ...]:
        home, listening = self._home, self._listening
        addresses: tuple[str, ...] = (
            f"--connect={home.socket(key.topology, PARENT_PROCESS)}",
            f"--listen={home.socket(key.topology, key.process)}",
        )
        if listening.host:
            addresses = (f"--parent-file={home.parent_address(key.topology)}", f"--listen={listening.listen}")
        paths = (f"--path={code}",) if code else ()
        lease = ("--outlive-parent", str(PARENT_LEASE_S), "--generation", str(record.generation))
        security = listening.security or ("--token-file", str(home.credentials))
        # A target and a name may begin with anything.
        which = ("--name", key.process, f"--topology={key.topology}", f"--target={record.target}")
        memory = record.worker_memory_bytes
        limit = ("--data-limit", str(STOP_FACTOR * memory)) if memory > 0 else ()
        return ("worker", *which, *addresses, *paths, *security, *lease, *limit, *self._more)


def _limit(paths: Sequence[Path]) -> None:
    for path in paths:
        limit_log(path)
