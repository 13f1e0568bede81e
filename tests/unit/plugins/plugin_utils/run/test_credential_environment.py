# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The credentials of AWX: "OpenShift or Kubernetes API Bearer Token" and "Amazon Web Services"."""

from __future__ import annotations

import stat
from pathlib import Path

import boto3
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import awx

GIVEN = {"K8S_AUTH_HOST": "https://api.lab.example:6443", "K8S_AUTH_API_KEY": "s3cret-t0ken"}


def test_the_token_becomes_a_private_kubeconfig(tmp_path: Path) -> None:
    environment = {**GIVEN, "K8S_AUTH_VERIFY_SSL": "False"}
    path = awx.write_and_set_kubeconfig(environment, tmp_path)
    assert path is not None and environment["KUBECONFIG"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    access = kubeconfig.load_context_access(path)
    assert (access.server, access.authorization) == ("https://api.lab.example:6443", "Bearer s3cret-t0ken")
    assert access.insecure and "s3cret" not in repr(access)


@pytest.mark.parametrize("verify", ["True", "true", ""])
def test_certificates_are_verified_unless_the_credential_says_no(verify: str, tmp_path: Path) -> None:
    path = awx.write_and_set_kubeconfig({**GIVEN, "K8S_AUTH_VERIFY_SSL": verify}, tmp_path)
    assert path is not None and not kubeconfig.load_context_access(path).insecure


def test_the_authority_of_the_credential_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {**GIVEN, "K8S_AUTH_SSL_CA_CERT": "missing.crt"}
    path = awx.write_and_set_kubeconfig(environment, tmp_path / ".")
    assert path is not None
    with pytest.raises(kubeconfig.InputError, match=f"certificate-authority {tmp_path}/missing.crt can't be read"):
        kubeconfig.load_context_access(path)


@pytest.mark.parametrize(
    "environment",
    [{}, {"K8S_AUTH_HOST": "https://a"}, {"K8S_AUTH_API_KEY": "t"}, {**GIVEN, "KUBECONFIG": "/chosen"}],
)
def test_without_the_credential_or_beside_a_kubeconfig_nothing_changes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    before = dict(environment)
    assert awx.write_and_set_kubeconfig(environment, tmp_path) is None
    assert environment == before and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", ["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"])
def test_s3_uses_the_credential_of_amazon_web_services(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIDOFTESTS", "AWS_SECRET_ACCESS_KEY": "k", token: "t"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first client
    client = s3.create_s3_client(s3.S3Location("results"))
    found = client._request_signer._credentials
    assert (found.access_key, found.secret_key, found.token) == ("AKIDOFTESTS", "k", "t")
