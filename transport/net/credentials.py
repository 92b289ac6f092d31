"""Credentials: which cluster a process belongs to, and the secret that proves it.

    demo.3fJ1…            the cluster's id, a dot, and a token of 256 random bits or more (base64 for URLs)

1. A token is a `Secret`: it is shown as ***, is part of no text, and cannot be pickled or formatted. An error about
   unreadable credentials does not contain what was read.
2. It comes from a file that only its owner may read, from bytes (the standard input of a child), or from an environment
   variable: never from an argument, which every user of the machine can see.
3. Every process that has the token belongs to the cluster: all nodes share it.
4. The processes of one topology of a cluster use credentials that are derived from it: a process of another topology,
   which may listen at the address that one of them has had, is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, Self

from ...runtime import Rng, SystemRng
from ..errors import CredentialsError

TOKEN_BYTES: Final = 32
"""Size of a new token, and the smallest size that is accepted: 256 bits."""

MAX_CREDENTIALS_BYTES: Final = 1024
"""The largest file of credentials that is read."""

VARIABLE: Final = "AIOSTORM_CREDENTIALS"
"""The environment variable that is read if there is no file."""

_FINGERPRINT: Final = 16
"""Characters of a fingerprint."""

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Secret:
    """Bytes that no text shows."""

    __slots__ = ("_bytes",)

    def __init__(self, value: bytes) -> None:
        self._bytes = value

    def reveal(self) -> bytes:
        """The bytes themselves."""
        return self._bytes

    def __repr__(self) -> str:
        return "***"

    def __format__(self, specification: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._bytes, other._bytes)

    __hash__ = None  # type: ignore[assignment]  # a dict would compare hashes, which is not constant time

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves that a node belongs to a cluster. CredentialsError if the token is too short, or the id not valid."""

    cluster_id: str
    token: Secret

    def __post_init__(self) -> None:
        if not _CLUSTER_ID.fullmatch(self.cluster_id):
            raise CredentialsError("a cluster's id is 1 to 64 of A-Z a-z 0-9 _ -")
        if len(self.token.reveal()) < TOKEN_BYTES:
            raise CredentialsError(f"a token has at least {TOKEN_BYTES} bytes: `aiostorm certs init` makes one")

    @classmethod
    def new(cls, cluster_id: str, rng: Rng | None = None) -> Self:
        """New credentials, with a new token."""
        return cls(cluster_id, new_token(rng))

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the credentials") -> Self:
        """Read what `to_bytes` returned. CredentialsError names the source."""
        cluster_id, dot, token = data[:MAX_CREDENTIALS_BYTES].strip().partition(b".")
        try:
            if not dot or len(data) > MAX_CREDENTIALS_BYTES:
                raise binascii.Error
            padded = token + b"=" * (-len(token) % 4)
            return cls(cluster_id.decode("ascii"), Secret(base64.b64decode(padded, altchars=b"-_", validate=True)))
        except (ValueError, CredentialsError) as error:
            why = error if isinstance(error, CredentialsError) else "expected: the cluster's id, a dot, a token"
        raise CredentialsError(f"{source} cannot be used: {why}")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that only this user may read. CredentialsError says what to do."""
        return cls.from_bytes(read_private(path, MAX_CREDENTIALS_BYTES + 1), os.fspath(path))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """Read AIOSTORM_CREDENTIALS; None if it is not set."""
        value = (os.environ if environment is None else environment).get(VARIABLE)
        return None if value is None else cls.from_bytes(value.encode("utf-8", "replace"), VARIABLE)

    def derived(self, purpose: str) -> Self:
        """Those of the same cluster for one purpose. Nothing about these can be read from them."""
        return type(self)(self.cluster_id, Secret(self._hash(f"derived:{purpose}")))

    @property
    def fingerprint(self) -> str:
        """Tells credentials apart, and is no secret: it may be stored and shown."""
        return self._hash("fingerprint").hex()[:_FINGERPRINT]

    def _hash(self, text: str) -> bytes:
        return hmac.digest(self.token.reveal(), f"aiostorm:{self.cluster_id}:{text}".encode(), hashlib.sha256)

    def to_bytes(self) -> bytes:
        """One line that contains the secret: for a file of mode 0600, or the standard input of a child."""
        token = base64.urlsafe_b64encode(self.token.reveal()).rstrip(b"=")
        return b"%s.%s\n" % (self.cluster_id.encode(), token)


def new_token(rng: Rng | None = None) -> Secret:
    """256 random bits."""
    return Secret((rng or SystemRng()).token_bytes(TOKEN_BYTES))


def read_private(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """At most so many bytes of a file that belongs to this user, and that only its owner may read; CredentialsError."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise CredentialsError(f"{name} cannot be read: {error.strerror or error}") from error
    try:
        found = os.fstat(descriptor)
        if os.name != "nt" and found.st_mode & 0o077:
            raise CredentialsError(f"others may read {name}, and it is a secret: chmod 600 {name}")
        if os.name != "nt" and found.st_uid not in (os.geteuid(), 0):
            raise CredentialsError(f"{name} belongs to another user: copy it, or chown it to the one that runs this")
        return os.read(descriptor, max_bytes)
    except OSError as error:
        raise CredentialsError(f"{name} cannot be read: {error.strerror or error}") from error
    finally:
        os.close(descriptor)
