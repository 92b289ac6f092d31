"""Proving: a client proves to nimbus that it has a token, and nimbus that it knows the token. It is not sent. Pure.

    client                                          nimbus
       │ ── HELLO      version, nonce, name ─────────► │
       │ ◄─ CHALLENGE  version, nonce ──────────────── │      proof: client key XOR HMAC(stored key, transcript)
       │ ── PROOF      proof ────────────────────────► │      signature: HMAC(server key, transcript)
       │ ◄─ WELCOME    signature, role ─────────────── │

    client, over TLS with its certificate           nimbus
       │ ── SHOWN      version ──────────────────────► │      the certificate that TLS has verified (see certificates)
       │ ◄─ ACCEPTED   role ────────────────────────── │

1. Nimbus has only keys made from the token (see tokens): it finds the client key in the proof, and its SHA-256 must be
   the stored key. Who has read the file of tokens cannot make a proof.
2. The transcript has version, name, both nonces (32 new random bytes each), and the certificate of the TLS connection.
   So a proof is worthless on another connection, and a third party cannot pass it on.
3. A name that is not there, a wrong proof and a token that has ended are refused at the same step, with the same frame.
   The reason is for nimbus' own log.
4. The client sends no request before it has checked the signature. Without a token it has checked in TLS that nimbus'
   certificate is of the cluster's CA, and for the host that it dialled.
5. Who has shown a certificate proves no token: which of two roles would count cannot be mistaken then.

From: SCRAM-SHA-256 (RFC 5802, RFC 7677), with a random token in the place of a password, and its channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...transport import AuthenticationError
from .certificates import holder_of
from .roles import Role
from .tokens import KEY_BYTES, NAME, client_key, keys_of

if TYPE_CHECKING:
    from ...transport import Credentials, PeerCertificate
    from .tokens import Holder, Tokens

VERSION: Final = 1

NONCE_BYTES: Final = 32
MAX_FRAME_BYTES: Final = 256

HELLO, CHALLENGE, PROOF, WELCOME, REFUSED, SHOWN, ACCEPTED = (bytes([kind]) for kind in range(0x91, 0x98))

_START: Final = struct.Struct(f"!cB{NONCE_BYTES}s")
_PROOF: Final = 1 + KEY_BYTES


class Proving:
    """The client. `role`: what the token allows, once nimbus has accepted it."""

    def __init__(self, token: Credentials, nonce: bytes, binding: bytes = b"") -> None:
        self._token = token
        self._nonce = nonce
        self._binding = binding
        self._transcript = b""
        self.role: Role | None = None
        self.hello = _START.pack(HELLO, VERSION, nonce) + token.cluster_id.encode()
        """The frame to send first."""

    def receive(self, frame: bytes) -> bytes | None:
        """Take a frame; returns the frame to send, if any. AuthenticationError."""
        if frame == REFUSED:
            raise AuthenticationError(
                f"nimbus refuses the token {self._token.cluster_id!r}: it is unknown, revoked or has ended, or too "
                "many wrong ones came from this address (its log has the reason)"
            )
        stored, server = keys_of(self._token.token)
        if not self._transcript:
            nonce, rest = _started(frame, CHALLENGE)
            if rest or nonce == self._nonce:
                raise AuthenticationError("nimbus sends a frame that is too long, or our own nonce")
            self._transcript = _transcript(self._token.cluster_id, self._nonce, nonce, self._binding)
            masked = hmac.digest(stored, b"client" + self._transcript, hashlib.sha256)
            return PROOF + _xor(client_key(self._token.token), masked)
        signature = hmac.digest(server, b"server" + self._transcript, hashlib.sha256)
        if not hmac.compare_digest(frame[:_PROOF], WELCOME + signature):
            raise AuthenticationError("the peer does not know the token: it is not nimbus, or a third party is between")
        self.role = _role_in(frame[_PROOF:])
        return None


class Showing:
    """The client that has shown a certificate instead. As Proving."""

    hello: Final = SHOWN + bytes([VERSION])

    def __init__(self) -> None:
        self.role: Role | None = None

    def receive(self, frame: bytes) -> bytes | None:
        """Take a frame; there is none to send. AuthenticationError."""
        if frame == REFUSED:
            raise AuthenticationError(
                "nimbus refuses the certificate: it names no role of a client, was revoked or has ended, or too many "
                "wrong ones came from this address (its log has the reason)"
            )
        if frame[:1] != ACCEPTED:
            raise AuthenticationError(
                "nimbus sends what is no response to a certificate: do both run the same version?"
            )
        self.role = _role_in(frame[1:])
        return None


class Checking:
    """Nimbus, of one connection. `holder`: who has proved it; `name`: who says so.

    `tokens`: those that are valid, asked when the proof has come. `now_s`: the same, for the Unix time. `certificate`:
    what the client has shown in TLS.
    """

    def __init__(
        self,
        tokens: Callable[[], Tokens],
        now_s: Callable[[], float],
        nonce: bytes,
        binding: bytes = b"",
        certificate: PeerCertificate | None = None,
    ) -> None:
        self._tokens = tokens
        self._now_s = now_s
        self._nonce = nonce
        self._binding = binding
        self._transcript = b""
        self._certificate = certificate
        self.name = ""
        self.holder: Holder | None = None

    def receive(self, frame: bytes) -> bytes:
        """Take a frame; returns the frame to send. AuthenticationError: send REFUSED and close."""
        if not self._transcript and frame[:1] == SHOWN:
            return self._shown(frame)
        if self._certificate is not None:
            raise AuthenticationError("it shows a certificate, and would prove a token, too: one of them")
        if not self._transcript:
            nonce, rest = _started(frame, HELLO)
            name = rest.decode("ascii", "replace")
            if NAME.fullmatch(name) is None or nonce == self._nonce:
                raise AuthenticationError("it names no token, or sends our own nonce")
            self.name = name
            self._transcript = _transcript(name, nonce, self._nonce, self._binding)
            return _START.pack(CHALLENGE, VERSION, self._nonce)
        if len(frame) != _PROOF or frame[:1] != PROOF:
            raise AuthenticationError(f"an unexpected frame of {len(frame)} bytes")
        tokens, now_s = self._tokens(), self._now_s()
        stored, server = tokens.keys(self.name)
        found = _xor(frame[1:], hmac.digest(stored, b"client" + self._transcript, hashlib.sha256))
        self.holder = tokens.check_key(self.name, hashlib.sha256(found).digest(), now_s)
        if self.holder is None:
            raise AuthenticationError(f"the token {self.name!r} is unknown, wrong, revoked, or has ended")
        signature = hmac.digest(server, b"server" + self._transcript, hashlib.sha256)
        return WELCOME + signature + self.holder.role.value.encode()

    def _shown(self, frame: bytes) -> bytes:
        if self._certificate is None:
            raise AuthenticationError("it shows no certificate")
        if frame != Showing.hello:
            raise AuthenticationError(f"it speaks another version than {VERSION}")
        self.holder = holder_of(self._certificate, self._now_s())
        self.name = self.holder.name
        return ACCEPTED + self.holder.role.value.encode()


def _role_in(text: bytes) -> Role:
    try:
        return Role(text.decode("ascii"))
    except ValueError:
        raise AuthenticationError("nimbus gives a role that is none: do both run the same version?") from None


def _started(frame: bytes, kind: bytes) -> tuple[bytes, bytes]:
    """Nonce and rest of a HELLO or a CHALLENGE. AuthenticationError if it is none."""
    if frame[:1] != kind or not _START.size <= len(frame) <= MAX_FRAME_BYTES:
        raise AuthenticationError(
            f"an unexpected frame of {len(frame)} bytes that begins with {frame[:1].hex() or 'nothing'}"
        )
    _, version, nonce = _START.unpack_from(frame)
    if version != VERSION:
        raise AuthenticationError(f"the peer speaks version {version}, this is version {VERSION}")
    return nonce, frame[_START.size :]


def _transcript(name: str, client_nonce: bytes, server_nonce: bytes, binding: bytes) -> bytes:
    parts = (b"aiostorm nimbus", bytes([VERSION]), name.encode(), client_nonce, server_nonce, binding)
    return b"".join(struct.pack("!H", len(part)) + part for part in parts)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
