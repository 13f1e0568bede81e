"""JSON Schemas of openshift-install's input, written from its public types and not from the code that is tested."""

from __future__ import annotations

import ipaddress
from typing import Any

import jsonschema

TEXT = {"type": "string", "minLength": 1}
CIDR = {"type": "string", "format": "cidr"}
IP = {"type": "string", "format": "ipv4"}


def exactly(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object with these properties and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def pool(name: str, platform: dict[str, Any]) -> dict[str, Any]:
    """A machine pool."""
    return exactly(
        {"name": {"const": name}, "replicas": {"type": "integer", "minimum": 0}, "platform": exactly({}, platform)},
        {"hyperthreading": {"enum": ["Enabled", "Disabled"]}, "architecture": {"enum": ["amd64", "arm64"]}},
    )


AWS_POOL = exactly(
    {},
    {
        "type": {"type": "string", "pattern": r"^[a-z0-9-]+\.[a-z0-9-]+$"},
        "zones": {"type": "array", "items": TEXT},
        "rootVolume": exactly({"size": {"type": "integer"}, "type": TEXT}, {"iops": {"type": "integer"}}),
    },
)
AWS = exactly(
    {"region": {"type": "string", "pattern": "^[a-z]{2}-[a-z]+-[0-9]$"}},
    {
        "userTags": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 256},
            "maxProperties": 25,
        },
        "propagateUserTags": {"type": "boolean"},
        "subnets": {"type": "array", "items": TEXT},
    },
)
BAREMETAL = exactly(
    {
        "apiVIPs": {"type": "array", "items": IP, "minItems": 1, "maxItems": 2},
        "ingressVIPs": {"type": "array", "items": IP, "minItems": 1, "maxItems": 2},
    }
)
INSTALL_CONFIG = exactly(
    {
        "apiVersion": {"const": "v1"},
        "metadata": exactly(
            {"name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 54}}
        ),
        "baseDomain": {"type": "string", "pattern": r"^[a-z0-9.-]+\.[a-z]+$"},
        "controlPlane": pool("master", {"aws": AWS_POOL}),
        "compute": {"type": "array", "minItems": 1, "maxItems": 1, "items": pool("worker", {"aws": AWS_POOL})},
        "networking": exactly(
            {
                "networkType": {"const": "OVNKubernetes"},
                "machineNetwork": {"type": "array", "items": exactly({"cidr": CIDR}), "minItems": 1},
                "clusterNetwork": {
                    "type": "array",
                    "items": exactly({"cidr": CIDR, "hostPrefix": {"type": "integer"}}),
                },
                "serviceNetwork": {"type": "array", "items": CIDR, "maxItems": 1},
            }
        ),
        "platform": {
            **exactly({}, {"aws": AWS, "baremetal": BAREMETAL, "none": exactly({})}),
            "minProperties": 1,
            "maxProperties": 1,
        },
        "pullSecret": {"type": "string", "pattern": r'^\{.*"auths".*\}$'},
    },
    {
        "sshKey": {"type": "string", "pattern": "^(ssh-|ecdsa-)"},
        "fips": {"type": "boolean"},
        "publish": {"enum": ["External", "Internal"]},
        "capabilities": exactly({}, {"baselineCapabilitySet": TEXT}),
    },
)
ROUTE = exactly(
    {"destination": CIDR, "next-hop-address": IP, "next-hop-interface": TEXT, "table-id": {"type": "integer"}}
)
IPV4 = exactly(
    {"enabled": {"type": "boolean"}},
    {
        "dhcp": {"type": "boolean"},
        "address": {"type": "array", "items": exactly({"ip": IP, "prefix-length": {"type": "integer"}})},
    },
)
INTERFACE = exactly(
    {"name": TEXT, "type": {"enum": ["ethernet", "vlan", "bond"]}, "state": {"const": "up"}},
    {
        "mac-address": {"type": "string", "pattern": "^[0-9a-f:]{17}$"},
        "mtu": {"type": "integer"},
        "ipv4": IPV4,
        "ipv6": exactly({"enabled": {"type": "boolean"}}),
        "vlan": exactly({"base-iface": TEXT, "id": {"type": "integer", "minimum": 1, "maximum": 4094}}),
    },
)
AGENT_CONFIG = exactly(
    {
        "apiVersion": {"const": "v1beta1"},
        "kind": {"const": "AgentConfig"},
        "metadata": exactly({"name": TEXT}),
        "rendezvousIP": IP,
        "hosts": {
            "type": "array",
            "minItems": 1,
            "items": exactly(
                {
                    "hostname": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                    "role": {"enum": ["master", "worker"]},
                    "interfaces": {
                        "type": "array",
                        "minItems": 1,
                        "items": exactly(
                            {
                                "name": TEXT,
                                "macAddress": {"type": "string", "pattern": "^([0-9a-f]{2}:){5}[0-9a-f]{2}$"},
                            }
                        ),
                    },
                    "networkConfig": exactly(
                        {"interfaces": {"type": "array", "items": INTERFACE, "minItems": 1}},
                        {
                            "routes": exactly({"config": {"type": "array", "items": ROUTE}}),
                            "dns-resolver": exactly({"config": exactly({"server": {"type": "array", "items": IP}})}),
                        },
                    ),
                },
                {
                    "rootDeviceHints": exactly(
                        {},
                        {
                            "deviceName": {"type": "string", "pattern": "^/dev/"},
                            "model": TEXT,
                            "vendor": TEXT,
                            "serialNumber": TEXT,
                            "hctl": TEXT,
                            "wwn": TEXT,
                            "minSizeGigabytes": {"type": "integer"},
                            "rotational": {"type": "boolean"},
                        },
                    )
                },
            ),
        },
    },
    {"additionalNTPSources": {"type": "array", "items": TEXT}},
)

_FORMATS = jsonschema.FormatChecker(formats=["ipv4"])


@_FORMATS.checks("cidr", raises=ValueError)
def _cidr(value: object) -> bool:
    return bool(ipaddress.ip_network(str(value)))


def complaint(document: Any, schema: dict[str, Any]) -> str:
    """The first error of a document, in one line; empty without an error."""
    found = list(jsonschema.Draft202012Validator(schema, format_checker=_FORMATS).iter_errors(document))
    if not found:
        return ""
    worst = jsonschema.exceptions.best_match(found)
    return f"{'.'.join(str(part) for part in worst.absolute_path) or 'top level'}: {worst.message}"
