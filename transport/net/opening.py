"""Opening: the network of a real process, as its security settings require."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from .admission import AdmissionLimits
from .authenticated import AuthenticatedNetwork
from .authentication import Identity
from .network import Network
from .security import Security
from .socket_network import SocketNetwork


@asynccontextmanager
async def open_network(
    name: str,
    security: Security,
    *,
    role: str = "node",
    roles: Iterable[str] = ("node",),
    hosts: Iterable[str] = (),
    limits: AdmissionLimits | None = None,
) -> AsyncIterator[Network]:
    """A network of sockets, authenticated if there are credentials. `name`, `role`: our own; `roles`: those accepted.

    `hosts`: addresses under which peers know a listener of this process. CredentialsError if a file cannot be used.
    """
    async with SocketNetwork(security, hosts=hosts, limits=limits) as network:
        if security.credentials is None:
            yield network
            return
        limits = limits or AdmissionLimits()
        async with AuthenticatedNetwork(
            network,
            security.credentials,
            Identity(name, role),
            roles=roles,
            within_s=limits.authenticate_within_s,
            max_pending=limits.max_unauthenticated,
        ) as authenticated:
            yield authenticated
