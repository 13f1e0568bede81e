# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Providers ``openshift_ipi`` and ``openshift_agent``: clusters that the OpenShift installer creates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError

from .provider import OPENSHIFT, CreatingProvider


class OpenshiftProvider(CreatingProvider):
    """A provider whose clusters the OpenShift installer creates."""

    #: Whether the machines are given, and not created by the installer.
    bare_metal = False


class IpiProvider(OpenshiftProvider):
    """Provider ``openshift_ipi``: the installer creates the machines in a cloud."""

    name = "openshift_ipi"
    settings = (*OPENSHIFT, "cluster_ipi_*")


class AgentProvider(OpenshiftProvider):
    """Provider ``openshift_agent``: bare-metal machines boot an image of the agent-based installer."""

    name = "openshift_agent"
    settings = (*OPENSHIFT, "cluster_agent_*")
    bare_metal = True

    def refuse_unfinished(self, record: Mapping[str, Any], run_dir: str) -> None:
        """Also refuse an installation whose machines were not booted: the image may be incomplete."""
        super().refuse_unfinished(record, run_dir)
        data = record.get("provider_data") or {}
        if record.get("state") == "acquiring" and data.get("machines") and not data.get("booted"):
            raise OwnershipError(
                f"this run's installation of {record.get('name', '')} was interrupted before its machines were "
                f"booted, and can't be continued: release it (--tags release -e run_dir={run_dir}), then start again"
            )


PROVIDERS: dict[str, OpenshiftProvider] = {one.name: one for one in (IpiProvider(), AgentProvider())}
