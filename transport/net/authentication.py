"""Authentication: both ends of a connection prove that they have the cluster's token, without showing it. Pure.

    dialler                                             acceptor
       │ ── HELLO      version, nonce, cluster, role, name ──► │
       │ ◄─ CHALLENGE  version, nonce, role, name, proof ───── │      proof: HMAC-SHA-256, the key made from the token,
       │ ── PROOF      proof ────────────────────────────────► │      of who proves and of everything said here
       │ ◄─ WELCOME    proof ───────────────────────────────── │

1. Each proof is about: which of the three it is, the version, the cluster's id, role and name of both, both nonces, and
   the certificate of the TLS connection (empty without TLS). So none fits another connection, the other side, another
   cluster, another role, or a connection that somebody in the middle has made. A nonce is 32 random bytes, fresh.
2. Who dials sends nothing of its own until WELCOME has come, who accepts nothing until PROOF has. Before that nothing
   but these frames is looked at, and of them at most MAX_STEP_BYTES each.
3. What is wrong ends it. The other side is told REFUSED, and never why: wrong cluster, role and token look alike, and
   come at the same step. What was wrong is for our own log (AuthenticationError); no secret is part of it.
4. Frames may be lost, repeated or late (see network): the dialler says its last one again every RESEND_S, and what is
   said again, byte for byte, is answered again. What else comes twice is wrong.
5. Proofs are compared in constant time. Names are claims: whoever has the token may take any but the peer's own, so
   that what one end has said is not told it back as another's. A role is a claim, too, unless a certificate names roles
   (see authenticated): then it is one of them.

From: the challenge-response of SCRAM (RFC 5802) and of ZeroMQ's and Erlang's peers, with a random key in the place of a
password; channel binding from RFC 5929.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ..errors import AuthenticationError, ProtocolError
from .credentials import Credentials

AUTHENTICATION_VERSION: Final = 2

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32

MAX_STEP_BYTES: Final = 512
"""The largest frame of these."""

RESEND_S: Final = 1.0
"""After so long without an answer the dialler repeats itself."""

HELLO, CHALLENGE, PROOF, WELCOME, REFUSED = (bytes([kind]) for kind in (0x81, 0x82, 0x83, 0x84, 0x85))
STEPS: Final = frozenset((HELLO, CHALLENGE, PROOF, WELCOME, REFUSED))
"""First bytes. No frame of a link begins so."""

_START: Final = struct.Struct(f"!cB{NONCE_BYTES}s")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ROLE: Final = re.compile(r"[a-z-]{1,32}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who one claims to be. ValueError if that cannot be a name or a role."""

    name: str
    role: str = "node"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a name is 1 to 128 of A-Z a-z 0-9 _ . -, not {self.name[:140]!r}")
        if not _ROLE.fullmatch(self.role):
            raise ValueError(f"a role is 1 to 32 of a-z and -, not {self.role[:140]!r}")

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one end says of itself, on one connection. `roles`: those it speaks to.

    `binding`: see RestrictedConnection. `certified`: the roles that the peer's certificate allows it; empty: any.
    """

    credentials: Credentials
    identity: Identity
    nonce: bytes
    roles: frozenset[str] = frozenset({"node"})
    binding: bytes = b""
    certified: frozenset[str] = frozenset()


@runtime_checkable
class Identified(Protocol):
    """A connection whose peer has proved who it is."""

    @property
    def identity(self) -> Identity:
        """Who that is."""
        ...


def check_identity(connection: object, name: str, role: str = "") -> None:
    """ProtocolError if the peer has proved to be somebody else (`role`: or something else)."""
    if isinstance(connection, Identified):
        found = connection.identity
        if found.name != name or role not in ("", found.role):
            raise ProtocolError(f"it has proved to be {found}, and is to be {f'{role} {name}'.strip()}")


class Dialler:
    """The end that dialled. `peer` is who is there, once it has proved it; `done` once it has believed us, too."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.peer: Identity | None = None
        self.done = False
        self.last = _start(HELLO, claim, claim.credentials.cluster_id, claim.identity.role, claim.identity.name)
        """What to send: at first, and whenever no answer comes for RESEND_S."""
        self._proofs: _Proofs
        self._challenge = b""

    def receive(self, frame: bytes) -> bytes | None:
        """A frame has come: what to send, if anything. AuthenticationError: send REFUSED, and close."""
        kind = frame[:1]
        if self.peer is None:
            return self._challenged(frame)
        if kind == WELCOME:
            _check(self._proofs.welcome, frame[1:], "the last answer of the peer is not right")
            self.done = True
        elif kind == REFUSED:
            raise _refused()
        elif kind == CHALLENGE and frame != self._challenge:
            raise AuthenticationError("the peer has said two things")
        return None  # CHALLENGE again, or a frame that has overtaken WELCOME: from a peer that has proved who it is

    def _challenged(self, frame: bytes) -> bytes:
        claim = self._claim
        nonce, (role, name), proof = _read(frame, CHALLENGE)
        self._proofs = _Proofs(claim, claim.identity, Identity(name, role), claim.nonce, nonce)
        _check(self._proofs.challenge, proof, "the peer has not this cluster's token, or somebody stands between")
        if nonce == claim.nonce or name == claim.identity.name:
            raise AuthenticationError("the peer says what we have said: we are linked to ourselves")
        if wrong := _wrong_role(role, claim):
            raise AuthenticationError(wrong)
        self.peer = Identity(name, role)
        self._challenge = frame
        self.last = PROOF + self._proofs.dialler
        return self.last


