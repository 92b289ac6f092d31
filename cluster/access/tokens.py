"""Tokens: who may do what in a cluster, by name. Pure: a value, and another one for each change.

    aiostorm token add ann ─► 256 random bits ─┬─► ann.token: `ann.3fJ1…`, for Ann
                                               └─► HOME/tokens: name, role, end, two keys made from it

1. The token itself is kept nowhere. `stored_key` = SHA-256 of a key made from it (SCRAM, RFC 5802): who reads the file
   cannot use it to authenticate, neither over a link nor at the page. A random token needs no salt, and no iterations.
2. Keys are compared in constant time; for a name that is not there a comparison is made, too.
3. A token ends at its time, and when its name is removed: every request is checked, also on a connection that is open.
4. What cannot be read is refused as a whole: no entry is left out, no role is guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from pydantic import TypeAdapter, ValidationError

from ...transport import CredentialsError
from .roles import Role

if TYPE_CHECKING:
    from ...transport import Credentials, PeerCertificate, Secret

MAX_TOKENS: Final = 1_000
MAX_FILE_BYTES: Final = 512 * 1024

KEY_BYTES: Final = 32

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of a token: that of a person or a program. It stands in the audit log."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_NO_KEY: Final = bytes(KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Entry:
    """A token, without itself. `ends_s`: Unix time from which on it is not valid; None: never. Keys in hexadecimal."""

    role: Role
    stored_key: str
    server_key: str
    made_s: float = 0.0
    ends_s: float | None = None

    def __post_init__(self) -> None:
        if self.role is Role.PUBLIC or not (_HEX.fullmatch(self.stored_key) and _HEX.fullmatch(self.server_key)):
            raise ValueError("a token has the role viewer, operator, submitter or admin, and two keys of 64 digits")
        if not all(map(math.isfinite, (self.made_s, self.ends_s or 0.0))):
            raise ValueError("a time is no number")

    def is_valid(self, now_s: float) -> bool:
        """Has it not ended?"""
        return self.ends_s is None or now_s < self.ends_s


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has authenticated. `key`: of which token with that name, since another one may take it.

    `certificate`: what was shown instead of a token.
    """

    name: str
    role: Role
    key: str = field(default="", repr=False)
    certificate: PeerCertificate | None = None

    @property
    def shown(self) -> str:
        """What was shown, for people."""
        if self.certificate is None:
            return f"the token {self.name!r}"
        return f"the certificate {self.name!r} (SHA-256 {self.certificate.sha256})"


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token, as it is listed. Unix times; `ends_s` None: never."""

    name: str
    role: str
    made_s: float
    ends_s: float | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """All tokens, by name."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    def with_one(self, token: Credentials, role: Role, now_s: float, lasts_s: float | None = None) -> Self:
        """One more. `token.cluster_id`: its name. `lasts_s`: None: without an end. ValueError if the name is taken."""
        name = token.cluster_id
        there = self.entries.get(name)
        if there is not None and there.is_valid(now_s):
            raise ValueError(f"there is a token {name!r} already: revoke it, or take another name")
        if len(self.entries) >= MAX_TOKENS:
            raise ValueError(f"there are {MAX_TOKENS:,} tokens already: revoke those that are not used")
        if lasts_s is not None and not 0 < lasts_s < math.inf:
            raise ValueError("a token is valid for some time")
        stored, server = keys_of(token.token)
        made = Entry(role, stored.hex(), server.hex(), now_s, None if lasts_s is None else now_s + lasts_s)
        return replace(self, entries={**self.entries, name: made})

    def without(self, name: str) -> Self:
        """All but this one. ValueError if there is none."""
        if name not in self.entries:
            there = ", ".join(sorted(self.entries)[:10])
            raise ValueError(f"there is no token {name!r:.80}; there {'are: ' + there if there else 'is none at all'}")
        return replace(self, entries={one: entry for one, entry in self.entries.items() if one != name})

    def check(self, token: Credentials, now_s: float) -> Holder | None:
        """Who has this token; None: it is none, or not valid any more. In constant time."""
        stored, _ = keys_of(token.token)
        return self.check_key(token.cluster_id, stored, now_s)

    def check_key(self, name: str, stored_key: bytes, now_s: float) -> Holder | None:
        """As `check`, with the key made from the token."""
        entry = self.entries.get(name)
        known = _NO_KEY if entry is None else bytes.fromhex(entry.stored_key)
        same = hmac.compare_digest(known, stored_key)
        if entry is None or not same or not entry.is_valid(now_s):
            return None
        return Holder(name, entry.role, entry.stored_key)

    def keys(self, name: str) -> tuple[bytes, bytes]:
        """`stored_key` and `server_key`; zeros for a name that is not there."""
        entry = self.entries.get(name)
        return (
            (_NO_KEY, _NO_KEY) if entry is None else (bytes.fromhex(entry.stored_key), bytes.fromhex(entry.server_key))
        )

    def still(self, holder: Holder, now_s: float) -> Holder | None:
        """Who has authenticated before, with the role that the token has now; None: it is not valid any more."""
        return self.check_key(holder.name, bytes.fromhex(holder.key), now_s)

    def listed(self) -> list[TokenInfo]:
        """All, sorted by name, without their keys."""
        entries = sorted(self.entries.items())
        return [TokenInfo(name, each.role.value, each.made_s, each.ends_s) for name, each in entries]

    def to_bytes(self) -> bytes:
        """For the file."""
        return _FILE.dump_json(_File(dict(sorted(self.entries.items()))), indent=1) + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> Self:
        """What `to_bytes` returned. CredentialsError names the source, and what is wrong."""
        if len(data) > MAX_FILE_BYTES:
            raise CredentialsError(f"{source} has more than {MAX_FILE_BYTES:,} bytes: it is no file of tokens")
        try:
            found = _FILE.validate_json(data)
        except ValidationError as error:
            wrong = {f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['type']}" for each in error.errors()[:3]}
            raise CredentialsError(
                f"{source} is no file of tokens ({'; '.join(sorted(wrong))}): `aiostorm token add` makes one"
            ) from None  # pydantic's error contains what was read
        names = [name for name in found.tokens if NAME.fullmatch(name) is None]
        if names or len(found.tokens) > MAX_TOKENS:
            raise CredentialsError(f"{source}: {names[0]!r:.80} is no name" if names else f"{source}: too many tokens")
        return cls(found.tokens)


@dataclass(frozen=True, slots=True)
class _File:
    tokens: dict[str, Entry]
    version: int = 1

    def __post_init__(self) -> None:
        if self.version != 1:
            raise ValueError("another version of aiostorm has written it")


_FILE: Final = TypeAdapter(_File)


def keys_of(token: Secret) -> tuple[bytes, bytes]:
    """`stored_key` and `server_key` of a token."""
    return hashlib.sha256(client_key(token)).digest(), _key(token, b"Server Key")


def client_key(token: Secret) -> bytes:
    """The key whose possession is proved."""
    return _key(token, b"Client Key")


def _key(token: Secret, purpose: bytes) -> bytes:
    # Hashed: HMAC fills a short key with zeros, so a token and the same token with a zero appended would be equal.
    return hmac.digest(hashlib.sha256(token.reveal()).digest(), purpose, hashlib.sha256)


def check_token_name(name: str) -> str:
    """The name, if a token can have it. ValueError."""
    if NAME.fullmatch(name) is None:
        raise ValueError(f"a token's name is 1 to 64 of A-Z a-z 0-9 _ -, not {name!r:.80}")
    return name
