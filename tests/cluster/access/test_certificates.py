"""The role in a certificate: which are those of a client, and all others, with names of any kind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import (
    REFUSED,
    Change,
    Checking,
    Proving,
    Role,
    Showing,
    Tokens,
    holder_of,
    line_of,
    subject_of,
)
from aiostorm.transport import AuthenticationError, Credentials, PeerCertificate

NOW_S = 1_700_000_000.0
SHA256 = "ab" * 32


def certificate(*units: str, names: tuple[str, ...] = ("ann",), ends_s: float = NOW_S + 60) -> PeerCertificate:
    subject = [("organizationName", "prod"), *(("organizationalUnitName", unit) for unit in units)]
    return PeerCertificate(SHA256, (*subject, *(("commonName", name) for name in names)), ends_s)


def checking(shown: PeerCertificate | None, tokens: Tokens | None = None) -> Checking:
    return Checking(lambda: tokens or Tokens(), lambda: NOW_S, bytes([2]) * 32, b"", shown)


@pytest.mark.parametrize("role", ["viewer", "operator", "submitter", "admin"])
def test_a_client_has_the_role_that_its_certificate_names(role: str) -> None:
    server, client = checking(certificate(role)), Showing()
    assert client.receive(server.receive(client.hello)) is None
    assert client.role is Role(role)
    assert server.holder is not None
    assert (server.holder.name, server.holder.role) == ("cert:ann", Role(role))
    assert "SHA-256 abab" in server.holder.shown


@pytest.mark.parametrize(
    "units",
    [
        (),
        ("worker",),
        ("parent", "worker", "node", "ingress", "egress"),
        ("worker", "operator"),
        ("viewer", "admin"),
        ("operator", "operator"),
        ("public",),
        ("Admin",),
        ("admin ",),
        ("admin\n",),
        ("admin\x00",),
        ("viewer/OU=admin",),
        ("",),
    ],
)
def test_what_names_not_one_role_of_a_client_has_none(units: tuple[str, ...]) -> None:
    with pytest.raises(AuthenticationError, match="names no role of a client"):
        checking(certificate(*units)).receive(Showing.hello)


@pytest.mark.parametrize(
    "names",
    [(), ("ann", "bob"), ("",), ("ann\nadmin",), ("../x",), ("\x1b[31m",), ("a" * 65,), ("änn",), ("cert:ann",)],
)
def test_names_that_are_none(names: tuple[str, ...]) -> None:
    with pytest.raises(AuthenticationError, match="names no owner") as found:
        holder_of(certificate("operator", names=names), NOW_S)
    assert str(found.value).isprintable()
    assert str(found.value).isascii()


def test_one_that_has_ended() -> None:
    with pytest.raises(AuthenticationError, match="has ended"):
        holder_of(certificate("operator", ends_s=NOW_S), NOW_S)


def test_a_token_beside_a_certificate_is_refused() -> None:
    """Also the right one: which role counts is never a guess."""
    token = Credentials.new("ann")
    tokens = Tokens().with_one(token, Role.VIEWER, NOW_S)
    proving = Proving(token, bytes([1]) * 32)
    with pytest.raises(AuthenticationError, match="one of them"):
        checking(certificate("admin"), tokens).receive(proving.hello)
    with pytest.raises(AuthenticationError, match="one of them"):
        checking(certificate("worker"), tokens).receive(proving.hello)


def test_after_a_hello_no_certificate_is_shown() -> None:
    server = checking(None)
    server.receive(Proving(Credentials.new("ann"), bytes([1]) * 32).hello)
    with pytest.raises(AuthenticationError, match="unexpected frame"):
        server.receive(Showing.hello)


@pytest.mark.parametrize("frame", [Showing.hello[:1], Showing.hello + b"x", Showing.hello[:1] + b"\x02"])
def test_frames_that_are_none(frame: bytes) -> None:
    with pytest.raises(AuthenticationError, match="version"):
        checking(certificate("admin")).receive(frame)
    with pytest.raises(AuthenticationError, match="shows no certificate"):
        checking(None).receive(frame)


@pytest.mark.parametrize("frame", [b"", b"\x94admin", Showing.hello, b"\x97root", b"\x97\xff"])
def test_a_client_accepts_no_other_response(frame: bytes) -> None:
    client = Showing()
    with pytest.raises(AuthenticationError):
        client.receive(frame)
    with pytest.raises(AuthenticationError, match="refuses the certificate"):
        client.receive(REFUSED)
    assert client.role is None


@given(st.lists(st.tuples(st.sampled_from(["commonName", "organizationalUnitName", "emailAddress"]), st.text())))
def test_a_subject_is_one_line_and_bounded(subject: list[tuple[str, str]]) -> None:
    text = subject_of(PeerCertificate(SHA256, tuple(subject), NOW_S))
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 300


def test_no_value_looks_like_two() -> None:
    shown = subject_of(certificate("viewer", names=("x/OU=admin",)))
    assert shown == "O=prod/OU=viewer/CN=x\\x2fOU=admin"


def test_the_audit_log_names_subject_and_fingerprint() -> None:
    change = Change(NOW_S, "cert:ann", "operator", "10.0.0.7:1", "kill", {}, certificate=certificate("operator"))
    assert json.loads(line_of(change))["certificate"] == {"subject": "O=prod/OU=operator/CN=ann", "sha256": SHA256}
    assert "certificate" not in json.loads(line_of(Change(NOW_S, "ann", "operator", "x", "kill")))
