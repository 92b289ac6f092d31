"""TLS between nodes: TLS 1.3, and both sides show a certificate of the cluster's CA.

1. Only the cluster's own CA is trusted; the certificates that the system trusts do not count.
2. Both sides are verified. Browsers show no certificate, for each has a token of its own; clients of nimbus show one
   or have a token. The dialler also checks that the certificate is for the host that it dialled. There is no fallback:
   a mistake in the files is an error before anything listens.
3. A key is a file that only its owner may read. It is not encrypted: a daemon has no user to ask for a password.
4. The server's certificate is part of the authentication (its SHA-256; RFC 5929, tls-server-end-point): a proof made
   over one TLS connection is worthless on another.
5. A certificate may name the roles of its owner (organizational units). The owner then cannot take any other role.
   One that is not of the cluster's CA, or has ended, fails the TLS handshake, also where none is needed.

From: CVE-2026-41081 (Storm: TLS that failed open), storm#8987 (the peer's name was not checked).
"""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ..errors import CredentialsError
from .credentials import read_private


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Three files, PEM: this node's certificate, its key (0600), and the certificate of the cluster's CA.

    `one_sided`: who connects need not show a certificate: without one it proves with a token who it is.
    """

    certificate: str
    key: str
    ca: str
    one_sided: bool = False

    @classmethod
    def in_folder(cls, folder: str) -> Self:
        """Those in a folder that `aiostorm certs` has made."""
        certificate, key, ca = (os.path.join(folder, name) for name in ("certificate.pem", "key.pem", "ca.pem"))
        return cls(certificate, key, ca)

    @classmethod
    def of_authority(cls, ca: str) -> Self:
        """For one who only dials, and has no certificate."""
        return cls("", "", ca, one_sided=True)

    @property
    def can_listen(self) -> bool:
        """Is there a certificate of our own?"""
        return bool(self.certificate)

    def server_context(self) -> ssl.SSLContext:
        """For listening. CredentialsError if a file cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL if self.one_sided else ssl.CERT_REQUIRED
        return self._loaded(context)

    def client_context(self) -> ssl.SSLContext:
        """For dialling. CredentialsError if a file cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the host name, and requires a certificate
        return self._loaded(context, own=self.can_listen)

    def page_context(self) -> ssl.SSLContext:
        """For a server of web pages. Browsers show no certificate of the cluster's: only a token proves who asks.

        CredentialsError if a file cannot be used.
        """
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def binding(self) -> bytes:
        """The SHA-256 of the certificate. CredentialsError if the file has none."""
        return binding_of(_first_certificate(self.certificate))

    def _loaded(self, context: ssl.SSLContext, *, own: bool = True) -> ssl.SSLContext:
        if own:
            read_private(self.key, 1)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            context.load_verify_locations(self.ca)
            if own:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            files = f"{self.certificate}, {self.key} and {self.ca}" if own else self.ca
            raise CredentialsError(f"TLS cannot be used with {files}: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A certificate of the cluster's CA that the peer has shown, and whose key it has.

    `sha256`: its fingerprint, in hexadecimal. `subject`: the attributes of its owner, in their order, as it says.
    `ends_s`: Unix time from which on it is not valid.
    """

    sha256: str
    subject: tuple[tuple[str, str], ...]
    ends_s: float

    def named(self, attribute: str) -> tuple[str, ...]:
        """The values of one attribute of the subject, as `organizationalUnitName`."""
        return tuple(value for name, value in self.subject if name == attribute)


def peer_certificate_of(certificate: Mapping[str, Any], encoded: bytes) -> PeerCertificate:
    """A certificate that was verified: as `getpeercert` gives it, and its bytes (DER)."""
    subject = tuple((str(name), str(value)) for part in certificate.get("subject", ()) for name, value in part)
    return PeerCertificate(binding_of(encoded).hex(), subject, ssl.cert_time_to_seconds(certificate["notAfter"]))


def fingerprint_in(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of the first certificate in a file (PEM), in hexadecimal. CredentialsError if it has none."""
    return binding_of(_first_certificate(os.fspath(path))).hex()


def binding_of(certificate: bytes) -> bytes:
    """The SHA-256 of a certificate (DER)."""
    return hashlib.sha256(certificate).digest()


def roles_in(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The roles that a certificate names, as `getpeercert` gives it: its organizational units."""
    names = (pair for part in (certificate or {}).get("subject", ()) for pair in part)
    return frozenset(value for name, value in names if name == "organizationalUnitName")


def _no_password() -> str:
    raise CredentialsError(
        "the key has a password, and there is no user to ask for it: give a key without one, mode 0600"
    )


def _first_certificate(path: str) -> bytes:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(64 * 1024)
        begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
        return ssl.PEM_cert_to_DER_cert(text[begin:end])
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{os.fspath(path)} holds no certificate in PEM: {error}") from error
