# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX's credential type "OpenShift or Kubernetes API Bearer Token", as a kubeconfig.

A job gets it as K8S_AUTH_HOST, K8S_AUTH_API_KEY, and K8S_AUTH_VERIFY_SSL or K8S_AUTH_SSL_CA_CERT. The credential type
"Amazon Web Services" needs nothing here: boto3 and the installers read its variables themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig

HOST, TOKEN = "K8S_AUTH_HOST", "K8S_AUTH_API_KEY"
VERIFY, AUTHORITY = "K8S_AUTH_VERIFY_SSL", "K8S_AUTH_SSL_CA_CERT"
KUBECONFIG = "KUBECONFIG"
_FALSE = ("false", "no", "0", "off", "n", "f")


def export(environment: MutableMapping[str, str], folder: Path) -> Path | None:
    """Write a kubeconfig of the credential into ``folder`` and set KUBECONFIG; return its path.

    Nothing is done without the credential, or if KUBECONFIG is set. folder: a private one that is removed when
    ansible-playbook exits.
    """
    host, token = environment.get(HOST, ""), environment.get(TOKEN, "")
    if not host or not token or environment.get(KUBECONFIG):
        return None
    cluster: dict[str, object] = {"server": host if "://" in host else f"https://{host}"}
    if authority := environment.get(AUTHORITY):
        cluster["certificate-authority"] = os.path.abspath(authority)
    if environment.get(VERIFY, "").strip().lower() in _FALSE:
        cluster["insecure-skip-tls-verify"] = True
        cluster.pop("certificate-authority", None)
    path = folder / "k8s_auth_kubeconfig"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        json.dump(kubeconfig.document("k8s-auth", cluster, {"token": token}), stream)
    environment[KUBECONFIG] = str(path)
    return path
