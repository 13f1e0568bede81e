# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles a run of a project reads."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.roles_read_by_project import (
    roles_read_and_others,
)

PROJECTS = {"fine_tuning", "scheduler", "users", "workload_scale", "sample"}
#: Of the phases of every project, and what these install.
COMMON = {"run", "cluster", "rehearsal", "stack", "gpu_operator", "rhoai", "olm_operator", "results", "metrics"}


@pytest.mark.parametrize("project", sorted(PROJECTS))
def test_a_project_reads_its_own_role_and_the_common_ones_but_no_other_project(project: str) -> None:
    role = project_role.find_role(project)
    catalogue = settings_catalogue.load_catalogue(project_role.ROOT, role)
    found = roles_read_and_others(role, catalogue)
    assert {project, "workload"} | COMMON <= set(found["read"])
    assert PROJECTS - {project} <= set(found["other"])
    assert set(found["read"]) | set(found["other"]) == set(catalogue.roles)


def test_a_role_that_the_project_includes_is_read() -> None:
    role = project_role.find_role("fine_tuning")
    catalogue = settings_catalogue.load_catalogue(project_role.ROOT, role)
    assert {"storage", "image_preload"} <= set(roles_read_and_others(role, catalogue)["read"])
