# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documented fields of install-config.yaml and agent-config.yaml, as far as this collection may write them.

The names are those of the public Go types of openshift/installer (pkg/types and pkg/types/agent). An installer ignores
an unknown field, or rejects it an hour later; here it is rejected before anything is acquired.

A specification is a name in SCALARS, a tuple of allowed values, a list of one specification, or a dict: field ->
specification, with a trailing ``!`` if the field is required. ``free`` is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

SCALARS: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int,), "boolean": (bool,), "free": (object,)}

_VOLUME = {"iops": "number", "size": "number", "type": "text", "throughput": "number", "kmsKeyARN": "text"}
_AWS_POOL = {
    "zones": ["text"],
    "type": "text",
    "amiID": "text",
    "rootVolume": _VOLUME,
    "metadataService": {"authentication": ("Required", "Optional")},
    "iamRole": "text",
    "iamProfile": "text",
    "additionalSecurityGroupIDs": ["text"],
}
_POOL = {
    "name!": ("master", "worker", "edge"),
    "replicas": "number",
    "architecture": ("amd64", "arm64", "ppc64le", "s390x"),
    "hyperthreading": ("Enabled", "Disabled"),
    "platform": {"aws": _AWS_POOL, "baremetal": {}},
}
_AWS = {
    "region!": "text",
    "amiID": "text",
    "subnets": ["text"],
    "hostedZone": "text",
    "hostedZoneRole": "text",
    "lbType": ("Classic", "NLB"),
    "userTags": "free",
    "propagateUserTags": "boolean",
    "serviceEndpoints": [{"name!": "text", "url!": "text"}],
    "defaultMachinePlatform": _AWS_POOL,
    "preserveBootstrapIgnition": "boolean",
}
_BAREMETAL = {
    "apiVIP": "text",
    "apiVIPs": ["text"],
    "ingressVIP": "text",
    "ingressVIPs": ["text"],
    "provisioningNetwork": ("Disabled", "Managed", "Unmanaged"),
    "provisioningNetworkInterface": "text",
    "clusterOSImage": "text",
    "bootstrapOSImage": "text",
    "additionalNTPServers": ["text"],
    "hosts": "free",
}

INSTALL_CONFIG: dict[str, Any] = {
    "apiVersion!": ("v1",),
    "metadata!": {"name!": "text", "creationTimestamp": "free"},
    "baseDomain!": "text",
    "additionalTrustBundle": "text",
    "additionalTrustBundlePolicy": ("Proxyonly", "Always"),
    "sshKey": "text",
    "networking": {
        "networkType": ("OVNKubernetes", "OpenShiftSDN"),
        "machineNetwork": [{"cidr!": "text"}],
        "clusterNetwork": [{"cidr!": "text", "hostPrefix": "number"}],
        "serviceNetwork": ["text"],
    },
    "controlPlane": _POOL,
    "compute": [_POOL],
    "platform!": {"aws": _AWS, "baremetal": _BAREMETAL, "none": {}},
    "pullSecret!": "text",
    "proxy": {"httpProxy": "text", "httpsProxy": "text", "noProxy": "text"},
    "imageContentSources": [{"source!": "text", "mirrors": ["text"]}],
    "imageDigestSources": [
        {"source!": "text", "mirrors": ["text"], "sourcePolicy": ("NeverContactSource", "AllowContactingSource")}
    ],
    "publish": ("External", "Internal", "Mixed"),
    "fips": "boolean",
    "cpuPartitioningMode": ("None", "AllNodes"),
    "credentialsMode": ("Mint", "Passthrough", "Manual"),
    "bootstrapInPlace": {"installationDisk!": "text"},
    "capabilities": {"baselineCapabilitySet": "text", "additionalEnabledCapabilities": ["text"]},
    "featureSet": ("TechPreviewNoUpgrade", "CustomNoUpgrade", "DevPreviewNoUpgrade"),
    "featureGates": ["text"],
}

ROOT_DEVICE: dict[str, Any] = {
    "deviceName": "text",
    "hctl": "text",
    "model": "text",
    "vendor": "text",
    "serialNumber": "text",
    "minSizeGigabytes": "number",
    "wwn": "text",
    "wwnWithExtension": "text",
    "wwnVendorExtension": "text",
    "rotational": "boolean",
}

AGENT_CONFIG: dict[str, Any] = {
    "apiVersion!": ("v1alpha1", "v1beta1"),
    "kind!": ("AgentConfig",),
    "metadata!": {"name!": "text"},
    "rendezvousIP": "text",
    "additionalNTPSources": ["text"],
    "bootArtifactsBaseURL": "text",
    "minimalISO": "boolean",
    "hosts": [
        {
            "hostname!": "text",
            "role": ("master", "worker"),
            "rootDeviceHints": ROOT_DEVICE,
            "interfaces!": [{"name!": "text", "macAddress!": "text"}],
            # NMState's schema is large and open: only its sections are listed here.
            "networkConfig": {"interfaces": "free", "dns-resolver": "free", "routes": "free"},
        }
    ],
}


def check_field_types(document: Any, fields: Any, where: str) -> None:
    """Raise InputError for the first field that is unknown, missing or of another type; the message has its path."""
    if isinstance(fields, dict):
        _check_object_fields(document, fields, where)
    elif isinstance(fields, list):
        if not isinstance(document, list):
            raise InputError(f"{where}: a list is required, got {document!r}")
        for number, element in enumerate(document):
            check_field_types(element, fields[0], f"{where}[{number}]")
    elif isinstance(fields, tuple):
        if document not in fields:
            raise InputError(
                f"{where}: '{document}' is not allowed{suggest_similar_name(str(document), fields)};"
                f" allowed: {', '.join(fields)}"
            )
    elif not isinstance(document, SCALARS[fields]) or (isinstance(document, bool) and fields == "number"):
        raise InputError(f"{where}: a {fields} is required, got {document!r}")


def _check_object_fields(document: Any, fields: dict[str, Any], where: str) -> None:
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: a dictionary is required, got {document!r}")
    known = {name.rstrip("!"): field for name, field in fields.items()}
    for name, value in document.items():
        place = f"{where}: {name}" if where.endswith(".yaml") else f"{where}.{name}"
        if name not in known:
            raise InputError(
                f"{place} is not a documented field{suggest_similar_name(str(name), known)}; known: {', '.join(known)}"
            )
        check_field_types(value, known[name], place)
    missing = [name.rstrip("!") for name in fields if name.endswith("!") and name.rstrip("!") not in document]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing")
