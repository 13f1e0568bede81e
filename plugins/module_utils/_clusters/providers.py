# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of clusters, by name."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import provider_existing, provider_hive, provider_managed, provider_openshift, provider_rehearsal
from .provider import Provider

PROVIDERS: dict[str, Provider] = {
    one.name: one
    for one in (
        provider_rehearsal.PROVIDER,
        provider_existing.PROVIDER,
        *provider_openshift.PROVIDERS.values(),
        provider_managed.PROVIDER,
        provider_hive.PROVIDER,
    )
}
DEFAULT = provider_rehearsal.PROVIDER.name


def provider_of(name: str, where: str = "cluster.yml") -> Provider:
    """Return the provider of this name. Raises InputError with the nearest name."""
    if name not in PROVIDERS:
        known = sorted(PROVIDERS)
        raise InputError(
            f"{where}: cluster_provider '{name}' is unknown{nearest(name, known)}; known: {', '.join(known)}"
        )
    return PROVIDERS[name]
