# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster profiles: presets by API host, node name or kind of cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.describe_cluster import KINDS

from .apply_settings_layers import SettingsError, preset_names


def check(profiles: Any, presets: Collection[str]) -> None:
    """Raise SettingsError for profiles that are no dictionary, and for a preset that no project has."""
    if not isinstance(profiles, Mapping):
        raise SettingsError(f"cluster_profiles needs a dictionary, got {profiles!r}", profiles)
    for key, value in profiles.items():
        for name in preset_names(value):
            if name not in presets:
                raise SettingsError(
                    f"cluster_profiles, {key}: no project has a preset '{name}'{nearest(name, presets)}", key
                )


def matching(profiles: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the presets of the profiles that match a cluster, by key."""
    names = _names(cluster)
    return {key: preset_names(value) for key, value in profiles.items() if key in names}


def without_match(profiles: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[str]:
    """Return what to say of a cluster that no profile matches: the names that a profile of it could have."""
    if not profiles:
        return []
    like = next((found for key in profiles if (found := nearest(key, _names(cluster)))), "")
    kind = cluster.get("kind") or "not known"
    return [
        f"No cluster profile matches; there are {', '.join(map(str, profiles))}. The API host of this cluster is "
        f"{cluster.get('api_host')}, its kind is {kind}{like}; kinds are {', '.join(KINDS)}."
    ]


def _names(cluster: Mapping[str, Any]) -> list[str]:
    own = [cluster.get("api_host"), cluster.get("kind"), *(cluster.get("node_names") or [])]
    return [one for one in own if one]
