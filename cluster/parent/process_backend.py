"""ProcessBackend: a WorkerBackend whose workers are child processes, or remote workers that connect over TCP.

1. Without an address nothing can be reached from outside: each process listens on a socket in a directory that only
   this user can open (0700).
2. With an address (`HOST:PORT`, for workers of other machines) all connections are TCP with TLS; see docs/security.md.
3. Without an address, each backend makes new credentials. With one they must be given, since remote workers need them.
4. One more process than there are workers is kept as a spare: it has imported what a worker needs, and replaces a
   worker that dies at once.
5. Leaving the block leaves no process, socket or directory behind. The next backend removes those of a killed parent.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ...runtime.processes import ChildLine, PythonSpawner, Spawner, WarmPool
from ...transport import Credentials, Network, Node, Security, TlsFiles, open_network
from ..messages import PARENT, WORKER
from ..stale_files import own_name, remove, sweep

LOOPBACK: Final = "127.0.0.1:0"
_PREFIX: Final = "aiostorm-backend-"


class ProcessBackend:
    """A WorkerBackend. `address`: where the parent listens for remote workers; `arguments`: more for `aiostorm
    worker`."""

    def __init__(
        self,
        address: str = "",
        credentials: Credentials | None = None,
        tls: TlsFiles | None = None,
        *,
        insecure: bool = False,
        arguments: Sequence[str] = (),
    ) -> None:
        self._address = address
        if credentials is None and not address:
            credentials = Credentials.new("local")
        self._security = Security(credentials, tls, insecure)
        self._arguments = tuple(arguments)
        self._folder = ""
        self._stack = contextlib.AsyncExitStack()
        self._on_line: Callable[[ChildLine], None]
        self._spawner: WarmPool
        self._network: Network

    @property
    def network(self) -> Network:
        return self._network

    @property
    def address(self) -> str:
        return self._address or self._private("parent")

    @property
    def folder(self) -> Path:
        """The directory of its sockets, private to this user. Only without an address."""
        return Path(self._folder)

    @property
    def workers(self) -> int:
        return 0

    @property
    def start_limit_s(self) -> float | None:
        return None

    @property
    def is_apart(self) -> bool:
        return False

    @property
    def paths(self) -> Sequence[str]:
        return sys.path

    @property
    def arguments(self) -> Sequence[str]:
        security = self._security
        stdin = ("--credentials-from-stdin",) if security.credentials is not None else ()
        return (*stdin, *tls_words(security.tls, insecure=security.insecure), *self._arguments)

    @property
    def secret(self) -> bytes:
        credentials = self._security.credentials
        return b"" if credentials is None else credentials.to_bytes()

    def listen(self, worker: str, before: str) -> str:
        if before:
            return before
        if self._address:
            return f"{self._address.rpartition(':')[0]}:0"
        return self._private(worker)

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        self._on_line = on_line
        return self._spawner

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            if not self._address and sys.platform != "win32":
                sweep(Path(tempfile.gettempdir()), _PREFIX)
                self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=own_name(_PREFIX)))
            self._network = await stack.enter_async_context(
                open_network(PARENT, self._security, role=PARENT, roles=(WORKER,))
            )
            processes = PythonSpawner("aiostorm", lambda line: self._on_line(line))
            spare = ("spare",) if self._folder else ("spare", "--websockets")
            self._spawner = await stack.enter_async_context(WarmPool(processes, spare))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def abandon(self) -> None:
        """The process ends without leaving the block: remove the directory."""
        if self._folder:
            remove(Path(self._folder))

    def _private(self, name: str) -> str:
        return f"unix:{Path(self._folder) / name}" if self._folder else LOOPBACK


def tls_words(tls: TlsFiles | None, *, insecure: bool = False) -> list[str]:
    """The options of `aiostorm worker` for TLS files."""
    words = [] if tls is None else ["--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-ca", tls.ca]
    return [*words, *(["--insecure"] if insecure else [])]
