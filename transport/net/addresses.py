"""Addresses: how an address is written, and which addresses other machines can reach. Pure.

    host:port      [::1]:port      unix:/a/path

1. A port is 0 to 65535 and never left out. A listener with port 0 gets any free port.
2. Addresses that only this machine can reach need no protection: a unix socket, 127.0.0.0/8, ::1, and 127.0.0.0/8
   written as IPv6. Other machines can reach every other address; 0.0.0.0 and :: stand for all addresses at once. A host
   name has to be resolved first: the caller resolves it, checks each resolved address, and uses exactly those. Only
   `localhost` passes unresolved; its resolved address is checked again.
3. An address that other machines can reach needs TLS with certificates checked on both sides, and a token. Otherwise it
   is refused, with an error that names what is missing. `insecure` is for networks that are protected otherwise.

From: the open ports of Dask and Ray (CVE-2021-42343, CVE-2023-48022), which attackers found by scanning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from ..errors import ExposedError, NetworkError

_UNIX: Final = "unix:"
_MAX_HOST_CHARS: Final = 253
_HOST_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host (an IP address, or a name in lower case) and a port."""

    host: str
    port: int

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The host, if it is an IP address. An IPv4 address written as IPv6 is returned as IPv4."""
        return _ip(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """The address in the text. NetworkError if the text is no address."""
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if not path.startswith("/") or "\0" in path:
            raise NetworkError(f"{text[:140]!r}: a unix socket is unix:/an/absolute/path")
        return UnixAddress(path)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_host = isinstance(_parsed(host), IPv6Address)
    else:
        host = host.lower()
        is_host = 0 < len(host) <= _MAX_HOST_CHARS and _HOST_CHARS.issuperset(host)
    if not (colon and is_host and 0 < len(port) <= 5 and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise NetworkError(f"{text[:140]!r} is not an address: use host:port, [::1]:port or unix:/path")
    return TcpAddress(host, int(port))


def is_loopback(host: str) -> bool:
    """Is it an IP address that only this machine can reach? A name is not."""
    ip = _ip(host)
    return ip is not None and ip.is_loopback


def check_exposure(addresses: Iterable[str], *, tls: bool, token: bool, insecure: bool = False) -> None:
    """Check the addresses to listen at. `tls`: with certificates checked on both sides.

    ExposedError if other machines can reach one of them and something is missing. Resolve host names first.
    """
    for text in addresses:
        address = parse_address(text)
        if isinstance(address, UnixAddress) or address.host == "localhost" or is_loopback(address.host):
            continue
        missing = [option for option, there in (("TLS", tls), ("a token", token)) if not there]
        if missing and not insecure:
            raise ExposedError(
                f"{text} can be reached from other machines: it needs {' and '.join(missing)}. Listen at "
                "127.0.0.1 instead, or give --credentials DIR, with the files that `aiostorm certs` makes "
                "(or --insecure, if the network itself is protected)"
            )


def check_dialled(host: str, *, tls: bool, insecure: bool = False) -> None:
    """Check an IP address to dial. A host name passes: check its resolved addresses.

    ExposedError if it is another machine and there is no TLS.
    """
    ip = _ip(host)
    if tls or insecure or ip is None or ip.is_loopback:
        return
    raise ExposedError(
        f"{host} is another machine: without TLS, third parties can read and alter what is sent. Give "
        "--credentials DIR with the files that `aiostorm certs` makes (or --insecure, if the network is protected)"
    )


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    ip = _parsed(host)
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    return ip


def _parsed(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
