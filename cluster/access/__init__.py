"""Access: who may order what of a cluster: roles, tokens, certificates, and the link between a client and nimbus.

roles.py       what a role may do                 tokens.py     names, roles and keys
token_file.py  the tokens of this machine         proving.py    the handshake, both sides
certificates.py  the role in a certificate        revoked.py    certificates that are not accepted any more
failures.py    how often an address may fail      wire.py       requests and responses
link.py        the client's connection            audit.py      the line of a change; audit_log.py: its file

The page has the same roles and tokens (ui/guard). The server is in `serving`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .audit import Change, line_of
    from .audit_log import AuditError, AuditLog
    from .certificates import holder_of, subject_of
    from .errors import DeniedError, RequestError
    from .failures import MOST, PERIOD_S, Failures
    from .link import NimbusLink, nimbus_addresses, nimbus_link, value_of
    from .proving import NONCE_BYTES, REFUSED, Checking, Proving, Showing
    from .revoked import RevokedCertificate, RevokedCertificates, checked_fingerprint
    from .roles import GIVEN, Role
    from .token_file import TokenFile
    from .tokens import Entry, Holder, TokenInfo, Tokens, check_token_name
    from .wire import PIECE_BYTES, Request, error_frames, problems_of, read_request, request_frame, value_frames

__all__ = [
    "GIVEN",
    "MOST",
    "NONCE_BYTES",
    "PERIOD_S",
    "PIECE_BYTES",
    "REFUSED",
    "AuditError",
    "AuditLog",
    "Change",
    "Checking",
    "DeniedError",
    "Entry",
    "Failures",
    "Holder",
    "NimbusLink",
    "Proving",
    "Request",
    "RequestError",
    "RevokedCertificate",
    "RevokedCertificates",
    "Role",
    "Showing",
    "TokenFile",
    "TokenInfo",
    "Tokens",
    "check_token_name",
    "checked_fingerprint",
    "error_frames",
    "holder_of",
    "line_of",
    "nimbus_addresses",
    "nimbus_link",
    "problems_of",
    "read_request",
    "request_frame",
    "subject_of",
    "value_frames",
    "value_of",
]

_LATER = {
    "audit": "Change line_of",
    "certificates": "holder_of subject_of",
    "audit_log": "AuditError AuditLog",
    "errors": "DeniedError RequestError",
    "failures": "MOST PERIOD_S Failures",
    "link": "NimbusLink nimbus_addresses nimbus_link value_of",
    "proving": "NONCE_BYTES REFUSED Checking Proving Showing",
    "revoked": "RevokedCertificate RevokedCertificates checked_fingerprint",
    "roles": "GIVEN Role",
    "token_file": "TokenFile",
    "tokens": "Entry Holder TokenInfo Tokens check_token_name",
    "wire": "PIECE_BYTES Request error_frames problems_of read_request request_frame value_frames",
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
