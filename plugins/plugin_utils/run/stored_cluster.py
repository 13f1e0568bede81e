# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that another machine has created, taken over from cluster_metadata_store as far as the session names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_metadata_store

from . import inventory_file


def take_over_named_cluster(
    arguments: Mapping[str, Any], loader: DataLoader, hostvars: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Record the cluster ``named`` of ``store``; return all records and whether they changed.

    arguments: of module run_cluster_records. hostvars: of the inventory of the play.
    """
    entry = cluster_metadata_store.read_cluster_entry(arguments["store"], arguments["named"])
    bmc_address_of = inventory_file.create_bmc_address_lookup(loader, arguments["inventory"], hostvars)
    entry = cluster_metadata_store.keep_what_session_names(entry, bmc_address_of, arguments)
    return clusters_of_run.record_cluster_taken_over(arguments["run_dir"], entry)
