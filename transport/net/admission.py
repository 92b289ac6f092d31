"""Admission: which connections a listener accepts. Pure: connections and requests in, decisions out.

    accepted ──► unauthenticated ──► (TLS) ──► one request that asks for a websocket ──► authenticated
                    └─ at most 64, for 5 s, a few KiB each; then the connection is closed

1. There are at most `max_unauthenticated` connections that are not authenticated yet. If one more is accepted, the
   oldest of the address that has most of them is closed. So a flood of silent connections cannot keep others out, for
   an honest peer authenticates within milliseconds.
2. At most `max_per_address` connections come from one address. All connections over a unix socket have one address.
3. Only one request is served, the one that a peer's Links sends: GET, the one path, and a Host that names this listener
   (host and port are compared, not text). So a page in a browser whose host name was redirected to this machine gets
   nothing. Neither does any other page: browsers send an Origin with a websocket request, and no Origin is accepted.

From: CVE-2025-62593 (Ray: DNS rebinding), CVE-2026-21883 (Bokeh: an Origin that is like ours), and slow loris.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from ..errors import NetworkError
from .addresses import TcpAddress, parse_address

PATH: Final = "/aiostorm/link"
"""The only path that is served."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Limits for connections that are not authenticated yet."""

    max_unauthenticated: int = 64
    max_per_address: int = 256
    authenticate_within_s: float = 5.0
    request_bytes: int = 8 * 1024
    """What a peer may send until it has its websocket."""
    unauthenticated_bytes: int = 4 * 1024
    """What a peer may send after that, until it is authenticated."""


class Admission:
    """Counts connections. Any hashable object can stand for a connection."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._unauthenticated: dict[object, str] = {}  # oldest first
        self._addresses: Counter[str] = Counter()

    @property
    def unauthenticated(self) -> int:
        """How many connections are not authenticated yet."""
        return len(self._unauthenticated)

    def opened(self, connection: object, address: str) -> list[object] | None:
        """A connection was accepted. Returns the connections to close for it; None: close this one."""
        if self._addresses[address] >= self._limits.max_per_address:
            return None
        self._addresses[address] += 1
        self._unauthenticated[connection] = address
        if len(self._unauthenticated) <= self._limits.max_unauthenticated:
            return []
        [(most, _)] = Counter(self._unauthenticated.values()).most_common(1)
        return [next(oldest for oldest, source in self._unauthenticated.items() if source == most)]

    def authenticated(self, connection: object) -> None:
        """The peer of this connection is authenticated."""
        self._unauthenticated.pop(connection, None)

    def closed(self, connection: object, address: str) -> None:
        """A connection that was accepted has ended. Called once for each."""
        self._unauthenticated.pop(connection, None)
        self._addresses[address] -= 1
        if self._addresses[address] <= 0:
            del self._addresses[address]


def refusal(
    method: str, target: str, headers: Iterable[tuple[str, str]], hosts: Sequence[TcpAddress] | None
) -> int | None:
    """The HTTP status with which a request is refused; None: it may open a websocket.

    `hosts`: the accepted values of Host; None: the host was checked otherwise.
    """
    named = [(name.lower(), value) for name, value in headers]
    if target != PATH:
        return HTTPStatus.NOT_FOUND
    if method != "GET":
        return HTTPStatus.METHOD_NOT_ALLOWED
    if any(name == "origin" for name, _ in named):
        return HTTPStatus.FORBIDDEN
    asked = [value for name, value in named if name == "host"]
    if len(asked) != 1 or (hosts is not None and not is_ours(asked[0], hosts)):
        return HTTPStatus.MISDIRECTED_REQUEST
    if not any(name == "upgrade" and value.lower() == "websocket" for name, value in named):
        return HTTPStatus.UPGRADE_REQUIRED
    return None


def is_ours(host: str, hosts: Iterable[TcpAddress]) -> bool:
    """Is the Host of a request one of these hosts and ports?"""
    try:
        asked = parse_address(host)
    except NetworkError:
        return False
    return isinstance(asked, TcpAddress) and any(
        asked.port == ours.port and (asked.host == ours.host if asked.ip is None else asked.ip == ours.ip)
        for ours in hosts
    )
