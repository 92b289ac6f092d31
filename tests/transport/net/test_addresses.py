"""Addresses: the limits of how one is written, and which of them stay on this machine."""

from __future__ import annotations

import ipaddress

import pytest

from aiostorm.transport import ExposedError, NetworkError
from aiostorm.transport.net.addresses import (
    TcpAddress,
    UnixAddress,
    check_dialled,
    check_exposure,
    is_loopback,
    parse_address,
)

LONGEST = "a" * 253


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a:0", "a", 0),
        ("a:65535", "a", 65_535),
        ("A.Example:007", "a.example", 7),
        (f"{LONGEST}:1", LONGEST, 1),
        ("a-b_c.0:1", "a-b_c.0", 1),
        ("[::1]:80", "::1", 80),
        ("[FE80::1]:80", "FE80::1", 80),
    ],
)
def test_a_host_and_a_port(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == TcpAddress(host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", [f"{LONGEST}a:1", ":1", "a:", "a:65536", "a:000001", "[::1:80", "::1]:80"])
def test_one_beyond_a_limit_is_no_address(text: str) -> None:
    with pytest.raises(NetworkError, match=r"is not an address: use host:port, \[::1\]:port or unix:/path"):
        parse_address(text)


def test_a_long_text_is_shown_in_part() -> None:
    for text in ("x" * 1000, "unix:" + "x" * 1000):
        with pytest.raises(NetworkError) as refused:
            parse_address(text)
        assert repr(text[:140]) in str(refused.value)
        assert text[:141] not in str(refused.value)


def test_a_unix_socket_has_an_absolute_path() -> None:
    assert parse_address("unix:/run/a") == UnixAddress("/run/a")
    assert str(UnixAddress("/run/a")) == "unix:/run/a"
    for text in ("unix:run/a", "unix:", "unix:/a\0"):
        with pytest.raises(NetworkError, match="unix:/an/absolute/path"):
            parse_address(text)


def test_ip_addresses() -> None:
    assert TcpAddress("::ffff:10.0.0.2", 1).ip == ipaddress.ip_address("10.0.0.2")
    assert TcpAddress("::1", 1).ip == ipaddress.ip_address("::1")
    assert TcpAddress("10.0.0.2", 1).ip == ipaddress.ip_address("10.0.0.2")
    assert TcpAddress("a.example", 1).ip is None
    assert str(TcpAddress("::1", 1)) == "[::1]:1"
    assert str(TcpAddress("10.0.0.2", 1)) == "10.0.0.2:1"


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("10.0.0.2", "0.0.0.0", "::", "::ffff:10.0.0.2", "localhost", "")))  # noqa: S104


def test_what_may_be_dialled() -> None:
    for host in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "a.example"):
        check_dialled(host, tls=False)
    for host in ("10.0.0.2", "::ffff:10.0.0.2", "2001:db8::1"):
        with pytest.raises(ExposedError, match=f"^{host} is another machine"):
            check_dialled(host, tls=False)
        check_dialled(host, tls=True)
        check_dialled(host, tls=False, insecure=True)


def test_each_address_to_listen_at_is_checked() -> None:
    check_exposure([], tls=False, token=False)
    for addresses in (["10.0.0.2:1", "127.0.0.1:1"], ["unix:/a", "localhost:1", "10.0.0.2:1"]):
        with pytest.raises(ExposedError, match=r"^10.0.0.2:1 can be reached from other machines"):
            check_exposure(addresses, tls=False, token=False)
