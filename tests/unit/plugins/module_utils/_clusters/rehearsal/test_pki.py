"""Certificates: who signs what, for whom, and what happens when they run out."""

from __future__ import annotations

import datetime
import ipaddress
import stat
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import pki
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_spec import (
    CertificateSpec,
)
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER = CertificateSpec("api", "kube-apiserver", serves=True, names=["kubernetes"], addresses=["10.96.0.1"])
CLIENT = CertificateSpec("kwok", "seatrial:kwok", groups=["a", "b"], identifies=True)
STORE = CertificateSpec("etcd-client", "kube-apiserver", authority="etcd", identifies=True)
ALL = [SERVER, CLIENT, STORE]


def read(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pki.create_missing_certificates(tmp_path / "pki", ALL)
    return tmp_path / "pki"


def test_each_certificate_is_signed_by_its_own_authority_only(folder: Path) -> None:
    read(folder, "kwok").verify_directly_issued_by(read(folder, "ca"))
    read(folder, "etcd-client").verify_directly_issued_by(read(folder, "etcd-ca"))
    with pytest.raises(ValueError):
        read(folder, "kwok").verify_directly_issued_by(read(folder, "etcd-ca"))


def test_user_and_groups_are_where_kubernetes_reads_them(folder: Path) -> None:
    subject = read(folder, "kwok").subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["seatrial:kwok"]
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["a", "b"]


def test_a_server_is_named_by_loopback_and_its_own_names(folder: Path) -> None:
    names = read(folder, "api").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "kubernetes"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert addresses == [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("10.96.0.1")]


def test_a_certificate_serves_or_identifies_but_does_not_do_the_other(folder: Path) -> None:
    def purposes(name: str) -> list:
        return list(read(folder, name).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    assert purposes("api") == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert purposes("kwok") == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_only_authorities_may_sign(folder: Path) -> None:
    def is_authority(name: str) -> bool:
        return read(folder, name).extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    assert is_authority("ca") and is_authority("etcd-ca") and is_authority("front-proxy-ca")
    assert not is_authority("api") and not is_authority("kwok")


def test_key_and_certificate_belong_together(folder: Path) -> None:
    for name in ("ca", "api", "kwok", "etcd-client"):
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        assert key.public_key() == read(folder, name).public_key()


def test_the_public_half_of_the_token_key_is_its_own(folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "service-account.key").read_bytes(), None)
    assert serialization.load_pem_public_key((folder / "service-account.pub").read_bytes()) == key.public_key()


def test_nobody_else_may_read_any_of_it(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o600}


def test_a_second_call_makes_nothing(folder: Path) -> None:
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    assert pki.create_missing_certificates(folder, ALL) == []
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_only_what_is_missing_is_made(folder: Path) -> None:
    (folder / "kwok.crt").unlink()
    assert pki.create_missing_certificates(folder, ALL) == ["kwok"]
    read(folder, "kwok").verify_directly_issued_by(read(folder, "ca"))


@pytest.mark.parametrize("damage", ["ca.crt", "ca.key"])
def test_what_a_lost_authority_signed_is_made_anew(folder: Path, damage: str) -> None:
    (folder / damage).unlink()
    assert sorted(pki.create_missing_certificates(folder, ALL)) == ["api", "ca", "kwok"]
    read(folder, "api").verify_directly_issued_by(read(folder, "ca"))


def test_a_torn_certificate_is_made_anew(folder: Path) -> None:
    whole = (folder / "kwok.crt").read_bytes()
    (folder / "kwok.crt").write_bytes(whole[: len(whole) // 2])
    assert pki.create_missing_certificates(folder, ALL) == ["kwok"]


def test_what_expires_soon_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=pki.LEAF_DAYS - pki.RENEW_DAYS + 1)
    monkeypatch.setattr(pki, "_current_utc_time", lambda: later)
    assert sorted(pki.create_missing_certificates(folder, ALL)) == ["api", "etcd-client", "kwok"]
