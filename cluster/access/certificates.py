"""Certificates: which role a client has by the certificate that it has shown in TLS. Pure.

    O=prod, OU=operator, CN=ann  ─►  cert:ann, operator            verified by TLS: of the cluster's CA, not ended

1. It names exactly one role, and that is one of a client (OU: viewer, operator, submitter or admin). A certificate of a
   node (parent, worker, …), one without a role, and one with two are refused: no role is guessed.
2. A name is one that `aiostorm certs` gives: it stands in logs. Others (line ends, control characters) are refused.
3. No token has a name with a colon: `cert:ann` is never a token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...transport import AuthenticationError
from .roles import GIVEN
from .tokens import Holder

if TYPE_CHECKING:
    from ...transport import PeerCertificate

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_ROLES: Final = {role.value: role for role in GIVEN}
_SHORT: Final = {"organizationName": "O", "organizationalUnitName": "OU", "commonName": "CN"}

MAX_SUBJECT_CHARS: Final = 300


def holder_of(certificate: PeerCertificate, now_s: float) -> Holder:
    """Who has shown it, and with which role. AuthenticationError: it is of no client."""
    which = f"the certificate {subject_of(certificate)} (SHA-256 {certificate.sha256})"
    names, units = certificate.named("commonName"), certificate.named("organizationalUnitName")
    if now_s >= certificate.ends_s:
        raise AuthenticationError(f"{which} has ended")
    if len(units) != 1 or units[0] not in _ROLES:
        raise AuthenticationError(
            f"{which} names no role of a client: one organizational unit must be {', '.join(_ROLES)}, and there may be "
            "no other (`aiostorm certs client`)"
        )
    if len(names) != 1 or _NAME.fullmatch(names[0]) is None:
        raise AuthenticationError(f"{which} names no owner: one common name, of A-Z a-z 0-9 _ . -")
    return Holder(f"cert:{names[0]}", _ROLES[units[0]], certificate=certificate)


def subject_of(certificate: PeerCertificate) -> str:
    """Its owner, as O=…/OU=…/CN=…, in printable ASCII."""
    # `/` and `\` in a value are escaped: no value can look like two.
    parts = (f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in certificate.subject)
    text = "/".join(parts)
    return text if len(text) <= MAX_SUBJECT_CHARS else f"{text[: MAX_SUBJECT_CHARS - 3]}..."


def _escaped(value: str) -> str:
    return value.encode("unicode_escape").decode("ascii").replace("/", "\\x2f")
