# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider ``rehearsal``: a local control plane with simulated nodes. The run owns it unless it existed before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .provider import ClusterTarget, Provider


class RehearsalProvider(Provider):
    """Provider ``rehearsal``."""

    name = "rehearsal"
    settings = ("rehearsal_name", "cluster_owner", "cluster_purpose", "cluster_lifetime")
    simulated = True

    def cluster_name(self, target: ClusterTarget, run_id: str) -> str:
        """Return the name of the instance."""
        return target.chosen.get("rehearsal_name") or run_id

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a simulated cluster."""
        return {"provider": self.name, "name": name, "simulated": True, "simulated_writers": ["node"], **ownership}


PROVIDER = RehearsalProvider()
