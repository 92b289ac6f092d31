"""Nimbus: what a client asks of a nimbus, where it has no access to the store. `Cluster` uses it.

1. Requests are those of `serving`; what only reads is asked again when the connection is lost.
2. Errors are those that a client of the store gets: nimbus names their classes, and this module knows them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ...topology import ConfigError
from ...transport import Credentials, NetworkError, TlsFiles
from ..access import (
    AuditError,
    DeniedError,
    NimbusLink,
    RequestError,
    RevokedCertificate,
    TokenInfo,
    nimbus_addresses,
    nimbus_link,
    problems_of,
    value_of,
)
from ..code import ArchiveError, BlobError
from ..coordination import UnavailableError
from ..logs import LogsAsked, NodeAwayError, ProcessLines
from ..nimbus import ErrorEntry, OrderError, RecordError, TopologyRecord, Wanted
from .errors import CheckError, ClusterError, NoClusterError
from .submission import rebalanced, submitted
from .views import NodeInfo, TopologyInfo

if TYPE_CHECKING:
    from ...runtime import Clock

TOKEN_VARIABLE: Final = "AIOSTORM_TOKEN_FILE"  # noqa: S105 - a name
CERTIFICATE_VARIABLE: Final = "AIOSTORM_CERTIFICATE"

LOOK_S: Final = 0.3
"""How often it is looked for what is waited for."""

ORDERS: Final[Mapping[Wanted, str]] = {"ACTIVE": "activate", "INACTIVE": "deactivate", "KILLED": "kill"}

_ERRORS: Final[Mapping[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        ArchiveError,
        AuditError,
        BlobError,
        CheckError,
        ClusterError,
        ConfigError,
        DeniedError,
        NoClusterError,
        NodeAwayError,
        OrderError,
        RecordError,
        RequestError,
        UnavailableError,
        ValueError,
    )
} | {"SessionLostError": UnavailableError}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class AskedNimbus:
    """Where nimbus is, and what is shown to it: a token or a certificate. `certificate`: the folder with it."""

    addresses: tuple[str, ...]
    token_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None

    @asynccontextmanager
    async def opened(self, clock: Clock) -> AsyncIterator[NimbusOrders]:
        """Requests to it. CredentialsError if the token, a certificate or its key cannot be used."""
        token = None if self.token_file is None else await asyncio.to_thread(Credentials.from_file, self.token_file)
        tls = None if self.ca is None else TlsFiles.of_authority(str(self.ca))
        if self.certificate is not None:
            tls = TlsFiles.in_folder(str(self.certificate))
        async with nimbus_link(self.addresses, token, tls, clock) as link:
            yield NimbusOrders(link)


def asked_nimbus(
    url: str, token_file: Path | str | None, ca: Path | str | None, certificate: Path | str | None = None
) -> AskedNimbus | None:
    """Which nimbus a URL means; None: it is one of a store. ClusterError without token and certificate; ValueError."""
    try:
        addresses = nimbus_addresses(url)
    except NetworkError as error:
        raise ValueError(str(error)) from error
    if addresses is None:
        if token_file is not None or ca is not None or certificate is not None:
            raise ValueError(f"{url} is a store, for which no token is needed: name a nimbus, aiostorm://HOST:PORT")
        return None
    if not token_file and not certificate:
        token_file, certificate = os.environ.get(TOKEN_VARIABLE), os.environ.get(CERTIFICATE_VARIABLE)
    if token_file and certificate:
        raise ValueError(
            "a token and a certificate: which of two roles is meant? Give --token-file (token_file=) or --certificate "
            "(certificate=)"
        )
    if certificate:
        return _shown(addresses, Path(certificate), ca)
    if not token_file:
        raise ClusterError(
            f"{url} needs a token: --token-file FILE (token_file=, {TOKEN_VARIABLE}); `aiostorm token add` makes one. "
            f"Or a certificate: --certificate DIR (certificate=, {CERTIFICATE_VARIABLE}), of `aiostorm certs client`"
        )
    return AskedNimbus(addresses, Path(token_file), None if ca is None else Path(ca))


def _shown(addresses: tuple[str, ...], certificate: Path, ca: Path | str | None) -> AskedNimbus:
    """A nimbus to which a certificate is shown. ValueError."""
    if any(each.startswith("unix:") for each in addresses):
        raise ValueError("a certificate is shown over TLS only: name HOST:PORT, or use a token at a unix socket")
    if ca is not None:
        raise ValueError(f"--certificate (certificate=) has the CA's certificate, {certificate}/ca.pem: leave out --ca")
    return AskedNimbus(addresses, certificate=certificate)


class NimbusOrders:
    """Requests to a nimbus. All methods raise UnavailableError, DeniedError, RequestError, and what `Cluster` does."""

    def __init__(self, link: NimbusLink) -> None:
        self._link = link

    async def topologies(self) -> list[TopologyInfo]:
        return await self._read("topologies", list[TopologyInfo])

    async def topology(self, name: str) -> TopologyInfo:
        return await self._read("topology", TopologyInfo, name=name)

    async def find(self, name: str) -> TopologyInfo | None:
        found: Any = TopologyInfo | None
        return await self._read("find", found, name=name)

    async def nodes(self) -> list[NodeInfo]:
        return await self._read("nodes", list[NodeInfo])

    async def nimbuses(self) -> list[str]:
        return await self._read("nimbuses", list[str])

    async def leader(self) -> str | None:
        found: Any = str | None
        return await self._read("leader", found)

    async def errors(self, name: str) -> tuple[ErrorEntry, ...]:
        return await self._read("errors", tuple[ErrorEntry, ...], name=name)

    async def logs(self, name: str, process: str, lines: int) -> dict[str, list[str]]:
        """Process → its last lines, on the machine of nimbus."""
        return await self._read("logs", dict[str, list[str]], name=name, process=process, lines=lines)

    async def node_logs(self, node: str, asked: LogsAsked) -> list[ProcessLines]:
        """The next lines of a topology's processes on a node. NodeAwayError."""
        return await self._read("node_logs", list[ProcessLines], node=node, asked=asdict(asked))

    async def tokens(self) -> list[TokenInfo]:
        """All tokens."""
        return await self._read("tokens", list[TokenInfo])

    async def revoke(self, name: str) -> None:
        """Revoke a token."""
        await self._change("revoke", {"name": name})

    async def revoked_certificates(self) -> list[RevokedCertificate]:
        """The certificates of clients that are not accepted any more."""
        return await self._read("revoked_certificates", list[RevokedCertificate])

    async def revoke_certificate(self, sha256: str, ends_s: float) -> None:
        """Revoke the certificate of a client."""
        known: dict[str, Any] = {"ends_s": ends_s} if ends_s else {}
        await self._change("revoke_certificate", {"sha256": sha256, **known})

    async def want(self, name: str, wanted: Wanted, wait_s: float | None) -> None:
        """Activate, deactivate or kill."""
        arguments: dict[str, Any] = {"name": name}
        if wanted == "KILLED":
            arguments["wait_s"] = wait_s
        await self._change(ORDERS[wanted], arguments)

    async def rebalance(
        self,
        name: str,
        workers: int | None,
        parallelism: dict[str, int],
        drain_s: float | None,
        pins: Mapping[str, frozenset[str]],
    ) -> int:
        """The generation in which it is to run so."""
        given = rebalanced(name, workers, parallelism, drain_s, pins)
        return _read(await self._link.ask("rebalance", given, again=False), int)

    async def update(self, name: str, settings: Mapping[str, Any]) -> int:
        """The number of the update."""
        given = {"name": name, "config": dict(settings)}
        return _read(await self._link.ask("update", given, again=False), int)

    async def submit(self, name: str, record: TopologyRecord, archive: bytes | None, *, replace: bool = False) -> None:
        """Hand a topology over, with its code. Nimbus checks the record as `Cluster.submit` does.

        `replace`: it is there, and gets other code.
        """
        arguments = submitted(name, record, archive, replace=replace)
        if archive is None:
            return await self._change("submit", arguments)
        return _check(await self._link.ask_with(archive, "submit", arguments))

    async def until(self, look: Callable[[], Awaitable[_T | None]]) -> _T:
        """Look again and again, until something is found."""
        while True:
            try:
                found = await look()
                if found is not None:
                    return found
            except UnavailableError:
                pass  # another nimbus will answer, or this one again
            await asyncio.sleep(LOOK_S)

    async def _read(self, request: str, kind: type[_T], /, **arguments: Any) -> _T:
        return _read(await self._link.ask(request, arguments, again=True), kind)

    async def _change(self, name: str, arguments: Mapping[str, Any]) -> None:
        _check(await self._link.ask(name, arguments, again=False))


def _read(document: bytes, kind: type[_T]) -> _T:
    value, error = value_of(document)
    if error is not None:
        raise _error(*error)
    try:
        found: _T = TypeAdapter(kind).validate_json(value)
    except ValidationError as wrong:
        text = f"nimbus sends what cannot be read ({problems_of(wrong)}): do both run the same version?"
        raise RequestError(text) from wrong
    return found


def _check(document: bytes) -> None:
    _, error = value_of(document)
    if error is not None:
        raise _error(*error)


def _error(kind: str, text: str) -> Exception:
    return _ERRORS.get(kind, ClusterError)(text)
