"""Opening: the network of a real process, as its security asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from .admission import AdmissionLimits
from .authenticated import AuthenticatedNetwork
from .authentication import Identity
from .network import Network
from .security import Security


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
    """Websockets; with credentials, authenticated ones. `name` and `role`: who we are; `roles`: whom we speak to.

    `hosts`: addresses under which others know what listens here. CredentialsError if a file cannot be used.
    """
    from .websockets import WebSocketNetwork  # aiohttp: for who opens one

    async with WebSocketNetwork(security, hosts=hosts, limits=limits) as network:
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
