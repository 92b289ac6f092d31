"""The handshake's machine: only a peer with the token is authenticated, whatever happens to the frames."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import AuthenticationError, Credentials, Identity, ProtocolError, Secret
from aiostorm.transport.net import authentication as module
from aiostorm.transport.net.authentication import (
    AUTHENTICATION_VERSION,
    CHALLENGE,
    HELLO,
    MAX_STEP_BYTES,
    PROOF,
    REFUSED,
    WELCOME,
    Acceptor,
    Claim,
    Dialler,
)

TOKEN = bytes(range(32))
OURS = Credentials("storm-1", Secret(TOKEN))
CANARY = b"canary-canary-canary-canary-cana"


def claim(name: str, number: int, **changes: object) -> Claim:
    made = Claim(OURS, Identity(name), bytes([number]) * 32)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def ends(
    dialler: dict[str, object] | None = None, acceptor: dict[str, object] | None = None
) -> tuple[Dialler, Acceptor]:
    return Dialler(claim("a", 1, **(dialler or {}))), Acceptor(claim("b", 2, **(acceptor or {})))


Alter = Callable[[bytes], bytes]


def shake(dialler: Dialler, acceptor: Acceptor, **alter: Alter) -> str:
    """Who refuses first; "" if neither end does. `alter` is what is done to a frame on its way, by its name."""

    def sent(name: str, frame: bytes) -> bytes:
        return alter.get(name, lambda same: same)(frame)

    try:
        challenge = acceptor.receive(sent("hello", dialler.hello))
    except AuthenticationError:
        return "acceptor"
    assert challenge is not None
    try:
        proof = dialler.receive(sent("challenge", challenge))
    except AuthenticationError:
        return "dialler"
    assert proof is not None
    assert not dialler.done
    try:
        welcome = acceptor.receive(sent("proof", proof))
    except AuthenticationError:
        return "acceptor"
    assert welcome is not None
    try:
        dialler.receive(sent("welcome", welcome))
    except AuthenticationError:
        return "dialler"
    assert acceptor.done
    return "" if dialler.done else "neither"


def test_two_ends_with_the_token_authenticate() -> None:
    dialler, acceptor = ends({"binding": b"cert"}, {"binding": b"cert"})
    assert shake(dialler, acceptor) == ""
    assert (dialler.peer, acceptor.peer) == (Identity("b"), Identity("a"))


OTHER = Credentials("storm-1", Secret(bytes(32)))
LONGER = Credentials("storm-1", Secret(TOKEN + b"\0"))
CLUSTER = Credentials("storm-2", Secret(TOKEN))
CASE = Credentials("Storm-1", Secret(TOKEN))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"credentials": OTHER}, "token"),
        ({"credentials": LONGER}, "token"),
        ({"credentials": CLUSTER}, "cluster"),
        ({"credentials": CASE}, "cluster"),
        ({"identity": Identity("c", "viewer")}, "role is viewer"),
        ({"binding": b"another certificate"}, "a third party is in between"),
        ({"identity": Identity("SELF")}, "connected to itself"),
        ({"nonce": b"SELF" * 8}, "connected to itself"),
    ],
)
def test_an_end_that_is_wrong_is_refused_by_the_other(wrong: dict[str, object], what: str) -> None:
    right: dict[str, object] = {}
    if "SELF" in str(wrong):
        right = wrong
    dialler, acceptor = ends(wrong, right)
    assert shake(dialler, acceptor) != ""
    assert not dialler.done
    assert not acceptor.done
    dialler, acceptor = ends(right, wrong)
    assert shake(dialler, acceptor) == "dialler"
    assert dialler.peer is None
    # A dialler whose proofs are wrong, and that goes on in any case, is refused at the last step, for its reason.
    dialler, acceptor = ends(wrong, right)
    acceptor.receive(dialler.hello)
    with pytest.raises(AuthenticationError, match=what):
        acceptor.receive(PROOF + bytes(32))


@pytest.mark.parametrize("who", ["dialler", "acceptor"])
def test_a_certificate_that_names_roles_is_good_for_no_other(who: str) -> None:
    def made(*certified: str) -> tuple[Dialler, Acceptor]:
        limits: dict[str, object] = {"certified": frozenset(certified)}
        return ends(limits, None) if who == "acceptor" else ends(None, limits)

    assert shake(*made()) == shake(*made("node", "spark")) == ""
    assert shake(*made("spark")) == ("dialler" if who == "acceptor" else "acceptor")
    dialler, acceptor = made("spark")
    challenge = acceptor.receive(dialler.hello)
    assert challenge is not None
    end, frame = (dialler, challenge) if who == "acceptor" else (acceptor, dialler.receive(challenge))
    assert frame is not None
    with pytest.raises(AuthenticationError, match="role is node; its certificate allows spark"):
        end.receive(frame)


def test_the_reason_is_not_sent_and_each_refusal_is_at_the_same_step() -> None:
    answers: list[list[int]] = []
    for wrong in ({"credentials": OTHER}, {"credentials": CLUSTER}, {"identity": Identity("a", "viewer")}):
        dialler, acceptor = ends(wrong)  # type: ignore[arg-type]
        challenge = acceptor.receive(dialler.hello)
        assert challenge is not None
        with pytest.raises(AuthenticationError):
            acceptor.receive(PROOF + bytes(32))
        answers.append([challenge[0], len(challenge)])
    assert answers == [answers[0]] * 3


def test_frames_of_another_connection_are_worthless() -> None:
    said: dict[str, bytes] = {}

    def alter_for(name: str) -> Alter:
        return lambda frame: said.setdefault(name, frame)

    names = ("hello", "challenge", "proof", "welcome")
    assert shake(*ends(), **{name: alter_for(name) for name in names}) == ""
    # All of it again, to an acceptor whose nonce is another one.
    acceptor = Acceptor(claim("b", 3))
    assert acceptor.receive(said["hello"]) is not None
    with pytest.raises(AuthenticationError):
        acceptor.receive(said["proof"])
    # And to a dialler whose nonce is.
    dialler = Dialler(claim("a", 4))
    with pytest.raises(AuthenticationError):
        dialler.receive(said["challenge"])


def test_a_frame_of_one_end_is_not_accepted_from_another() -> None:
    dialler, acceptor = ends()
    with pytest.raises(AuthenticationError):
        dialler.receive(dialler.hello)  # its HELLO comes back
    dialler, acceptor = ends()
    challenge = acceptor.receive(dialler.hello)
    assert challenge is not None
    with pytest.raises(AuthenticationError):
        acceptor.receive(PROOF + challenge[-32:])  # the acceptor's proof, as ours
    # A third party in the middle connects us to ourselves, as dialler and as acceptor.
    dialler, acceptor = Dialler(claim("a", 1)), Acceptor(claim("a", 2))
    assert shake(dialler, acceptor) == "dialler"


def test_a_third_party_between_two_tls_connections_is_found() -> None:
    dialler, acceptor = ends({"binding": b"the one in the middle"}, {"binding": b"the server's"})
    assert shake(dialler, acceptor) == "dialler"


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_another_version_is_refused(version: int) -> None:
    def altered(frame: bytes) -> bytes:
        return frame[:1] + bytes([version]) + frame[2:]

    assert shake(*ends(), hello=altered) == "acceptor"
    assert shake(*ends(), challenge=altered) == "dialler"
    assert AUTHENTICATION_VERSION == 2


def test_a_length_beyond_the_frame_is_no_length() -> None:
    def altered(frame: bytes) -> bytes:
        assert frame[-2:] == b"\1a"
        return frame[:-2] + b"\3a"

    assert shake(*ends(), hello=altered) == "acceptor"


@given(step=st.sampled_from(["hello", "challenge", "proof", "welcome"]), data=st.data())
def test_no_altered_frame_is_believed(step: str, data: st.DataObject) -> None:
    def altered(frame: bytes) -> bytes:
        how = data.draw(st.sampled_from(["flip", "cut", "longer", "other"]))
        if how == "flip":
            bit = data.draw(st.integers(0, 8 * len(frame) - 1))
            flipped = bytearray(frame)
            flipped[bit // 8] ^= 1 << bit % 8
            return bytes(flipped)
        if how == "cut":
            return frame[: data.draw(st.integers(0, len(frame) - 1))]
        if how == "longer":
            return frame + data.draw(st.binary(min_size=1, max_size=600))
        return data.draw(st.binary(max_size=600).filter(lambda other: other != frame))

    dialler, acceptor = ends()
    assert shake(dialler, acceptor, **{step: altered}) != ""
    assert not dialler.done
    assert acceptor.done == (step == "welcome")


@given(frames=st.lists(st.binary(max_size=MAX_STEP_BYTES + 8), max_size=4), kinds=st.lists(st.integers(0x80, 0x86)))
def test_any_bytes_are_an_answer_or_an_authentication_error(frames: list[bytes], kinds: list[int]) -> None:
    for end in (*ends(), Acceptor(claim("b", 2))):
        for number, frame in enumerate(frames):
            kind = bytes(kinds[number : number + 1])
            try:
                end.receive(kind + frame)
            except AuthenticationError:
                break
        assert not end.done


def test_a_repeated_frame_is_refused() -> None:
    dialler, acceptor = ends()
    challenge = acceptor.receive(dialler.hello)
    with pytest.raises(AuthenticationError):
        acceptor.receive(dialler.hello)
    assert dialler.receive(challenge) is not None
    with pytest.raises(AuthenticationError):
        dialler.receive(challenge)
    assert (dialler.done, acceptor.done) == (False, False)


def test_both_ends_notice_a_refusal() -> None:
    for number in range(2):
        dialler, acceptor = ends()
        challenge = acceptor.receive(dialler.hello)
        assert challenge is not None
        if number:
            dialler.receive(challenge)
        for end in (dialler, acceptor):
            with pytest.raises(AuthenticationError, match="its log has the reason"):
                end.receive(REFUSED)


def test_another_frame_in_the_place_of_welcome_is_refused() -> None:
    dialler, acceptor = ends()
    proof = dialler.receive(acceptor.receive(dialler.hello))
    assert proof is not None
    assert acceptor.receive(proof) is not None
    with pytest.raises(AuthenticationError, match="the proof in WELCOME is wrong"):
        dialler.receive(b"\x01a link's HELLO")
    assert not dialler.done


def test_frames_are_small_and_none_is_like_a_links() -> None:
    long = Credentials("c" * 64, Secret(TOKEN))
    dialler = Dialler(claim("n" * 128, 1, credentials=long, identity=Identity("n" * 128, "r" * 32)))
    assert len(dialler.hello) <= MAX_STEP_BYTES
    assert {HELLO[0], CHALLENGE[0], PROOF[0], WELCOME[0], REFUSED[0]}.isdisjoint(range(0x80))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "n" * 129, "a\n"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name is 1 to 128"):
        Identity(name)
    with pytest.raises(ValueError, match="a role is 1 to 32"):
        Identity("a", name)


def test_no_secret_is_in_an_error() -> None:
    secret = Credentials("storm-1", Secret(CANARY))
    dialler, acceptor = ends({"credentials": secret}, {"credentials": secret})
    said: list[bytes] = []

    def keep(frame: bytes) -> bytes:
        said.append(frame)
        return frame

    assert shake(dialler, acceptor, hello=keep, challenge=keep, proof=keep, welcome=keep) == ""
    shown = b"".join(said) + repr((secret, claim("a", 1, credentials=secret), dialler, acceptor)).encode()
    assert b"canary" not in shown
    assert "compare_digest" in inspect.getsource(module)


def test_a_peer_must_have_the_expected_name_and_role() -> None:
    peer = Identity("worker-1", "node")
    for name, role in (("worker-1", ""), ("worker-1", "node")):
        module.check_identity(peer, name, role)
    module.check_identity(None, "worker-2", "driver")
    for name, role in (("worker-2", ""), ("worker-2", "node"), ("worker-1", "driver")):
        with pytest.raises(ProtocolError, match="the peer is authenticated as"):
            module.check_identity(peer, name, role)


def test_the_steps_begin_with_these_bytes() -> None:
    steps = module.HELLO, module.CHALLENGE, module.PROOF, module.WELCOME, module.REFUSED
    assert b"".join(steps) == b"\x81\x82\x83\x84\x85"


def test_a_step_without_names_is_cut_short() -> None:
    start = module._START.pack(module.HELLO, module.AUTHENTICATION_VERSION, bytes(32))
    with pytest.raises(AuthenticationError, match="cut short"):
        module._read(start, module.HELLO)
    with pytest.raises(AuthenticationError, match="an unexpected frame of"):
        module._read(start[:-1], module.HELLO)
