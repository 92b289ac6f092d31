"""Operations: the requests that nimbus answers, each with the role that it needs. One table.

1. A request that is not in the table is refused, and so is one whose token has a lower role than the table says.
2. An operation without a role, or with that of anyone, cannot be put into a table (ValueError).
3. Arguments are data of declared types; an argument that is not declared is refused. None is a path, or the name of a
   class. Code comes with the connection that submits it: a client cannot name what another one has sent.
4. What an operation does is what a client of the store does: `Cluster` checks it, for both.
5. A client is shown no secret in the settings and arguments of a topology, whatever its role is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from ..access import GIVEN, RequestError, RevokedCertificate, Role, TokenInfo, problems_of
from ..client import NodeInfo, TopologyInfo
from ..logs import LogsAsked, ProcessLines
from ..nimbus import ErrorEntry, Setting, shown_record

if TYPE_CHECKING:
    from ..client import Cluster
    from .session import Session

MAX_LINES: Final = 10_000

_CLOSED: Final = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No arguments."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED


@dataclass(frozen=True, slots=True)
class Name:
    """A topology, or a token."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A certificate of a client: its SHA-256, in hexadecimal, and its end, Unix time; 0: not known."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    sha256: str
    ends_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Kill:
    """As Cluster.kill."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """As Cluster.rebalance."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str
    workers: int | None = None
    parallelism: dict[str, int] = field(default_factory=dict)
    drain_s: float | None = None
    pins: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """As Cluster.update. `config`: the settings to change, by key."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str
    config: dict[str, Setting]


@dataclass(frozen=True, slots=True)
class Upload:
    """The code of the next submission of this connection. Its pieces follow the response."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Submit:
    """As Cluster.submit, after its checks. `code`: that of the last upload of this connection.

    `workers`: None: as Cluster.submit without a check; where code is replaced: as before.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str
    target: str
    workers: int | None = None
    arguments: tuple[str, ...] = ()
    config: dict[str, Setting] = field(default_factory=dict)
    parallelism: dict[str, int] = field(default_factory=dict)
    replace: bool = False
    labels: frozenset[str] = frozenset()
    fewer: bool = False
    worker_memory_bytes: int = 0
    worker_cores: float = 0.0
    pins: dict[str, frozenset[str]] = field(default_factory=dict)
    initial: Literal["ACTIVE", "INACTIVE"] = "ACTIVE"
    code: bool = False


@dataclass(frozen=True, slots=True)
class Logs:
    """The last lines of the processes of a topology on this machine. `process`: empty: all."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    name: str
    process: str = ""
    lines: int = 100


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """The next lines of a topology's processes on a node."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    node: str
    asked: LogsAsked


@dataclass(frozen=True, slots=True)
class Operation:
    """A request. `role`: the lowest that may send it. `changes`: it is in the audit log. `takes`, `gives`: types."""

    name: str
    role: Role
    carry_out: Callable[[Session, Any], Awaitable[Any]]
    takes: Any = Nothing
    gives: Any = None
    changes: bool = False

    def read(self, arguments: dict[str, JsonValue]) -> Any:
        """The arguments. RequestError if they are not those of this operation."""
        try:
            return TypeAdapter(self.takes).validate_json(_ANY.dump_json(arguments))
        except ValidationError as error:
            raise RequestError(f"{self.name}: {problems_of(error)}") from error

    def written(self, value: Any) -> bytes:
        """What it gives, as JSON."""
        adapter: TypeAdapter[Any] = TypeAdapter(self.gives)
        return adapter.dump_json(value)


_ANY: Final[TypeAdapter[dict[str, JsonValue]]] = TypeAdapter(dict[str, JsonValue])


def table_of(operations: Iterable[Operation]) -> MappingProxyType[str, Operation]:
    """Operations by name. ValueError for one that declares no role, or whose name is taken."""
    found: dict[str, Operation] = {}
    for one in operations:
        if one.role not in GIVEN:
            raise ValueError(f"the operation {one.name!r} declares no role: viewer, operator, submitter or admin")
        if one.name in found:
            raise ValueError(f"there are two operations {one.name!r}")
        found[one.name] = one
    return MappingProxyType(found)


# -- what they do ------------------------------------------------------------------------------------------------------


def _shown(info: TopologyInfo) -> TopologyInfo:
    return replace(info, record=shown_record(info.record))


async def _topologies(session: Session, given: Nothing) -> list[TopologyInfo]:
    return list(map(_shown, await session.cluster.topologies()))


async def _find(session: Session, given: Name) -> TopologyInfo | None:
    found = await session.cluster.find(given.name)
    return None if found is None else _shown(found)


async def _topology(session: Session, given: Name) -> TopologyInfo:
    return _shown(await session.cluster.topology(given.name))


async def _errors(session: Session, given: Name) -> tuple[ErrorEntry, ...]:
    return await session.cluster.errors(given.name)


async def _nodes(session: Session, given: Nothing) -> list[NodeInfo]:
    return await session.cluster.nodes()


async def _nimbuses(session: Session, given: Nothing) -> list[str]:
    return await session.cluster.nimbuses()


async def _leader(session: Session, given: Nothing) -> str | None:
    return await session.cluster.leader()


async def _logs(session: Session, given: Logs) -> dict[str, list[str]]:
    if not 0 <= given.lines <= MAX_LINES:
        raise ValueError(f"0 to {MAX_LINES:,} lines of each process, not {given.lines:,}")
    return await session.logs(given.name, given.process, given.lines)


async def _node_logs(session: Session, given: NodeLogs) -> list[ProcessLines]:
    if given.asked.lines is not None and not 0 <= given.asked.lines <= MAX_LINES:
        raise ValueError(f"0 to {MAX_LINES:,} lines of each process, not {given.asked.lines:,}")
    return await session.node_logs(given.node, given.asked)


async def _activate(session: Session, given: Name) -> None:
    await session.cluster.activate(given.name)


async def _deactivate(session: Session, given: Name) -> None:
    await session.cluster.deactivate(given.name)


async def _rebalance(session: Session, given: Rebalance) -> int:
    return await session.cluster.rebalance(
        given.name,
        given.workers,
        parallelism=given.parallelism,
        pins=given.pins,
        drain_s=given.drain_s,
        check=False,  # no code of a submission runs here: what does not run is taken back
    )


async def _update(session: Session, given: Update) -> int:
    return await session.cluster.update(given.name, given.config)


async def _kill(session: Session, given: Kill) -> None:
    await session.cluster.kill(given.name, given.wait_s)


async def _upload(session: Session, given: Upload) -> None:
    await session.begin_upload(given.size_bytes, given.sha256)


async def _submit(session: Session, given: Submit) -> TopologyInfo:
    cluster: Cluster = session.cluster
    async with session.code(given.code) as code:
        submitted = await cluster.submit(
            given.name,
            given.target,
            given.config,
            arguments=given.arguments,
            code=code,
            workers=given.workers,
            parallelism=given.parallelism,
            replace=given.replace,
            labels=given.labels,
            pins=given.pins,
            fewer=given.fewer,
            worker_memory_bytes=given.worker_memory_bytes,
            worker_cores=given.worker_cores,
            initial=given.initial,
            check=False,  # a client has done it: no code of a submission runs here
            submitted_by=session.who,
        )
    return _shown(submitted)


async def _tokens(session: Session, given: Nothing) -> list[TokenInfo]:
    return session.tokens.tokens.listed()


async def _revoke(session: Session, given: Name) -> None:
    await session.revoke(given.name)


async def _revoked_certificates(session: Session, given: Nothing) -> list[RevokedCertificate]:
    return await session.revoked.listed()


async def _revoke_certificate(session: Session, given: Fingerprint) -> None:
    await session.revoke_certificate(given.sha256, given.ends_s)


OPERATIONS: Final = table_of(
    (
        Operation("topologies", Role.VIEWER, _topologies, gives=list[TopologyInfo]),
        Operation("find", Role.VIEWER, _find, Name, TopologyInfo | None),
        Operation("topology", Role.VIEWER, _topology, Name, TopologyInfo),
        Operation("errors", Role.VIEWER, _errors, Name, tuple[ErrorEntry, ...]),
        Operation("nodes", Role.VIEWER, _nodes, gives=list[NodeInfo]),
        Operation("nimbuses", Role.VIEWER, _nimbuses, gives=list[str]),
        Operation("leader", Role.VIEWER, _leader, gives=str | None),
        Operation("logs", Role.VIEWER, _logs, Logs, dict[str, list[str]]),
        Operation("node_logs", Role.VIEWER, _node_logs, NodeLogs, list[ProcessLines]),
        Operation("activate", Role.OPERATOR, _activate, Name, changes=True),
        Operation("deactivate", Role.OPERATOR, _deactivate, Name, changes=True),
        Operation("rebalance", Role.OPERATOR, _rebalance, Rebalance, int, changes=True),
        Operation("update", Role.OPERATOR, _update, Update, int, changes=True),
        Operation("kill", Role.OPERATOR, _kill, Kill, changes=True),
        Operation("upload", Role.SUBMITTER, _upload, Upload, changes=True),
        Operation("submit", Role.SUBMITTER, _submit, Submit, TopologyInfo, changes=True),
        Operation("tokens", Role.ADMIN, _tokens, gives=list[TokenInfo]),
        Operation("revoke", Role.ADMIN, _revoke, Name, changes=True),
        Operation("revoked_certificates", Role.ADMIN, _revoked_certificates, gives=list[RevokedCertificate]),
        Operation("revoke_certificate", Role.ADMIN, _revoke_certificate, Fingerprint, changes=True),
    )
)
"""All requests that nimbus answers."""
