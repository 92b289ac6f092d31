"""ZooKeeperCoordination: a client of ZooKeeper, by kazoo.

    asyncio ── *_async ─► kazoo's threads ─► ZooKeeper
       ▲                        │
       ╰─ call_soon_threadsafe ─╯

1. kazoo is not made for asyncio (python-zk/kazoo#185). Only its asynchronous calls are used: their results come in one
   of its threads, and are handed to the event loop.
2. SUSPENDED is not LOST: kazoo connects again by itself, and the session goes on if it is in time.
3. A lost session stays lost here: kazoo would begin another one, in which the ephemeral nodes are missing.
4. A watch of ZooKeeper fires once. It is set again before `changed` returns, and after each new connection all are
   noted: so no change is missed.

The extra `zookeeper`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import (
        BadVersionError as KazooBadVersionError,
    )
    from kazoo.exceptions import (
        ConnectionClosedError,
        ConnectionLoss,
        KazooException,
        NoChildrenForEphemeralsError,
        OperationTimeoutError,
        RolledBackError,
        RuntimeInconsistency,
        SessionExpiredError,
    )
    from kazoo.exceptions import (
        NodeExistsError as KazooNodeExistsError,
    )
    from kazoo.exceptions import (
        NoNodeError as KazooNoNodeError,
    )
    from kazoo.exceptions import (
        NotEmptyError as KazooNotEmptyError,
    )
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.protocol.states import KazooState
    from kazoo.retry import KazooRetry
except ImportError as missing:
    raise ImportError("zk:// needs kazoo: pip install 'aiostorm[zookeeper]'") from missing

from .operations import (
    DELETED,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    RefusedError,
    SessionLostError,
    UnavailableError,
    checked_operations,
    checked_path,
    parent_of,
)
from .watches import NodeWatch, Watches

if TYPE_CHECKING:
    from .coordination import Status

log = logging.getLogger("aiostorm.cluster")

CONNECT_S: Final = 10.0
"""How long the first connection may take."""

MOST_S: Final = 1.0
"""The longest wait between two attempts to connect again."""

_AWAY: Final = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)
_NOT_THIS_ONE: Final = (RolledBackError, RuntimeInconsistency)
"""The results of the other operations of a transaction that was refused."""


class ZooKeeperCoordination:
    """A Coordination: `open_zookeeper` makes it. `root`: the node under which all others are."""

    def __init__(self, hosts: str, root: str, session_s: float) -> None:
        self.where = f"zk://{hosts}{root}"
        self.silent_s = session_s  # ZooKeeper does not know whether a process has ended
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._watches = Watches()
        self._armed: set[str] = set()
        self._session_s = session_s
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=MOST_S)
        self._client = KazooClient(hosts=hosts, timeout=session_s, connection_retry=retry, logger=log.getChild("kazoo"))
        self._client.add_listener(lambda state: self._in_loop(self._on_state, state))

    @property
    def status(self) -> Status:
        return self._watches.status

    @property
    def session(self) -> int:
        known = self._client.client_id
        return 0 if known is None else known[0] or 0

    async def get(self, path: str) -> Node | None:
        try:
            value, stat = await self._do(self._client.get_async, self._full(checked_path(path)))
        except KazooNoNodeError:
            return None
        return Node(value or b"", stat.version, stat.ephemeralOwner or None)

    async def children(self, path: str) -> list[str]:
        full = self._full(path if path == "/" else checked_path(path))
        try:
            return sorted(await self._do(self._client.get_children_async, full))
        except KazooNoNodeError:
            raise NoNodeError(path) from None

    async def commit(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        operations = checked_operations(operations)
        transaction = self._client.transaction()
        for operation in operations:
            self._add(transaction, operation)
        results = await self._do(transaction.commit_async)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, _NOT_THIS_ONE):
                raise _refused(operation, result)
        versions: list[int] = []
        for operation, result in zip(operations, results, strict=True):
            match operation:
                case Check():
                    versions.append(operation.version)
                case Create():
                    versions.append(0)
                case Put():
                    versions.append(result.version)
                case Delete():
                    versions.append(DELETED)
        return tuple(versions)

    async def watch(self, path: str) -> ZooKeeperWatch:
        watch = ZooKeeperWatch(self, self._watches.add(path if path == "/" else checked_path(path)))
        await self.arm(path)
        return watch

    async def status_other_than(self, status: Status) -> Status:
        return await self._watches.status_other_than(status)

    async def arm(self, path: str) -> None:
        """Let ZooKeeper tell of the next change of a node, if it is not to do so already."""
        if path in self._armed or self.status != "connected":
            return
        self._armed.add(path)
        full = self._full(path)

        def fired(event: object) -> None:
            self._in_loop(self._on_fired, path)

        try:
            await self._do(self._client.exists_async, full, watch=fired)
            await self._do(self._client.get_children_async, full, watch=fired)
        except KazooNoNodeError:
            pass  # `exists` tells when it is made
        except (UnavailableError, SessionLostError):
            self._armed.discard(path)  # set again after the connection, if there is one

    async def begin(self) -> None:
        """Connect. UnavailableError."""
        try:
            await self._loop.run_in_executor(None, partial(self._client.start, timeout=CONNECT_S))  # pyright: ignore[reportArgumentType]
            if self._root:
                await self._do(self._client.ensure_path_async, self._root)
        except KazooTimeoutError as error:
            await self.close()
            raise UnavailableError(f"{self.where} was not reached within {CONNECT_S:g} s") from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._loop.run_in_executor(None, self._stop)
        self._watches.set_status("lost")

    # -- inside --------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    def _add(self, transaction: Any, operation: Operation) -> None:
        full = self._full(operation.path)
        match operation:
            case Check():
                transaction.check(full, operation.version)
            case Create():
                transaction.create(full, operation.value, ephemeral=operation.ephemeral)
            case Put():
                transaction.set_data(full, operation.value, _any(operation.version))
            case Delete():
                transaction.delete(full, _any(operation.version))

    def _full(self, path: str) -> str:
        return (self._root + path).rstrip("/") or "/"

    async def _do(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """The result of an asynchronous call of kazoo's."""
        if self.status == "lost":
            raise SessionLostError(f"{self.where}: the session has ended")
        if self.status == "suspended":  # kazoo would let it wait for the connection, however long
            raise UnavailableError(f"{self.where} cannot be reached now")
        done: asyncio.Future[Any] = self._loop.create_future()

        def complete(result: Any) -> None:
            if not done.done():
                if isinstance(result, BaseException):
                    done.set_exception(result)
                else:
                    done.set_result(result)

        def on_result(result: Any) -> None:
            error = result.exception
            self._in_loop(complete, result.value if error is None else error)

        try:
            async with asyncio.timeout(self._session_s):
                call(*arguments, **options).rawlink(on_result)
                return await done
        except SessionExpiredError as error:
            self._watches.set_status("lost")
            raise SessionLostError(f"{self.where}: the session has ended") from error
        except (*_AWAY, TimeoutError) as error:
            raise UnavailableError(f"{self.where} cannot be reached: {error or type(error).__name__}") from error
        except (KazooNoNodeError, CoordinationError):
            raise
        except KazooException as error:
            raise CoordinationError(f"{self.where}: {error or type(error).__name__}") from error

    def _in_loop(self, call: Any, *arguments: Any) -> None:
        """From kazoo's threads. What comes after the end of the loop has no effect."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            log.debug("%s: the event loop has ended before its client", self.where)

    def _on_fired(self, path: str) -> None:
        self._armed.discard(path)
        self._watches.note([path])

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._watches.set_status("connected")
            self._armed.clear()
            self._watches.note(None)
        elif state == KazooState.SUSPENDED:
            self._watches.set_status("suspended")
        else:
            self._watches.set_status("lost")


class ZooKeeperWatch:
    """A NodeWatch that is set again at the server."""

    __slots__ = ("_coordination", "_watch")

    def __init__(self, coordination: ZooKeeperCoordination, watch: NodeWatch) -> None:
        self._coordination = coordination
        self._watch = watch

    async def changed(self) -> None:
        """Wait for a change since the call before, or since the watch was made."""
        await self._watch.changed()
        await self._coordination.arm(self._watch.path)

    def close(self) -> None:
        """Watch no longer."""
        self._watch.close()


@asynccontextmanager
async def open_zookeeper(hosts: str, root: str, *, session_s: float) -> AsyncIterator[ZooKeeperCoordination]:
    """A client with a session of its own, which ends with the block. UnavailableError."""
    client = ZooKeeperCoordination(hosts, root, session_s)
    await client.begin()
    try:
        yield client
    finally:
        await client.close()


def _any(version: int | None) -> int:
    return -1 if version is None else version


def _refused(operation: Operation, error: Exception) -> CoordinationError:
    path = operation.path
    match error:
        case KazooBadVersionError():
            wanted = operation.version if isinstance(operation, Check | Put | Delete) else None
            return BadVersionError(path, -1 if wanted is None else wanted)
        case KazooNodeExistsError():
            return NodeExistsError(path)
        case KazooNoNodeError():
            return NoNodeError(parent_of(path) if isinstance(operation, Create) else path)
        case KazooNotEmptyError():
            return NotEmptyError(path)
        case NoChildrenForEphemeralsError():
            return EphemeralParentError(parent_of(path))
    return RefusedError(path, f"node {path}: {type(error).__name__} {error}")
