"""Authentication: both ends of a connection prove that they have the cluster's token, without showing it. Pure.

    dialler                                             acceptor
       │ ── HELLO      version, nonce, cluster, role, name ──► │
       │ ◄─ CHALLENGE  version, nonce, role, name, proof ───── │      proof: HMAC-SHA-256 over the transcript,
       │ ── PROOF      proof ────────────────────────────────► │      with a key made from the token
       │ ◄─ WELCOME    proof ───────────────────────────────── │

1. Each proof covers: which of the three proofs it is, the version, the cluster's id, role and name of both ends, both
   nonces, and the certificate of the TLS connection (empty without TLS). So a proof is worthless on another connection,
   for the other side, another cluster or another role, or if a third party relays. A nonce is 32 new random bytes.
2. The dialler sends nothing else before WELCOME has arrived; the acceptor accepts nothing else before PROOF. Until then
   all other frames are errors, and these have at most MAX_STEP_BYTES.
3. An error ends the handshake. The other side receives REFUSED without a reason: wrong cluster, role and token look the
   same, and are refused at the same step. The reason is for our own log (AuthenticationError), without any secret.
4. Each end sends each of its frames once: a connection loses nothing while it lives (see network). A frame that is
   repeated is an error.
5. Proofs are compared in constant time. Names are claims: an owner of the token may take any name but the peer's own,
   so that no end receives its own frames back. A role is a claim, too, unless the certificate names roles (see
   authenticated): then it must be one of them.

From: the challenge-response of SCRAM (RFC 5802) and of ZeroMQ's and Erlang's peers, with a random key in the place of a
password; channel binding from RFC 5929.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import AuthenticationError, ProtocolError

if TYPE_CHECKING:
    from .credentials import Credentials

AUTHENTICATION_VERSION: Final = 2

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32

MAX_STEP_BYTES: Final = 512
"""The largest frame of the handshake."""

HELLO, CHALLENGE, PROOF, WELCOME, REFUSED = (bytes([kind]) for kind in (0x81, 0x82, 0x83, 0x84, 0x85))
"""First bytes of these frames. No link frame begins with one of them."""

_START: Final = struct.Struct(f"!cB{NONCE_BYTES}s")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ROLE: Final = re.compile(r"[a-z-]{1,32}")


@dataclass(frozen=True, slots=True)
class Identity:
    """The name and role that a process claims. ValueError if they are not well formed."""

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
    """What one end uses for the handshake of one connection. `roles`: the roles of peers that it accepts.

    `binding`: as in RestrictedConnection. `certified`: the roles that the peer's certificate allows; empty: any.
    """

    credentials: Credentials
    identity: Identity
    nonce: bytes
    roles: frozenset[str] = frozenset({"node"})
    binding: bytes = b""
    certified: frozenset[str] = frozenset()


def check_identity(identity: Identity | None, name: str, role: str = "") -> None:
    """ProtocolError if the peer is authenticated under another name (or, with `role`, another role)."""
    if identity is not None and (identity.name != name or role not in ("", identity.role)):
        raise ProtocolError(f"the peer is authenticated as {identity}; expected {f'{role} {name}'.strip()}")


class Dialler:
    """The end that dialled. `peer`: set once the peer is authenticated; `done`: once the peer has accepted us, too."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.peer: Identity | None = None
        self.done = False
        self.hello = _start(HELLO, claim, claim.credentials.cluster_id, claim.identity.role, claim.identity.name)
        """The frame to send first."""
        self._proofs: _Proofs

    def receive(self, frame: bytes) -> bytes | None:
        """Take a frame; returns the frame to send, if any. AuthenticationError: send REFUSED and close."""
        if self.peer is None:
            return self._on_challenge(frame)
        if frame == REFUSED:
            raise _refused()
        _check(WELCOME + self._proofs.welcome, frame, "the proof in WELCOME is wrong")
        self.done = True
        return None

    def _on_challenge(self, frame: bytes) -> bytes:
        claim = self._claim
        nonce, (role, name), proof = _read(frame, CHALLENGE)
        self._proofs = _Proofs(claim, claim.identity, Identity(name, role), claim.nonce, nonce)
        _check(
            self._proofs.challenge, proof, "the peer does not have the cluster's token, or a third party is in between"
        )
        if nonce == claim.nonce or name == claim.identity.name:
            raise AuthenticationError("the peer has our own name or nonce: this process is connected to itself")
        if wrong := _wrong_role(role, claim):
            raise AuthenticationError(wrong)
        self.peer = Identity(name, role)
        return PROOF + self._proofs.dialler


