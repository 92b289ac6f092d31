"""The handshake between a client and nimbus: who passes, and everything that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import REFUSED, Checking, Proving, Role, Tokens
from aiostorm.transport import AuthenticationError, Credentials, Secret

ANN = Credentials("ann", Secret(bytes(range(32))))
OTHER = Credentials("ann", Secret(bytes(range(1, 33))))
UNKNOWN = Credentials("bob", ANN.token)
NOW_S = 1_700_000_000.0
TOKENS = Tokens().with_one(ANN, Role.OPERATOR, NOW_S, 60.0)


def nonce(number: int) -> bytes:
    return bytes([number]) * 32


def client(token: Credentials = ANN, number: int = 1, binding: bytes = b"") -> Proving:
    return Proving(token, nonce(number), binding)


def server(number: int = 2, binding: bytes = b"", now_s: float = NOW_S, tokens: Tokens = TOKENS) -> Checking:
    return Checking(lambda: tokens, lambda: now_s, nonce(number), binding)


def proof_of(proving: Proving, checking: Checking) -> bytes:
    """The client's proof, after the challenge."""
    frame = proving.receive(checking.receive(proving.hello))
    assert frame is not None
    return frame


def test_both_ends_are_sure_of_each_other() -> None:
    proving, checking = client(), server()
    welcome = checking.receive(proof_of(proving, checking))
    assert proving.role is None
    assert proving.receive(welcome) is None
    assert proving.role is Role.OPERATOR
    assert checking.holder is not None
    assert (checking.holder.name, checking.holder.role) == ("ann", Role.OPERATOR)


@pytest.mark.parametrize(
    ("proving", "checking"),
    [
        (client(OTHER), server()),
        (client(UNKNOWN), server()),
        (client(Credentials("Ann", ANN.token)), server()),
        (client(), server(now_s=NOW_S + 60)),
        (client(), server(tokens=Tokens())),
        (client(), server(binding=b"another certificate")),
        (client(binding=b"a certificate"), server()),
    ],
    ids=["wrong", "unknown name", "case", "ended", "revoked", "other connection", "no TLS there"],
)
def test_who_has_no_valid_token_is_refused_at_the_proof(proving: Proving, checking: Checking) -> None:
    proof = proof_of(proving, checking)
    with pytest.raises(AuthenticationError, match="unknown, wrong, revoked"):
        checking.receive(proof)
    assert checking.holder is None


def test_a_proof_of_another_connection_is_worthless() -> None:
    proof = proof_of(client(number=1), server(number=2))
    for number in (2, 3):
        checking = server(number=number + 1)
        checking.receive(client(number=1).hello)
        with pytest.raises(AuthenticationError):
            checking.receive(proof)


def test_who_has_read_the_file_of_tokens_cannot_prove_anything() -> None:
    """The stored key is not the client key: a proof that is made with it is wrong."""
    entry = TOKENS.entries["ann"]
    for key in (entry.stored_key, entry.server_key):
        proving, checking = client(Credentials("ann", Secret(bytes.fromhex(key)))), server()
        with pytest.raises(AuthenticationError):
            checking.receive(proof_of(proving, checking))


def test_nimbus_must_know_the_token_too() -> None:
    """A listener in its place, which has seen other connections, cannot answer."""
    proving, checking = client(), server()
    proof = proof_of(proving, checking)
    welcome = checking.receive(proof)
    for frame in (b"", b"\x94", welcome[:-9], welcome[:1] + bytes(32) + b"admin", proof, proving.hello):
        again = client(number=5)
        proof_of(again, server(number=6))
        with pytest.raises(AuthenticationError):
            again.receive(frame)
        assert again.role is None
    third = client(number=7)
    proof_of(third, server(number=8))
    with pytest.raises(AuthenticationError):
        third.receive(welcome)  # that of another connection


def test_nothing_reflected_is_accepted() -> None:
    proving = client()
    with pytest.raises(AuthenticationError):
        proving.receive(proving.hello)
    same = server(number=1)
    with pytest.raises(AuthenticationError, match="our own nonce"):
        same.receive(proving.hello)


def test_a_role_that_is_none_is_refused() -> None:
    proving, checking = client(), server()
    welcome = checking.receive(proof_of(proving, checking))
    with pytest.raises(AuthenticationError, match="same version"):
        proving.receive(welcome[:33] + b"root")


def test_refused_says_what_to_look_at_and_no_secret() -> None:
    with pytest.raises(AuthenticationError, match="unknown, revoked or has ended") as raised:
        client().receive(REFUSED)
    assert ANN.token.reveal().hex() not in str(raised.value)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda frame: frame[:-1],
    "longer": lambda frame: frame + b"\0",
    "another kind": lambda frame: b"\x7f" + frame[1:],
    "another version": lambda frame: frame[:1] + b"\x09" + frame[2:],
    "empty": lambda frame: b"",
}


@pytest.mark.parametrize("change", ["another kind", "another version", "empty"])
def test_a_hello_of_another_form_is_refused(change: str) -> None:
    with pytest.raises(AuthenticationError):
        server().receive(CHANGES[change](client().hello))


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_proof_of_another_form_is_refused(change: str) -> None:
    proving, checking = client(), server()
    proof = proof_of(proving, checking)
    with pytest.raises(AuthenticationError):
        checking.receive(CHANGES[change](proof))


@pytest.mark.parametrize("name", [b"", b"a b", b"../x", b"\xff", b"x" * 65, b"x" * 300, b"a\n"])
def test_a_name_that_no_token_has_is_refused(name: bytes) -> None:
    hello = client().hello
    with pytest.raises(AuthenticationError):
        server().receive(hello[:34] + name)


@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(0, 3))
def test_any_frames_end_in_a_refusal_and_nothing_else(frames: list[bytes], begin: int) -> None:
    checking = server()
    proving = client()
    for number, frame in enumerate(frames):
        try:
            checking.receive(proving.hello if number == 0 and begin else frame)
        except AuthenticationError:
            return
    assert checking.holder is None


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_any_frames_of_a_server_end_in_an_error(frames: list[bytes]) -> None:
    proving = client()
    for frame in frames:
        try:
            proving.receive(frame)
        except AuthenticationError:
            return
    assert proving.role is None