class Acceptor:
    """The end that was dialled. `peer` is who is there, and `done` is true, once it has proved it."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.peer: Identity | None = None
        self.done = False
        self._claimed: Identity
        self._wrong = ""  # said when the proof has come, as for a wrong one
        self._proofs: _Proofs | None = None
        self._answers: dict[bytes, bytes] = {}

    def receive(self, frame: bytes) -> bytes | None:
        """A frame has come: what to send, if anything. AuthenticationError: send REFUSED, and close."""
        answer = self.again(frame)
        if answer is not None:
            return answer
        answer = self._greeted(frame) if self._proofs is None else self._proved(frame, self._proofs)
        self._answers[frame] = answer
        return answer

    def again(self, frame: bytes) -> bytes | None:
        """The answer that this frame has had already. That is what a late repetition gets."""
        return self._answers.get(frame)

    def _greeted(self, frame: bytes) -> bytes:
        claim = self._claim
        nonce, (cluster_id, role, name), _ = _read(frame, HELLO)
        if cluster_id != claim.credentials.cluster_id:
            self._wrong = f"it is of another cluster, {cluster_id}"
        elif nonce == claim.nonce or name == claim.identity.name:
            self._wrong = "it says what we have said: we are linked to ourselves"
        else:
            self._wrong = _wrong_role(role, claim)
        self._claimed = Identity(name, role)
        self._proofs = _Proofs(claim, self._claimed, claim.identity, nonce, claim.nonce)
        return _start(CHALLENGE, claim, claim.identity.role, claim.identity.name) + self._proofs.challenge

    def _proved(self, frame: bytes, proofs: _Proofs) -> bytes:
        if frame == REFUSED:
            raise _refused()
        right = hmac.compare_digest(PROOF + proofs.dialler, frame)
        if self._wrong or not right:
            wrong = self._wrong or "it has not this cluster's token, or somebody stands between"
            raise AuthenticationError(f"{self._claimed}: {wrong}")
        self.peer = self._claimed
        self.done = True
        return WELCOME + proofs.welcome


class _Proofs:
    """The three proofs of one connection."""

    def __init__(
        self, claim: Claim, dialler: Identity, acceptor: Identity, dialler_nonce: bytes, acceptor_nonce: bytes
    ) -> None:
        said = (
            bytes([AUTHENTICATION_VERSION]),
            claim.credentials.cluster_id.encode(),
            *(word.encode() for word in (dialler.role, dialler.name, acceptor.role, acceptor.name)),
            dialler_nonce,
            acceptor_nonce,
            claim.binding,
        )
        transcript = b"".join(struct.pack("!H", len(part)) + part for part in said)
        # Hashed: HMAC fills a short key with zeros, so that a token and the same with a zero more would be one.
        token = hashlib.sha256(claim.credentials.token.reveal()).digest()
        key = hmac.digest(token, b"aiostorm authentication", hashlib.sha256)
        self.challenge = hmac.digest(key, b"acceptor" + transcript, hashlib.sha256)
        self.dialler = hmac.digest(key, b"dialler" + transcript, hashlib.sha256)
        self.welcome = hmac.digest(key, b"welcome" + transcript, hashlib.sha256)


def _start(kind: bytes, claim: Claim, *words: str) -> bytes:
    """HELLO, or CHALLENGE up to its proof."""
    start = _START.pack(kind, AUTHENTICATION_VERSION, claim.nonce)
    return start + b"".join(bytes([len(word)]) + word.encode() for word in words)


def _read(frame: bytes, kind: bytes) -> tuple[bytes, tuple[str, ...], bytes]:
    """Nonce, words and proof of a HELLO or a CHALLENGE. AuthenticationError if it is not exactly one."""
    if frame == REFUSED:
        raise _refused()
    if frame[:1] != kind or not _START.size <= len(frame) <= MAX_STEP_BYTES:
        raise AuthenticationError(f"a frame of {len(frame)} bytes that begins with {frame[:1].hex() or 'nothing'} came")
    _, version, nonce = _START.unpack_from(frame)
    if version != AUTHENTICATION_VERSION:
        raise AuthenticationError(f"the peer speaks version {version}, this is version {AUTHENTICATION_VERSION}")
    words, rest = [], frame[_START.size :]
    for pattern in (_CLUSTER, _ROLE, _NAME)[kind == CHALLENGE :]:
        end = 1 + rest[0] if rest else 1
        word, beyond = rest[1:end].decode("ascii", "replace"), end > len(rest)
        if beyond or not pattern.fullmatch(word):
            raise AuthenticationError("a frame that is cut short, or says what is no name, came")
        words.append(word)
        rest = rest[end:]
    if len(rest) != (PROOF_BYTES if kind == CHALLENGE else 0):
        raise AuthenticationError("a frame that is cut short, or too long, came")
    return nonce, tuple(words), rest


def _refused() -> AuthenticationError:
    return AuthenticationError("the peer refuses us: its log says why")


def _check(proof: bytes, given: bytes, wrong: str) -> None:
    if not hmac.compare_digest(proof, given):
        raise AuthenticationError(wrong)


def _wrong_role(role: str, claim: Claim) -> str:
    """Why it cannot be what it says that it is; empty if it can."""
    if role not in claim.roles:
        return f"its role is {role}, and those that we speak to are {', '.join(sorted(claim.roles))}"
    if claim.certified and role not in claim.certified:
        return f"its role is {role}, and its certificate is for {', '.join(sorted(claim.certified))}"
    return ""