class Acceptor:
    """The end that was dialled. `peer` is set and `done` is true once the peer is authenticated."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.peer: Identity | None = None
        self.done = False
        self._claimed: Identity
        self._wrong = ""  # refused when PROOF has arrived, as a wrong proof is
        self._proofs: _Proofs | None = None

    def receive(self, frame: bytes) -> bytes:
        """Take a frame; returns the frame to send. AuthenticationError: send REFUSED and close."""
        return self._on_hello(frame) if self._proofs is None else self._on_proof(frame, self._proofs)

    def _on_hello(self, frame: bytes) -> bytes:
        claim = self._claim
        nonce, (cluster_id, role, name), _ = _read(frame, HELLO)
        if cluster_id != claim.credentials.cluster_id:
            self._wrong = f"it belongs to another cluster, {cluster_id}"
        elif nonce == claim.nonce or name == claim.identity.name:
            self._wrong = "it has our own name or nonce: this process is connected to itself"
        else:
            self._wrong = _wrong_role(role, claim)
        self._claimed = Identity(name, role)
        self._proofs = _Proofs(claim, self._claimed, claim.identity, nonce, claim.nonce)
        return _start(CHALLENGE, claim, claim.identity.role, claim.identity.name) + self._proofs.challenge

    def _on_proof(self, frame: bytes, proofs: _Proofs) -> bytes:
        if frame == REFUSED:
            raise _refused()
        right = hmac.compare_digest(PROOF + proofs.dialler, frame)
        if self._wrong or not right:
            wrong = self._wrong or "it does not have the cluster's token, or a third party is in between"
            raise AuthenticationError(f"{self._claimed}: {wrong}")
        self.peer = self._claimed
        self.done = True
        return WELCOME + proofs.welcome


class _Proofs:
    """The three proofs of one connection."""

    def __init__(
        self, claim: Claim, dialler: Identity, acceptor: Identity, dialler_nonce: bytes, acceptor_nonce: bytes
    ) -> None:
        parts = (
            bytes([AUTHENTICATION_VERSION]),
            claim.credentials.cluster_id.encode(),
            *(word.encode() for word in (dialler.role, dialler.name, acceptor.role, acceptor.name)),
            dialler_nonce,
            acceptor_nonce,
            claim.binding,
        )
        transcript = b"".join(struct.pack("!H", len(part)) + part for part in parts)
        # Hashed: HMAC fills a short key with zeros, so a token and the same token with a zero appended would be equal.
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
    """Nonce, words and proof of a HELLO or a CHALLENGE. AuthenticationError if the frame is not well formed."""
    if frame == REFUSED:
        raise _refused()
    if frame[:1] != kind or not _START.size <= len(frame) <= MAX_STEP_BYTES:
        begin = frame[:1].hex() or "nothing"
        raise AuthenticationError(f"an unexpected frame of {len(frame)} bytes that begins with {begin}")
    _, version, nonce = _START.unpack_from(frame)
    if version != AUTHENTICATION_VERSION:
        raise AuthenticationError(f"the peer speaks version {version}, this is version {AUTHENTICATION_VERSION}")
    words, rest = [], frame[_START.size :]
    for pattern in (_CLUSTER, _ROLE, _NAME)[kind == CHALLENGE :]:
        end = 1 + rest[0] if rest else 1
        word, beyond = rest[1:end].decode("ascii", "replace"), end > len(rest)
        if beyond or not pattern.fullmatch(word):
            raise AuthenticationError("a frame is cut short, or a name in it is not valid")
        words.append(word)
        rest = rest[end:]
    if len(rest) != (PROOF_BYTES if kind == CHALLENGE else 0):
        raise AuthenticationError("a frame is cut short, or too long")
    return nonce, tuple(words), rest


def _refused() -> AuthenticationError:
    return AuthenticationError("the peer refuses this process: its log has the reason")


def _check(proof: bytes, given: bytes, wrong: str) -> None:
    if not hmac.compare_digest(proof, given):
        raise AuthenticationError(wrong)


def _wrong_role(role: str, claim: Claim) -> str:
    """Why the claimed role is refused; empty if it is accepted."""
    if role not in claim.roles:
        return f"its role is {role}; accepted roles: {', '.join(sorted(claim.roles))}"
    if claim.certified and role not in claim.certified:
        return f"its role is {role}; its certificate allows {', '.join(sorted(claim.certified))}"
    return ""
