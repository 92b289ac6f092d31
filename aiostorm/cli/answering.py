"""How a nimbus answers clients: at which address, with which certificate, and who may ask.

1. Without --listen it is a socket in the home folder. If another nimbus of this home has it, this one waits.
2. An address that other machines can reach needs a certificate, or nothing starts: ExposedError. Clients show one of
   the same CA, or a token: without tokens only those with certificates are answered, which is said.
3. The store is opened for clients with a session of its own: theirs are not the leader's.
4. Logs of other nodes come from their supervisors, with the credentials of nodes: those of --credentials, else of
   --certificates, else of the home folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..cluster import PARENT, WORKER, Cluster, check_name
from ..cluster.access import AuditLog, RevokedCertificates, TokenFile
from ..cluster.coordination import Coordination, UnavailableError
from ..cluster.logs import LOGS, LogsAsked, NodeAwayError, NodeLogs, ProcessLines, last_lines, read_pieces
from ..cluster.serving import NimbusServer, Served, Uploads
from ..transport import (
    Credentials,
    ExposedError,
    NetworkError,
    Security,
    SocketNetwork,
    TcpAddress,
    TlsFiles,
    is_loopback,
    open_network,
    parse_address,
    resolved,
)
from .errors import CommandError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..cluster import Home
    from ..runtime import Clock
    from .options import ClusterOptions

log = logging.getLogger("aiostorm.nimbus")

RETRY_S: Final = 1.0

OpenStore = Callable[[], AbstractAsyncContextManager[Coordination]]

Logs = Callable[[str, str, int], Awaitable[dict[str, list[str]]]]
"""Topology, process (empty: all), how many lines → the last lines of each process."""


@dataclass(frozen=True, slots=True)
class Answering:
    """Where a nimbus answers. `address`: as --listen, or the socket in the home folder.

    `node`: the folder with the credentials of a node, to ask others for logs; empty: those of the home folder.
    """

    address: str
    tls: TlsFiles | None = None
    node: str = ""

    def for_nodes(self, home: Home) -> Security:
        """How supervisors are asked. CredentialsError."""
        if self.node:
            return Security.from_directory(self.node)
        return Security(Credentials.from_file(home.credentials))

    async def check(self, tokens: TokenFile) -> None:
        """ExposedError if other machines can reach it, and something is missing. NetworkError; CredentialsError."""
        address = parse_address(self.address)
        if not isinstance(address, TcpAddress) or all(map(is_loopback, await resolved(address))):
            return
        found = await asyncio.to_thread(tokens.read)
        if self.tls is None:
            raise ExposedError(
                f"other machines can reach nimbus at {self.address}: it needs TLS (--certificates DIR, of `aiostorm "
                "certs node`), and its clients tokens (`aiostorm token add NAME --role ROLE`) or certificates "
                "(`aiostorm certs client`); or listen at 127.0.0.1"
            )
        if not found.entries:
            log.warning("there is no token (`aiostorm token add`): only clients with a certificate are answered")


def answering_of(home: Home, listen: str | None, certificates: str | None, credentials: str | None = None) -> Answering:
    """What the options say. CommandError."""
    node = credentials or ""
    if listen is None:
        if certificates is not None:
            raise CommandError("--certificates is for --listen HOST:PORT: add it, or leave both out")
        return Answering(home.nimbus_socket, node=node)
    if not node and certificates is not None and (Path(certificates) / "credentials").exists():
        node = certificates
    try:
        parse_address(listen)
    except NetworkError as error:
        raise CommandError(f"--listen: {error}") from error
    files = None if certificates is None else TlsFiles.in_folder(certificates)
    return Answering(listen, files and TlsFiles(files.certificate, files.key, files.ca, one_sided=True), node)


async def check_answering(options: ClusterOptions, answering: Answering) -> None:
    """As Answering.check, with the tokens of the home folder."""
    await answering.check(TokenFile(options.home.tokens))


async def answer_clients(
    options: ClusterOptions,
    answering: Answering,
    open_store: OpenStore,
    clock: Clock,
    at: asyncio.Future[str] | None = None,
) -> None:
    """Answer until the call is cancelled, where `check_answering` allows it. NetworkError, CredentialsError.

    `at`: gets the real address, with the port that the system chose for HOST:0.
    """
    home = options.home
    tokens = TokenFile(home.tokens, clock)
    served = Served(tokens, AuditLog(home.audit), Uploads(home.nimbus / "code"), logs_of(home), clock)
    # The credentials only say that peers have to authenticate: what they prove is a token of theirs.
    security = Security(await asyncio.to_thread(Credentials.from_file, home.credentials), answering.tls)
    for_nodes = (await asyncio.to_thread(answering.for_nodes, home)).derived(LOGS)
    async with (
        asyncio.TaskGroup() as group,
        SocketNetwork(security) as network,
        open_network("nimbus", for_nodes, role=PARENT, roles=(WORKER,)) as nodes,
        NodeLogs(nodes) as asking,
    ):
        served.node_logs = partial(ask_node, home, served, asking)
        group.create_task(keep_open(options, served, open_store, clock))
        server = NimbusServer(served, network)
        own = answering.address == home.nimbus_socket

        def listening(address: str) -> None:
            log.info("answers clients at %s", address)
            if at is not None and not at.done():
                at.set_result(address)

        await server.serve(answering.address, listening, patient=own)


def logs_of(home: Home) -> Logs:
    """What reads the logs on this machine. ValueError for a name that no topology has."""

    async def logs(name: str, process: str, lines: int) -> dict[str, list[str]]:
        check_name(name)
        return await asyncio.to_thread(last_lines, home.logs(name), process, lines)

    return logs


async def ask_node(home: Home, served: Served, asking: NodeLogs, node: str, asked: LogsAsked) -> list[ProcessLines]:
    """The next lines of a topology's processes on a node. NodeAwayError; ValueError for a name that none has."""
    check_name(asked.name)
    if served.cluster is None:
        raise UnavailableError("this nimbus cannot reach the cluster's store: try again, or another nimbus")
    record = await served.cluster.supervisor(node)
    if record is None:
        raise NodeAwayError("no supervisor of this name is in the cluster now")
    if record.logs:
        return await asking.ask(record.logs, asked)
    if not record.address and record.home == str(home.path):  # of a cluster of one machine
        return await asyncio.to_thread(read_pieces, home.logs(asked.name), asked)
    raise NodeAwayError(
        "its supervisor has no address for its logs: start it with --host, and with this version of aiostorm"
    )


async def keep_open(options: ClusterOptions, served: Served, open_store: OpenStore, clock: Clock) -> None:
    """Give clients a cluster while the store can be reached; a lost session is followed by another one."""
    while True:
        try:
            async with open_store() as coordination:
                shared = Cluster(
                    options.store,
                    home=options.home,
                    ordered_by=None,  # the server writes who has asked
                    clock=clock,
                    open_store=lambda url, clock: _lent(coordination),
                )
                async with shared as served.cluster:
                    served.revoked = RevokedCertificates(coordination)
                    status = coordination.status
                    while status != "lost":
                        status = await coordination.status_other_than(status)
                    served.cluster = served.revoked = None
        except UnavailableError as error:
            log.debug("clients wait for the store: %s", error)
        finally:
            served.cluster = served.revoked = None
        await clock.sleep(RETRY_S)


@asynccontextmanager
async def _lent(coordination: Coordination) -> AsyncIterator[Coordination]:
    """A store that is closed by another one."""
    yield coordination
