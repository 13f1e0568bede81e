"""A run that is used by several tests here, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from run_directory import RUN, World, write_point

#: One workload of every fate, and a gap in which the watch was blind.
FATES = {3: "failed", 4: "unfinished", 5: "refused", 6: "lost", 7: "unsent", 8: "deleted"}


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """(world, folder, table) of a point in which everything happens."""
    world = World(gap=(2, 3), outcomes=dict(FATES))
    folder = write_point(tmp_path_factory.mktemp("mixed") / "000", world)
    return world, folder, timeline_builder.build_timeline_of_workloads(folder, RUN, "000")


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    """(world, folder, table) of a point in which all goes well."""
    world = World(count=8, rate=4)
    folder = write_point(tmp_path_factory.mktemp("good") / "000", world)
    return world, folder, timeline_builder.build_timeline_of_workloads(folder, RUN, "000")


@pytest.fixture(scope="session")
def definitions():
    """The shipped KPI definitions of any workload."""
    return str(Path(__file__).parents[4] / "roles" / "results" / "files" / "kpis" / "workload.yml")
