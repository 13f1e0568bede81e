"""The parts of a plan are the plan."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import workload_plan
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import (
    ClientPart,
    PlannedWorkload,
    WorkloadPlan,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OFFSETS = st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=40)


def plan_of(offsets, **arrival):
    header = {"type": "header", "schema": "plan/1", "run": "t1121-abcdef", "point": "001", "count": len(offsets),
              "seed": 1, "arrival": arrival, "in_flight": 4, "templates": [{"name": "job"}]}  # fmt: skip
    return WorkloadPlan(
        header, [PlannedWorkload(index, f"n-{index}", offset, "job") for index, offset in enumerate(offsets)]
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OFFSETS, st.integers(1, 12))
def test_the_parts_together_are_the_plan_byte_for_byte(tmp_path_factory, offsets, clients):
    folder = tmp_path_factory.mktemp("plans")
    plan = plan_of(offsets)
    workload_plan.write_whole_plan(folder / "plan.jsonl", plan)
    found = []
    for client in range(clients):
        part = ClientPart(client, clients)
        mine = workload_plan.plan_for_client(plan, part)
        assert len(mine.workloads) == part.size(len(offsets))
        workload_plan.write_whole_plan(folder / f"{client}.jsonl", mine)
        again = workload_plan.read_client_part_file(folder / f"{client}.jsonl", part)
        assert again == mine and again.header == plan.header
        found += again.workloads
    workload_plan.write_whole_plan(
        folder / "joined.jsonl", WorkloadPlan(plan.header, sorted(found, key=lambda one: one.index))
    )
    assert (folder / "joined.jsonl").read_bytes() == (folder / "plan.jsonl").read_bytes()


def test_another_part_is_refused(tmp_path):
    path = tmp_path / "plan.jsonl"
    workload_plan.write_whole_plan(path, workload_plan.plan_for_client(plan_of([0.0, 1.0, 2.0, 3.0]), ClientPart(1, 2)))
    for part in (ClientPart(0, 2), ClientPart(1, 3), ClientPart()):
        with pytest.raises(DataError, match="not the part of client"):
            workload_plan.read_client_part_file(path, part)


def test_what_several_clients_can_not_send_is_refused():
    workload_plan.check_clients_are_independent(plan_of([0.0, 1.0]), 2)
    workload_plan.check_clients_are_independent(plan_of([None, None], at_once=1), 1)
    with pytest.raises(InputError, match="an arrival with batch is a loop of one client"):
        workload_plan.check_clients_are_independent(plan_of([None, None], batch=5), 2)
    with pytest.raises(InputError, match="clients is 3, but there are only 2 workloads"):
        workload_plan.check_clients_are_independent(plan_of([0.0, 1.0]), 3)
    with pytest.raises(InputError, match="client is 2, it must be 0 to 1"):
        ClientPart(2, 2)
