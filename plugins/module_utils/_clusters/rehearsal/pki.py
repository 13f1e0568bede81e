# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of one instance: its authorities and a key pair for every component, all files with mode 0600.

All keys are P-256, which are created in milliseconds. The package ``cryptography`` is imported on first use.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

from .component_spec import CertificateSpec

#: Lifetime. An instance that runs for longer gets new certificates when it is started again.
LEAF_DAYS = 365
AUTHORITY_DAYS = 3650
RENEW_DAYS = 14
#: A new certificate stays valid if the clock is set back a little.
BACKDATE = datetime.timedelta(hours=1)

SERVICE_ACCOUNT = "service-account"


@dataclass
class CertificateAuthority:
    """A certificate authority in memory."""

    certificate: Any
    key: Any


def authority_file_stem(name: str) -> str:
    """Return the base name of an authority's files: ``ca`` for the cluster's own, else ``<name>-ca``."""
    return "ca" if name == "cluster" else f"{name}-ca"


def create_missing_certificates(folder: Path, wanted: list[CertificateSpec]) -> list[str]:
    """Create missing and expiring certificates in ``folder``; return their names.

    A new authority replaces all certificates that the old one signed.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    created: list[str] = []
    for name in sorted({"cluster", "front-proxy", *(certificate.authority for certificate in wanted)}):
        base = authority_file_stem(name)
        authority = None if _is_certificate_renewal_due(folder, base) else _read_authority(folder, base)
        if authority is None:
            # Certificates of the old authority are removed first: they look valid, but would be rejected.
            for certificate in wanted:
                if certificate.authority == name:
                    (folder / f"{certificate.name}.crt").unlink(missing_ok=True)
            authority = _make_authority(folder, base)
            created.append(base)
        for certificate in wanted:
            if certificate.authority == name and _is_certificate_renewal_due(folder, certificate.name):
                _make_leaf(folder, certificate, authority)
                created.append(certificate.name)
    if not (folder / f"{SERVICE_ACCOUNT}.key").is_file() or not (folder / f"{SERVICE_ACCOUNT}.pub").is_file():
        _make_service_account(folder)
        created.append(SERVICE_ACCOUNT)
    return created


def _is_certificate_renewal_due(folder: Path, base: str) -> bool:
    """Return whether a pair is missing, damaged or expires soon."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate((folder / f"{base}.crt").read_bytes())
    except (OSError, ValueError):
        return True
    if not (folder / f"{base}.key").is_file():
        return True
    return certificate.not_valid_after_utc - _current_utc_time() < datetime.timedelta(days=RENEW_DAYS)


def _read_authority(folder: Path, base: str) -> CertificateAuthority:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    return CertificateAuthority(
        x509.load_pem_x509_certificate((folder / f"{base}.crt").read_bytes()),
        serialization.load_pem_private_key((folder / f"{base}.key").read_bytes(), password=None),
    )


def _current_utc_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _certificate_subject(common_name: str, groups: list[str]) -> Any:
    """Return a subject. Kubernetes reads the user from the common name, the groups from the organizations."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate_builder(subject: Any, issuer: Any, key: Any, days: int) -> Any:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_current_utc_time() - BACKDATE)
        .not_valid_after(_current_utc_time() + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage_extension(**given: bool) -> Any:
    from cryptography import x509

    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: given.get(name, False) for name in names})


def _make_authority(folder: Path, base: str) -> CertificateAuthority:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _certificate_subject(f"seatrial-rehearsal-{base}", [])
    certificate = (
        _certificate_builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage_extension(digital_signature=True, key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_pair(folder, base, certificate, key)
    return CertificateAuthority(certificate, key)


def _make_leaf(folder: Path, wanted: CertificateSpec, authority: CertificateAuthority) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] * wanted.serves + [ExtendedKeyUsageOID.CLIENT_AUTH] * wanted.identifies
    builder = (
        _certificate_builder(
            _certificate_subject(wanted.common_name, wanted.groups), authority.certificate.subject, key, LEAF_DAYS
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage_extension(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if wanted.serves:
        names = [x509.DNSName(name) for name in ["localhost", *wanted.names]]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ["127.0.0.1", *wanted.addresses]]
        builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
    _write_pair(folder, wanted.name, builder.sign(authority.key, hashes.SHA256()), key)


def _make_service_account(folder: Path) -> None:
    """Create the key pair that signs service account tokens."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    files.replace_text(folder / f"{SERVICE_ACCOUNT}.key", _private_key_pem(key), mode=0o600)
    files.replace_text(folder / f"{SERVICE_ACCOUNT}.pub", public.decode(), mode=0o600)


def _private_key_pem(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def _write_pair(folder: Path, base: str, certificate: Any, key: Any) -> None:
    """Write the key first, so that there is never a certificate without its key. ``base`` may name a folder."""
    from cryptography.hazmat.primitives import serialization

    (folder / base).parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{base}.crt").unlink(missing_ok=True)
    files.replace_text(folder / f"{base}.key", _private_key_pem(key), mode=0o600)
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    files.replace_text(folder / f"{base}.crt", text, mode=0o600)
    os.chmod(folder, 0o700)
