"""Revoked certificates: which client certificates no nimbus accepts any more. They are in the coordination store.

    /revoked-certificates/SHA256      when, and by whom

1. All nimbuses of a cluster read the same list, at each request of who has shown a certificate: one that was revoked is
   refused from the next request on, on open connections, too.
2. While the store cannot be reached no such request is answered: UnavailableError.
3. What is there is revoked, whether its value can be read or not.
4. There are at most MAX_REVOKED. One of which it is known that it ended KEPT_S ago leaves the list with the next one
   that is revoked: TLS accepts it no more.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from ..coordination import Create, Delete, NodeExistsError, NoNodeError

if TYPE_CHECKING:
    from ..coordination import Coordination

FOLDER: Final = "/revoked-certificates"
MAX_REVOKED: Final = 10_000
KEPT_S: Final = 86_400.0
"""After its end one stays for a day: clocks differ."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_UNKNOWN: Final = "(cannot be read)"


@dataclass(frozen=True, slots=True)
class RevokedCertificate:
    """One of the list. `sha256`: its fingerprint. `revoked_s`: Unix time; 0: that is not known. `by`: who has.

    `ends_s`: Unix time from which on it is not valid; 0: that is not known.
    """

    sha256: str
    revoked_s: float
    by: str
    ends_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Value:
    revoked_s: float
    by: str
    ends_s: float = 0.0


_VALUE: Final = TypeAdapter(_Value)


class RevokedCertificates:
    """The list in this store. All methods raise UnavailableError, SessionLostError."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def has(self, sha256: str) -> bool:
        """Is the certificate with this fingerprint revoked?"""
        return await self._coordination.get(f"{FOLDER}/{checked_fingerprint(sha256)}") is not None

    async def add(self, sha256: str, now_s: float, by: str, ends_s: float = 0.0) -> None:
        """Revoke one, if it is not revoked already. ValueError: it is no fingerprint, or there are too many.

        `ends_s`: Unix time of its end; 0: that is not known, and it stays in the list.
        """
        path = f"{FOLDER}/{checked_fingerprint(sha256)}"
        coordination = self._coordination
        if await coordination.get(FOLDER) is None:
            with contextlib.suppress(NodeExistsError):
                await coordination.commit([Create(FOLDER)])
        if await self._drop_ended(now_s) >= MAX_REVOKED:
            raise ValueError(f"{MAX_REVOKED:,} certificates are revoked already: make a new CA (`aiostorm certs init`)")
        with contextlib.suppress(NodeExistsError):
            await coordination.commit([Create(path, _VALUE.dump_json(_Value(now_s, by, ends_s)))])

    async def listed(self) -> list[RevokedCertificate]:
        """All, the oldest first."""
        try:
            names = await self._coordination.children(FOLDER)
        except NoNodeError:
            return []
        found: list[RevokedCertificate] = []
        for name in names:
            node = await self._coordination.get(f"{FOLDER}/{name}")
            if node is not None:
                value = _value_in(node.value)
                found.append(RevokedCertificate(name, value.revoked_s, value.by, value.ends_s))
        return sorted(found, key=lambda each: (each.revoked_s, each.sha256))

    async def _drop_ended(self, now_s: float) -> int:
        """Remove those that ended long ago. How many there are then."""
        left = 0
        for name in await self._coordination.children(FOLDER):
            path = f"{FOLDER}/{name}"
            node = await self._coordination.get(path)
            ends_s = 0.0 if node is None else _value_in(node.value).ends_s
            if 0.0 < ends_s < now_s - KEPT_S:
                with contextlib.suppress(NoNodeError):  # by another one
                    await self._coordination.commit([Delete(path)])
            else:
                left += 1
        return left


def checked_fingerprint(sha256: str) -> str:
    """The fingerprint, in small letters and without colons. ValueError if it is none."""
    found = sha256.replace(":", "").lower()
    if _SHA256.fullmatch(found) is None:
        raise ValueError(f"a fingerprint is the SHA-256 of a certificate, 64 hexadecimal digits, not {sha256!r:.80}")
    return found


def _value_in(data: bytes) -> _Value:
    try:
        return _VALUE.validate_json(data)
    except ValidationError:
        return _Value(0.0, _UNKNOWN)
