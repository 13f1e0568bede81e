# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators that OLM runs on a cluster: package, version, namespace. One LIST, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at

_V1ALPHA1 = "operators.coreos.com/v1alpha1"
#: OLM copies each ClusterServiceVersion to the namespaces that its operator serves; copies have this label.
_COPIED = "olm.copiedFrom"
#: OLM labels a ClusterServiceVersion with this prefix, its package and its namespace.
_PACKAGE = "operators.coreos.com/"
#: Phases of a version that another one replaces.
_OUTGOING = ("Replacing", "Deleting")


@dataclass(frozen=True)
class OperatorVersions:
    """versions: package -> version, several joined if namespaces differ. namespaces: those that operators run in."""

    versions: dict[str, str]
    namespaces: tuple[str, ...]


def operator_versions(client: Client) -> OperatorVersions | None:
    """Return the operators; None without OLM, or if they may not be listed. Raises AccessError, ApiError."""
    try:
        kind = client.kind(_V1ALPHA1, "ClusterServiceVersion")
        found, _version = client.list(kind, label_selector=f"!{_COPIED}", limit=50)
    except InputError:
        return None
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    return of(found)


def of(csvs: Iterable[Mapping[str, Any]]) -> OperatorVersions:
    """Return the operators of ClusterServiceVersions, without versions that are being replaced."""
    versions: dict[str, set[str]] = {}
    namespaces = set()
    for csv in csvs:
        if field_at(csv, "status.phase") in _OUTGOING:
            continue
        versions.setdefault(_package(csv), set()).add(str(field_at(csv, "spec.version", "")) or csv["metadata"]["name"])
        namespaces.add(csv["metadata"]["namespace"])
    joined = {package: ", ".join(sorted(found)) for package, found in sorted(versions.items())}
    return OperatorVersions(joined, tuple(sorted(namespaces)))


def _package(csv: Mapping[str, Any]) -> str:
    """Return the package: from OLM's label, else the name before its version."""
    namespace = csv["metadata"]["namespace"]
    for key in csv["metadata"].get("labels") or {}:
        if key.startswith(_PACKAGE) and key.endswith(f".{namespace}"):
            return str(key.removeprefix(_PACKAGE).removesuffix(f".{namespace}"))
    return str(csv["metadata"]["name"]).partition(".")[0]
