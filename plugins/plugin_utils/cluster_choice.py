# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clusters settings and inventory ask for: checked before a run begins, and again when they are taken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_targets
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.times import duration
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_catalogue import Catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.type_coercion import coerce

TASKS = Path(__file__).parents[2] / "roles" / "cluster" / "tasks"


def counts(known: Catalogue, name: str) -> bool:
    """Return whether a variable is a setting of a cluster that may be written down."""
    return cluster_targets.of_clusters(name) and name in known.settings and not known.settings[name].secret


def typed(known: Catalogue, name: str, value: Any, where: str = "cluster") -> Any:
    """Return a setting in its declared type: what -e gives is text."""
    plain = _files.plain(value)
    if name == "cluster_provider" or plain in (None, ""):
        return plain  # an unknown one is refused together with those that there are
    return coerce(known.settings[name], plain, where)


def wanted(
    known: Catalogue, values: Mapping[str, Any], hostvars: Any, everyone: Mapping[str, Any]
) -> list[cluster_targets.ClusterTarget]:
    """Return the clusters to acquire. Raises InputError for a provider that there is not.

    values: effective settings. hostvars: Ansible's, in which the inventory may have the hosts sutest and driver.
    everyone: raw values that the inventory gives to every host.
    """
    settings = {name: typed(known, name, value) for name, value in values.items() if counts(known, name)}
    settings.setdefault("cluster_provider", "rehearsal")
    own: dict[str, dict[str, Any]] = {}
    for host in (one for one in cluster_targets.HOSTS if one in hostvars):
        chosen = cluster_targets.own_choice(hostvars.raw_get(host), everyone)
        own[host] = {name: typed(known, name, hostvars[host][name], host) for name in chosen if counts(known, name)}
    found = cluster_targets.targets(settings, own)
    for one in found:
        cluster_targets.check_provider(
            one.provider, cluster_targets.providers_in(TASKS), f"cluster for {' and '.join(one.hosts)}"
        )
    return found


def lifetime(target: cluster_targets.ClusterTarget) -> float:
    """Return how long a cluster that is made now may stay, in seconds; 0 is without an end. Raises InputError."""
    return duration(target.chosen.get("cluster_lifetime", "12h"), "cluster_lifetime")
