# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials from a program in a kubeconfig: the exec form (client.authentication.k8s.io, ExecCredential).

What the program prints is a secret, so nothing of it is ever part of an error.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signal_blocking_threads import unblock_signals

from .api_credentials import Credentials

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Timeout of the program, in seconds.
_PATIENCE = 60.0


def credentials(entry: dict[str, Any], cluster: dict[str, Any], where: Path, source: str) -> Credentials:
    """Run the program of the exec entry of a user. ``cluster``: the kubeconfig's entry, passed on if it asks for it.

    Raises InputError for an entry that can't be used, AccessError when the program gives no credentials.
    """
    import subprocess  # here, since most users have no such program

    version = str(entry.get("apiVersion") or "")
    command = str(entry.get("command") or "")
    if version not in VERSIONS or not command:
        raise InputError(f"{source}: 'exec' requires command and apiVersion, one of {', '.join(VERSIONS)}")
    if "/" in command:
        command = str(where.parent / Path(command).expanduser())  # relative to the kubeconfig, as in kubectl
    spec: dict[str, Any] = {"interactive": False}
    if entry.get("provideClusterInfo"):
        known = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {key: cluster[key] for key in known if key in cluster}
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    given = {str(one["name"]): str(one["value"]) for one in entry.get("env") or []}
    arguments = [str(one) for one in entry.get("args") or []]
    environment = {**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            preexec_fn=unblock_signals,  # called from any thread
        )
    except FileNotFoundError as error:
        hint = f". {entry['installHint']}" if entry.get("installHint") else ""
        raise AccessError(f"{source}: 'exec' returned no credentials: there is no program '{command}'{hint}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"it did not end within {_PATIENCE:g} s" if isinstance(error, subprocess.TimeoutExpired) else error
        raise AccessError(f"{source}: 'exec' returned no credentials: {command}: {why}") from error
    if done.returncode:
        raise AccessError(f"{source}: 'exec' returned no credentials: {command} ended with {done.returncode}")
    return _read(done.stdout, f"{source}: 'exec' returned no credentials: {command}")


def _read(printed: bytes, what: str) -> Credentials:
    try:
        status = json.loads(printed)["status"]
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        until = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(until.replace("Z", "+00:00")).timestamp() if until else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AccessError(f"{what} printed no ExecCredential with a status") from None
    if not token and not (certificate and key):
        raise AccessError(f"{what} returned neither a token nor a certificate with its key")
    return Credentials(
        authorization=f"Bearer {token}" if token else "",
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires=expires,
    )
