"""Certificates: a CA for a cluster, and certificates for its nodes. Made with `cryptography` (aiostorm[tls]).

1. Keys are ECDSA over P-256. The CA signs nodes and no other CA; a node's certificate can be used for listening and for
   dialling, and for nothing else.
2. A node's certificate names the given hosts, and the loopback addresses, by which processes of one machine connect.
3. It names the node's roles as organizational units.
4. A client's certificate names one role at nimbus, and no host: it can be used for dialling only.
5. Certificates are valid from one hour before they are made, since clocks differ.
6. Bytes in, bytes out: the caller writes the files, with modes that keep the keys private.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import CredentialsError
from .credentials import Secret

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

_EARLY: Final = timedelta(hours=1)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # also a name of a directory: never `..`
_HOST: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, PEM. `expires`: in UTC."""

    certificate: bytes
    key: Secret
    expires: datetime


def end_of_certificate(pem: bytes) -> float:
    """The Unix time from which on a certificate is not valid. CredentialsError if there is none."""
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError as error:
        raise CredentialsError("this is no certificate in PEM") from error


def new_authority(cluster: str, now_s: float, days: int) -> Issued:
    """A CA for the cluster. `now_s`: seconds since 1970."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject(cluster, f"{cluster} CA")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _dated(now_s, days, key.public_key())
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return _issued(builder.sign(key, hashes.SHA256()), key)


def new_certificate(
    ca_certificate: bytes,
    ca_key: Secret,
    name: str,
    hosts: Iterable[str],
    now_s: float,
    days: int,
    roles: Iterable[str] = (),
) -> Issued:
    """A certificate for a node. `roles`: the roles that it may take; empty: any.

    CredentialsError if a host is not valid, the CA cannot be used, or the CA expires before the certificate.
    """
    names = [_general_name(host) for host in dict.fromkeys((*hosts, *LOOPBACK))]
    return _certificate(
        ca_certificate,
        ca_key,
        (name, roles),
        (now_s, days),
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        names,
    )


def new_client_certificate(
    ca_certificate: bytes, ca_key: Secret, name: str, role: str, now_s: float, days: int
) -> Issued:
    """A certificate for a person or a program that asks nimbus. `role`: what it may do there.

    CredentialsError if the CA cannot be used, or expires before the certificate.
    """
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH]
    return _certificate(ca_certificate, ca_key, (name, (role,)), (now_s, days), usage, [])


def _certificate(
    ca_certificate: bytes,
    ca_key: Secret,
    owner: tuple[str, Iterable[str]],
    valid: tuple[float, int],
    usage: list[x509.ObjectIdentifier],
    names: list[x509.GeneralName],
) -> Issued:
    """`owner`: name, roles. `valid`: from this Unix time on, for so many days. `names`: of hosts."""
    now_s, days = valid
    try:
        ca = x509.load_pem_x509_certificate(ca_certificate)
        signer = serialization.load_pem_private_key(ca_key.reveal(), password=None)
    except (ValueError, TypeError) as error:
        raise CredentialsError(f"the CA's certificate or key cannot be used: {error}") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey) or signer.public_key() != ca.public_key():
        raise CredentialsError("the CA's key does not belong to its certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _dated(now_s, days, key.public_key())
    if ca.not_valid_after_utc < _at(now_s) + timedelta(days=days):
        raise CredentialsError(
            f"the CA is valid until {ca.not_valid_after_utc:%Y-%m-%d} only: give fewer --days, or make a new one with "
            "`aiostorm certs init`"
        )
    organisation = ca.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    builder = (
        builder.subject_name(_subject(str(organisation[0].value) if organisation else "aiostorm", *owner))
        .issuer_name(ca.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _issued(builder.sign(signer, hashes.SHA256()), key)


def _subject(cluster: str, name: str, roles: Iterable[str] = ()) -> x509.Name:
    for word in (cluster, name.removesuffix(" CA")):
        if not _NAME.fullmatch(word):
            raise CredentialsError(
                f"a name is 1 to 64 of A-Z a-z 0-9 _ . -, and begins with no . or -: not {word[:140]!r}"
            )
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster),
            *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role) for role in roles),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:64]),
        ]
    )


def _dated(now_s: float, days: int, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = _at(now_s)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + timedelta(days=days))
        .public_key(key)
    )


def _at(now_s: float) -> datetime:
    return datetime.fromtimestamp(int(now_s), UTC)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        if len(host) > 253 or not _HOST.fullmatch(host.lower()):
            raise CredentialsError(f"{host[:140]!r} is not a host such as a.example or an IP address") from None
        return x509.DNSName(host.lower())


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(certificate.public_bytes(pem), Secret(private), certificate.not_valid_after_utc)
