"""Admission: who leaves when too many have not authenticated yet, and which request is served."""

from __future__ import annotations

import pytest

from aiostorm.transport.net.addresses import TcpAddress
from aiostorm.transport.net.admission import PATH, Admission, AdmissionLimits, is_ours, refusal

HERE = [TcpAddress("127.0.0.1", 6700)]
GOOD = [("Host", "127.0.0.1:6700"), ("Upgrade", "WebSocket")]


def admission(unauthenticated: int = 3, of_address: int = 9) -> Admission:
    return Admission(AdmissionLimits(max_unauthenticated=unauthenticated, max_per_address=of_address))


def test_the_usual_limits() -> None:
    limits = AdmissionLimits()
    assert (limits.max_unauthenticated, limits.max_per_address, limits.authenticate_within_s) == (64, 256, 5.0)
    assert (limits.request_bytes, limits.unauthenticated_bytes) == (8192, 4096)


def test_the_oldest_of_the_address_with_most_leaves() -> None:
    known = admission(4)
    for connection, address in (("a", "one"), ("b", "two"), ("c", "two"), ("d", "three")):
        assert known.opened(connection, address) == []
    assert known.unauthenticated == 4
    assert known.opened("e", "three") == ["b"]
    known.closed("b", "two")
    assert known.unauthenticated == 4
    assert known.opened("f", "two") == ["c"]
    assert known.unauthenticated == 5, "until that one is closed"


def test_who_is_authenticated_counts_no_more_here() -> None:
    known = admission(1)
    assert known.opened("a", "one") == []
    known.authenticated("a")
    known.authenticated("a")
    assert known.unauthenticated == 0
    assert known.opened("b", "one") == []
    assert known.opened("c", "one") == ["b"]


def test_an_address_has_so_many_connections_authenticated_or_not() -> None:
    known = admission(of_address=2)
    for connection in "ab":
        assert known.opened(connection, "one") == []
        known.authenticated(connection)
    assert known.opened("c", "one") is None
    assert known.opened("d", "two") == []
    known.closed("a", "one")
    assert known.opened("e", "one") == []
    assert known.opened("f", "one") is None


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("GET", PATH, GOOD, None),
        ("GET", PATH, [*GOOD, ("Cookie", "a")], None),
        ("POST", PATH, GOOD, 405),
        ("get", PATH, GOOD, 405),
        ("GET", f"{PATH}?", GOOD, 404),
        ("POST", "/", GOOD, 404),
        ("GET", PATH, [*GOOD, ("ORIGIN", "http://127.0.0.1:6700")], 403),
        ("GET", PATH, GOOD[1:], 421),
        ("GET", PATH, [*GOOD, GOOD[0]], 421),
        ("GET", PATH, [("Host", "127.0.0.1:6701"), GOOD[1]], 421),
        ("GET", PATH, GOOD[:1], 426),
        ("GET", PATH, [GOOD[0], ("Upgrade", "h2c")], 426),
        ("GET", PATH, [GOOD[0], ("Connection", "websocket")], 426),
    ],
)
def test_one_request_is_served(method: str, target: str, headers: list[tuple[str, str]], status: int | None) -> None:
    assert refusal(method, target, headers, HERE) == status


def test_a_host_is_compared_as_an_address() -> None:
    ours = [TcpAddress("::1", 6700), TcpAddress("127.0.0.1", 6700), TcpAddress("a.example", 6701)]
    for host in ("[::1]:6700", "[0:0:0:0:0:0:0:1]:6700", "[::ffff:127.0.0.1]:6700", "127.0.0.1:6700", "A.example:6701"):
        assert is_ours(host, ours)
    for host in ("[::1]:6701", "127.0.0.2:6700", "a.example:6700", "b.example:6701", "unix:/a", "a.example", ""):
        assert not is_ours(host, ours)
