"""Security: how a node proves its identity and checks its peers: credentials, TLS files, or neither on one machine."""

from __future__ import annotations

import os
import ssl
from asyncio import BaseTransport
from dataclasses import dataclass, replace
from typing import Self

from .addresses import TcpAddress, check_exposure, parse_address
from .credentials import Credentials
from .tls import PeerCertificate, TlsFiles, binding_of, peer_certificate_of, roles_in


@dataclass(frozen=True, slots=True)
class Security:
    """`insecure`: allow other machines without TLS and a token, because the network is protected otherwise."""

    credentials: Credentials | None = None
    tls: TlsFiles | None = None
    insecure: bool = False

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str]) -> Self:
        """The files that `aiostorm certs node` makes. CredentialsError if one is missing or others may read it."""
        folder = os.fspath(directory)
        credentials = Credentials.from_file(os.path.join(folder, "credentials"))
        return cls(credentials, TlsFiles.in_folder(folder))

    def derived(self, purpose: str) -> Self:
        """With credentials for one purpose (see Credentials.derived)."""
        credentials = self.credentials
        return self if credentials is None else replace(self, credentials=credentials.derived(purpose))

    def check_listening(self, address: str) -> None:
        """ExposedError if other machines can reach this address and something is missing.

        A host name passes: its resolved addresses are checked when the listener starts.
        """
        parsed = parse_address(address)
        if isinstance(parsed, TcpAddress) and parsed.ip is not None:
            tls, token = self.tls is not None, self.credentials is not None
            check_exposure((address,), tls=tls, token=token, insecure=self.insecure)

    def server_context(self) -> ssl.SSLContext | None:
        """For listening; None: no TLS. CredentialsError if a file cannot be used."""
        return None if self.tls is None or not self.tls.can_listen else self.tls.server_context()

    def client_context(self) -> ssl.SSLContext | None:
        """For dialling; None: no TLS. CredentialsError if a file cannot be used."""
        return None if self.tls is None else self.tls.client_context()

    def own_binding(self) -> bytes:
        """Identifies an incoming TLS connection: the hash of our certificate; empty without TLS."""
        return b"" if self.tls is None or not self.tls.can_listen else self.tls.binding()


def certified_roles(transport: BaseTransport) -> frozenset[str]:
    """The roles that the peer's certificate names; empty if it names none, or there is no TLS."""
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return frozenset() if secured is None else roles_in(secured.getpeercert())


def peer_certificate(transport: BaseTransport) -> PeerCertificate | None:
    """The certificate that the peer has shown; None: it has shown none, or there is no TLS."""
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    encoded = None if secured is None else secured.getpeercert(binary_form=True)
    found = None if secured is None else secured.getpeercert()
    return peer_certificate_of(found, encoded) if found and encoded else None


def dialled_binding(transport: BaseTransport) -> bytes:
    """Identifies a connection that we opened: the hash of the peer's certificate; empty without TLS."""
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate = None if secured is None else secured.getpeercert(binary_form=True)
    return b"" if certificate is None else binding_of(certificate)
