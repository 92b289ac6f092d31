"""Admission: who may come in at a listening address. Pure: connections and requests in, decisions out.

    accepted ──► unauthenticated ──► (TLS) ──► one request that asks for a websocket ──► authenticated
                    └─ at most 64, for 5 s, a few KiB each; then the connection is closed

1. There are at most `max_unauthenticated` connections that are not authenticated yet. If one more is accepted, the
   oldest of the address that has most of them is closed. So a flood of silent connections cannot keep others out, for
   an honest peer authenticates within milliseconds.
2. From one address there are at most `max_per_address` connections, strangers and others. (All who come by a unix
   socket have one address.)
3. The only request that is served is the one a Links peer makes: GET, the one path, and a Host that is one of ours:
   equal as a host and a port, not alike. So a page in a browser whose name was made to lead here gets nothing. Nor does
   any other: browsers always send an Origin with a websocket, and there is none that is right.

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
"""What a peer asks for: there is nothing else."""

UNIX_HOST: Final = "localhost:0"
"""The Host of a request over a unix socket. There is no right name for it, so it is this one."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How much strangers get."""

    max_unauthenticated: int = 64
    max_per_address: int = 256
    authenticate_within_s: float = 5.0
    request_bytes: int = 8 * 1024
    """What a stranger may send until it has its websocket."""
    unauthenticated_bytes: int = 4 * 1024
    """And from then on, until it is trusted."""


class Admission:
    """Counts connections. A connection is any object that can be a key."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._strangers: dict[object, str] = {}  # in the order in which they came
        self._addresses: Counter[str] = Counter()

    @property
    def strangers(self) -> int:
        """How many there are."""
        return len(self._strangers)

    def came(self, connection: object, address: str) -> list[object] | None:
        """A connection from there: who has to go for it; None: it has to go itself."""
        if self._addresses[address] >= self._limits.max_per_address:
            return None
        self._addresses[address] += 1
        self._strangers[connection] = address
        if len(self._strangers) <= self._limits.max_unauthenticated:
            return []
        [(most, _)] = Counter(self._strangers.values()).most_common(1)
        return [next(oldest for oldest, where in self._strangers.items() if where == most)]

    def trust(self, connection: object) -> None:
        """It is no stranger any more."""
        self._strangers.pop(connection, None)

    def gone(self, connection: object, address: str) -> None:
        """A connection that had come in is over. Once for each."""
        self._strangers.pop(connection, None)
        self._addresses[address] -= 1
        if self._addresses[address] <= 0:
            del self._addresses[address]


def refusal(
    method: str, target: str, headers: Iterable[tuple[str, str]], hosts: Sequence[TcpAddress] | None
) -> int | None:
    """The status with which a request is refused; None: it may ask for its websocket.

    `hosts` are ours; None: what the host is was checked otherwise.
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
    """Is the Host of a request one of these, as a host and a port?"""
    try:
        asked = parse_address(host)
    except NetworkError:
        return False
    return isinstance(asked, TcpAddress) and any(
        asked.port == ours.port and (asked.host == ours.host if asked.ip is None else asked.ip == ours.ip)
        for ours in hosts
    )
