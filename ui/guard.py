"""Guard: which requests are answered. Decisions only.

    connection ─► Host ─► Origin, Sec-Fetch-Site ─► role of the route ─► token ─► (to change something) CSRF header

1. Every route has a role. One without a role is refused, and is an error at the start.
2. The Host must be one of the listener's own names, whatever the method: a page of another site whose name is resolved
   to this address (DNS rebinding) has another Host.
3. An Origin must be exactly the scheme, host and port of this Host. There is no CORS: other sites read nothing.
4. Without a token, only connections over loopback or a unix socket are answered, however the server was started.
5. A token comes in the header Authorization only: never in a URL, nor in a cookie, which a browser adds by itself.
6. What changes something needs the header CSRF_HEADER, which a form of another site cannot send, and the role OPERATOR.
7. Roles and tokens are those of a cluster (cluster/access); one token alone is that of an operator.

From: CVE-2025-62593 (Ray: DNS rebinding), CVE-2026-27482 (Ray: a method was forgotten), CVE-2026-21883 (Bokeh: an
origin that was compared in part).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from ..cluster.access import Holder, Role
from ..transport import NetworkError, Secret, TcpAddress, parse_address

CSRF_HEADER: Final = "X-Aiostorm"

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

MIN_TOKEN_CHARS: Final = 32

_PORTS: Final[Mapping[str, int]] = MappingProxyType({"http": 80, "https": 443})

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Server": "aiostorm",
    }
)
"""Of every response."""


class Origin(NamedTuple):
    """Where a page is from, as browsers compare it. `host` in lower case, an IPv6 address without brackets."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request that count. `scheme`: of the connection; `local`: it comes over loopback.

    `hosts`, `origins`: all headers of that name. `own`: (host, port) of the connection's own end; None: a unix socket.
    """

    method: str
    scheme: str
    local: bool
    own: tuple[str, int] | None
    hosts: tuple[str, ...]
    origins: tuple[str, ...] = ()
    fetch_site: str = ""
    fetch_mode: str = ""
    authorization: str = ""
    csrf: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status and the reason of a response that refuses a request."""

    status: int
    reason: str


class Bearers(Protocol):
    """Tokens of several holders, each with a role (see TokenFile)."""

    def check(self, text: str) -> Holder | None:
        """Who has the token with this text; None: it is none, or not valid any more."""
        ...


class OneToken:
    """One token, whose holder is an operator. ValueError if it is too short."""

    def __init__(self, token: Secret) -> None:
        if len(token.reveal()) < MIN_TOKEN_CHARS:
            raise ValueError(f"a token has {MIN_TOKEN_CHARS} characters or more: it is all that keeps others out")
        self._digest = hashlib.sha256(token.reveal()).digest()

    def check(self, text: str) -> Holder | None:
        """As Bearers.check."""
        found = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        return Holder("the token", Role.OPERATOR) if hmac.compare_digest(found, self._digest) else None


class Guard:
    """The rules of one server. `names`: the origins under which it is known, and by the connection's own end.

    On connections over loopback these are also `localhost`, `127.0.0.1` and `[::1]` with the connection's port.
    `bearers`: who may ask; None: any process of this machine.
    """

    def __init__(
        self, names: tuple[Origin, ...] = (), *, bearers: Bearers | None = None, read_only: bool = False
    ) -> None:
        self.read_only = read_only
        self._names = frozenset(names)
        self._bearers = bearers

    @property
    def has_token(self) -> bool:
        """Is a token needed?"""
        return self._bearers is not None

    def refusal(self, asked: Asked, role: Role | None) -> Refusal | None:
        """Why a request is refused; None: it may go on."""
        if not asked.local and not self.has_token:
            return Refusal(403, "this page has no token, and is for this machine only")
        known = self._known(asked)
        if not known:
            return Refusal(
                421, "the Host is none of this server's names: use its address, or name the host at its start"
            )
        if role is None:
            return Refusal(403, "this route has no role")
        if not _from_here(asked, known, role):
            return Refusal(403, "a page of another site may not ask this server")
        if role is not Role.PUBLIC and self._bearers is not None:
            holder = self.holder(asked.authorization)
            if holder is None:
                return Refusal(401, "the token is missing or wrong")
            if not holder.role.includes(role):
                return Refusal(403, f"this needs the role {role.value}, and the token {holder.name} has another one")
        if role is Role.OPERATOR and self.read_only:
            return Refusal(403, "this page is read-only")
        if asked.method not in SAFE_METHODS and asked.csrf != "1":
            return Refusal(403, f"a request that changes something needs the header {CSRF_HEADER}: 1")
        return None

    def holder(self, authorization: str) -> Holder | None:
        """Who has the token in the header; None: there is none, or no token is needed."""
        return None if self._bearers is None else _holder(self._bearers, authorization)

    def _known(self, asked: Asked) -> set[Origin]:
        """The origins of this server for which the Host stands."""
        if len(asked.hosts) != 1:
            return set()
        ports = {asked.own[1]} if asked.own is not None else {80}
        names = {asked.own[0]} if asked.own is not None else set[str]()
        names |= {"localhost", "127.0.0.1", "::1"} if asked.local else set[str]()
        own = {Origin(asked.scheme, name, port) for name in names for port in ports}
        return {each for each in own | self._names if split_host(asked.hosts[0], each.scheme) == (each.host, each.port)}


def _holder(bearers: Bearers, authorization: str) -> Holder | None:
    """Who has the token in the header."""
    scheme, _, given = authorization.partition(" ")
    found = bearers.check(given.strip())
    return found if scheme.lower() == "bearer" else None


def _from_here(asked: Asked, known: set[Origin], role: Role) -> bool:
    if asked.origins and (len(asked.origins) != 1 or parse_origin(asked.origins[0]) not in known):
        return False
    if asked.fetch_site in ("", "same-origin", "none"):
        return True
    # A link on another site may lead to the page, which has no data of its own.
    return role is Role.PUBLIC and asked.method in SAFE_METHODS and asked.fetch_mode == "navigate"


def parse_origin(text: str) -> Origin | None:
    """`http://host`, `https://host:port`; None for any other text."""
    scheme, _, rest = text.partition("://")
    parsed = split_host(rest, scheme)
    return None if parsed is None else Origin(scheme, *parsed)


def split_host(text: str, scheme: str) -> tuple[str, int] | None:
    """(host, port) of a Host header, the usual port of the scheme if it has none; None if it is no host."""
    default = _PORTS.get(scheme)
    if default is None or text.startswith("unix:"):
        return None
    has_port = "]:" in text if text.startswith("[") else ":" in text
    try:
        address = parse_address(text if has_port else f"{text}:{default}")
    except NetworkError:
        return None
    return (address.host, address.port) if isinstance(address, TcpAddress) else None
