"""Host: whether processes of a node will be reached at its address, tried before a supervisor starts.

    resolve ─► protected, if others reach it? ─► listen as a parent does ◄── connect as a worker does

What is wrong with an address, a certificate or its roles would else be seen when the first topology does not start.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..cluster import PARENT, WORKER
from ..transport import (
    AuthenticationError,
    NetworkError,
    TcpAddress,
    check_exposure,
    open_network,
    parse_address,
    resolved,
)
from .errors import CommandError

if TYPE_CHECKING:
    from ..cluster.supervisor import Listening
    from ..transport import Connection, Security

_ALL = ("0.0.0.0", "::")  # noqa: S104 - refused
_WORKER = "worker-0"


async def try_host(listening: Listening, security: Security) -> None:
    """ExposedError if other machines reach it and TLS or a token is missing; CommandError if it cannot be used."""
    try:
        address = parse_address(listening.listen)
        if not isinstance(address, TcpAddress) or address.host in _ALL:
            raise CommandError(f"--host {listening.host}: give the one address at which other nodes reach this one")
        ips = await resolved(address)
    except NetworkError as error:
        raise CommandError(f"--host {listening.host}: {error}") from error
    tls, token = security.tls is not None, security.credentials is not None
    check_exposure((str(TcpAddress(ip, 0)) for ip in ips), tls=tls, token=token, insecure=security.insecure)
    try:
        await _connect(listening.listen, security)
    except NetworkError as error:
        raise CommandError(
            f"--host {listening.host}: processes of this node would not be reached there: {error}{_roles(error)}"
        ) from error


async def _connect(address: str, security: Security) -> None:
    accepted: asyncio.Queue[Connection] = asyncio.Queue(1)
    async with (
        open_network(PARENT, security, role=PARENT, roles=(WORKER,)) as parent,
        open_network(_WORKER, security, role=WORKER, roles=(PARENT,)) as worker,
    ):
        listener = await parent.listen(address, accepted.put_nowait)
        try:
            connection = await worker.connect(listener.address)
            connection.close()
            (await accepted.get()).close()
        finally:
            listener.close()


def _roles(error: NetworkError) -> str:
    if not isinstance(error, AuthenticationError):
        return ""
    return ". Its certificate must have both roles: aiostorm certs node --role parent --role worker"
