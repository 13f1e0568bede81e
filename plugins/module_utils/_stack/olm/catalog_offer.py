# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a catalog offers for an operator: channel, version and install mode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    expect_object_form,
    field_at_path,
)

from .operator_specs import GLOBAL_NAMESPACE, OperatorSpec


@dataclass(frozen=True)
class CatalogOffer:
    """The chosen version of a package in a catalog, with its channel, kinds and install mode."""

    package: str
    catalog: str
    catalog_namespace: str
    channel: str
    csv: str
    newest: bool
    kinds: tuple[str, ...]  # names of the CustomResourceDefinitions that it provides
    watches: str


def choose_offer(operator: OperatorSpec, manifests: Sequence[Mapping[str, Any]]) -> CatalogOffer:
    """Return the offer that matches the operator, from the PackageManifests of its name.

    Raises InputError for an ambiguous catalog, an unknown channel or version, and an unsupported install mode;
    DataError for a PackageManifest of another form.
    """
    names = [str(field_at_path(dict(each), "status.catalogSource", "")) for each in manifests]
    if len(manifests) > 1:
        raise InputError(
            f"operators: {operator.package} is in catalogs {', '.join(sorted(names))}. Set catalog to one of them"
        )
    with expect_object_form(manifests[0]):
        return _matching_offer(operator, names[0], dict(manifests[0])["status"])


def _matching_offer(operator: OperatorSpec, catalog: str, status: Mapping[str, Any]) -> CatalogOffer:
    channels = {each["name"]: each for each in status.get("channels") or []}
    wanted = operator.channel or status.get("defaultChannel") or ""
    if wanted not in channels:
        raise InputError(
            f"operators: {operator.package} has no channel '{wanted}'{suggest_similar_name(wanted, channels)};"
            f" catalog {catalog} has {', '.join(sorted(channels)) or 'none'}"
        )
    channel = channels[wanted]
    described = channel.get("currentCSVDesc") or {}
    csv = _csv_name_for_version(operator, channel, described)
    if not is_csv_of_major_version(csv, operator.major):
        raise InputError(
            f"operators: {operator.package}: channel {wanted} has {csv}, which is not version {operator.major};"
            f" catalog {catalog} has the channels {', '.join(sorted(channels))}"
        )
    owned = field_at_path(described, "customresourcedefinitions.owned", [])
    return CatalogOffer(
        package=operator.package,
        catalog=catalog,
        catalog_namespace=str(status.get("catalogSourceNamespace") or operator.catalog_namespace),
        channel=wanted,
        csv=csv,
        newest=csv == channel["currentCSV"],
        kinds=tuple(sorted(each["name"] for each in owned)),
        watches=_choose_install_mode(operator, described.get("installModes") or []),
    )


def is_csv_of_major_version(csv: str, major: str) -> bool:
    """Return whether the version in a ClusterServiceVersion's name has this major number; "" means any."""
    version = re.search(r"\.v?(\d+)\.\d+\.\d+", csv)
    return not major or version is None or version[1] == major


def _csv_name_for_version(operator: OperatorSpec, channel: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    newest = str(channel["currentCSV"])
    if not operator.version:
        return newest
    version = operator.version.removeprefix("v")
    entries = {each["name"]: str(each.get("version") or "") for each in channel.get("entries") or []}
    for name, known in entries.items():
        if operator.version == name or version == known:
            return name
    if entries:
        raise InputError(
            f"operators: {operator.package}: channel {channel['name']} has no version '{operator.version}'"
            f"{suggest_similar_name(version, entries.values())}; it has {', '.join(sorted(entries.values()))}"
        )
    # Older catalogs do not list entries. The name is then derived from that of the newest version.
    known = str(described.get("version") or "")
    if known and newest.endswith(known):
        return newest.removesuffix(known) + version
    return operator.version


def _choose_install_mode(operator: OperatorSpec, modes: Sequence[Mapping[str, Any]]) -> str:
    can = {each["type"] for each in modes if each.get("supported")}
    mode = {"own": "OwnNamespace", "all": "AllNamespaces"}
    wanted = operator.watches
    if wanted == "auto":
        wanted = "own" if operator.namespace != GLOBAL_NAMESPACE and ("OwnNamespace" in can or not can) else "all"
    if can and mode[wanted] not in can:
        raise InputError(
            f"operators: {operator.package} can't watch"
            f" {'all namespaces' if wanted == 'all' else 'its own namespace only'}:"
            f" it supports {', '.join(sorted(can))}"
        )
    return wanted


def example_from_csv(csv: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the example of a kind in a ClusterServiceVersion (alm-examples). Raises InputError naming its kinds."""
    text = field_at_path(dict(csv), "metadata.annotations", {}).get("alm-examples") or "[]"
    try:
        examples = [each for each in parse_json(text) if isinstance(each, dict)]
    except (TypeError, ValueError) as error:
        raise InputError(f"{csv['metadata']['name']}: its alm-examples are not a JSON list: {error}") from error
    for each in examples:
        if each.get("kind") == kind:
            return each
    kinds = sorted({str(each.get("kind")) for each in examples})
    raise InputError(
        f"{csv['metadata']['name']} has no example of kind {kind}{suggest_similar_name(kind, kinds)};"
        f" it has {', '.join(kinds) or 'none'}. Set operand.manifest"
    )
