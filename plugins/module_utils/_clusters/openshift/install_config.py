# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""install-config.yaml from settings, and the documented fields of it and of agent-config.yaml.

The names are those of the public Go types of openshift/installer (pkg/types and pkg/types/agent). An installer ignores
an unknown field, or rejects it an hour later; here it is rejected before anything is acquired.

A specification is a name in SCALARS, a tuple of allowed values, a list of one specification, or a dict: field ->
specification, with a trailing ``!`` if the field is required. ``free`` is not checked.

The functions change nothing; the caller adds the secrets just before writing.
"""

from __future__ import annotations

import ipaddress
import re
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


#: Cluster names that the installer accepts: DNS labels.
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,52}[a-z0-9])?")

#: Replaces secrets in copies for people.
HIDDEN = "<secret>"


def cloud_resource_tags(settings: Mapping[str, Any], expires: str | None, owner: str) -> dict[str, str]:
    """Return the tags of every cloud resource of the cluster.

    cluster_tags have precedence; Owner, TimeToLive and ExpirationDate (UTC, as cleanup jobs of clouds read it) are
    added.
    """
    own_tags = {str(name): str(value) for name, value in (settings.get("cluster_tags") or {}).items()}
    all_tags = {"Owner": owner, "TimeToLive": str(settings.get("cluster_lifetime", "")), **own_tags}
    if expires:
        all_tags.setdefault("ExpirationDate", expires)
    return {name: value for name, value in all_tags.items() if value}


def cloud_install_config(settings: Mapping[str, Any], name: str, user_tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a cluster on a cloud, without pull secret."""
    require_settings_are_set(settings, "cluster_base_domain", "cluster_ipi_region")
    single = settings.get("cluster_ipi_variant", "full") == "single_node"
    control = 1 if single else 3
    workers = 0 if single else int(settings.get("cluster_ipi_compute_count", 3))
    config = common_install_config(settings, name)
    config["controlPlane"] = _machine_pool("master", control, settings, "control_plane")
    config["compute"] = [_machine_pool("worker", workers, settings, "compute")]
    config["networking"]["machineNetwork"] = [{"cidr": "10.0.0.0/16"}]
    config["platform"] = {"aws": {"region": str(settings["cluster_ipi_region"]), "userTags": dict(user_tags)}}
    config["platform"]["aws"]["propagateUserTags"] = True
    config["publish"] = "External"
    return merge_recursively(config, settings.get("cluster_ipi_install_config") or {})


def bare_metal_install_config(settings: Mapping[str, Any], name: str, masters: int, workers: int) -> dict[str, Any]:
    """Return the configuration of a cluster on bare metal, without pull secret.

    One control plane machine and no worker is a single node, which has no virtual addresses.
    """
    require_settings_are_set(settings, "cluster_base_domain", "cluster_agent_machine_network")
    config = common_install_config(settings, name)
    config["controlPlane"] = {"name": "master", "replicas": masters, "platform": {}}
    config["compute"] = [{"name": "worker", "replicas": workers, "platform": {}}]
    cidr = parse_network_cidr(settings, "cluster_agent_machine_network", "")
    config["networking"]["machineNetwork"] = [{"cidr": cidr}]
    if masters == 1 and not workers:
        config["platform"] = {"none": {}}
    else:
        require_settings_are_set(settings, "cluster_agent_api_vip", "cluster_agent_ingress_vip")
        vips = {
            part: [
                check_address_in_network(str(settings[f"cluster_agent_{part}_vip"]), cidr, f"cluster_agent_{part}_vip")
            ]
            for part in ("api", "ingress")
        }
        config["platform"] = {"baremetal": {"apiVIPs": vips["api"], "ingressVIPs": vips["ingress"]}}
    return merge_recursively(config, settings.get("cluster_agent_install_config") or {})


def common_install_config(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the part that all configurations share."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"cluster_name: '{name}' is not a cluster name: lower-case letters, digits and inner hyphens, at most 54"
        )
    return {
        "apiVersion": "v1",
        "metadata": {"name": name},
        "baseDomain": str(settings["cluster_base_domain"]),
        "fips": bool(settings.get("cluster_fips", False)),
        "networking": {
            "networkType": "OVNKubernetes",
            "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
            "serviceNetwork": ["172.30.0.0/16"],
        },
    }


def add_secrets(config: Mapping[str, Any], pull_secret: str, ssh_key: str) -> dict[str, Any]:
    """Return the configuration with secrets, as the installer reads it. Raises InputError for an unknown field."""
    document = {**config, "pullSecret": pull_secret}
    if ssh_key:
        document["sshKey"] = ssh_key
    check_field_types(document, INSTALL_CONFIG, "install-config.yaml")
    return document


def hide_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy for people, with secrets hidden."""
    return {**config, **{name: HIDDEN for name in ("pullSecret", "sshKey") if config.get(name)}}


def require_settings_are_set(settings: Mapping[str, Any], *names: str) -> None:
    """Raise InputError for the first of these settings that is not set."""
    for name in names:
        if settings.get(name) in (None, "", []):
            raise InputError(f"{name} is required for provider {settings.get('cluster_provider', '')} and is not set")


def parse_network_cidr(settings: Mapping[str, Any], name: str, default: str) -> str:
    """Return a network in CIDR notation. Raises InputError for any other value."""
    value = str(settings.get(name) or default)
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def check_address_in_network(address: str, cidr: str, name: str) -> str:
    """Return an address in a network. Raises InputError for one outside it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error
    if ip not in ipaddress.ip_network(cidr):
        raise InputError(f"{name}: {address} is not in {cidr}, the machines' network")
    return str(ip)


def merge_recursively(config: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config`` merged with ``more``: dictionaries are merged recursively, other values replaced."""
    result = dict(config)
    for name, value in more.items():
        old = result.get(name)
        result[name] = merge_recursively(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result


def _machine_pool(name: str, count: int, settings: Mapping[str, Any], part: str) -> dict[str, Any]:
    machine: dict[str, Any] = {}
    kind = settings.get(f"cluster_ipi_{part}_type")
    if kind:
        machine["type"] = str(kind)
    if settings.get("cluster_ipi_zones"):
        machine["zones"] = [str(zone) for zone in settings["cluster_ipi_zones"]]
    size = int(settings.get("cluster_ipi_root_volume_gib") or 0)
    if size:
        machine["rootVolume"] = {"size": size, "type": "gp3"}
    return {"name": name, "replicas": count, "platform": {"aws": machine} if machine else {}}
