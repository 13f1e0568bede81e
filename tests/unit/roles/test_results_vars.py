"""Which definitions role results reads, and which of them answers."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import headline
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    PointFailures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import (
    STAGES,
    Recovery,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point
from scheduled_points import pod, world

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).resolve().parents[3] / "roles" / "results"
LOADER = DataLoader()
VARS = LOADER.load_from_file(str(ROLE / "vars" / "main.yml"), trusted_as_template=True)


def definition_files(role: str, *of_user: str) -> list[str]:
    known: dict[str, Any] = {"role_path": str(ROLE), "results_kpi_files": list(of_user), "__results_role": role}
    known["__results_user_kpi_files"] = VARS["__results_user_kpi_files"]
    return Templar(loader=LOADER, variables=known).template(VARS["__results_kpi_files"])


def test_definitions_of_the_user_come_last_and_may_replace_all_others(tmp_path: Path) -> None:
    mine = str(tmp_path / "mine.yml")
    *common, project, recovery, last = definition_files("scheduler", mine)
    assert [Path(path).name for path in (*common, recovery)] == ["workload.yml", "failures.yml", "recovery.yml"]
    assert last == mine
    assert Path(project).resolve() == ROLE.parent / "scheduler" / "files"


@pytest.mark.parametrize(
    ("failed", "begin"),
    [
        (False, "The job had all pods running within 2 s"),
        (True, "A lost node costs 8 GPUs x 40 s (40 s, 1 recovery)"),
    ],
)
def test_the_answer_is_the_recovery_if_there_was_a_failure(failed: bool, begin: str) -> None:
    data = world([{"sent": 0, "ended": 10}], [pod(0, 1, 2, 10)])
    if failed:
        stages = {**dict.fromkeys(STAGES, (nan, nan)), "whole": (140.0, 140.0)}
        recovery = Recovery(
            0,
            "node_lost",
            "n",
            0,
            2,
            8.0,
            (100.0, 100.0),
            stages,
            dict.fromkeys(("waiting", "blocked", "redone"), 1.0),
            False,
        )
        failures = PointFailures([recovery], {"node_lost": 1}, end=400)
        data.extras = replace(data.extras, failures=lambda: failures)
    definitions = write_kpis.load_and_check_kpi_definitions(definition_files("scheduler"))
    kpis = [kpi for kpi, _figure in write_kpis.compute_point_kpis(data, definitions)]
    (sentence,) = headline.run_answer_sentence([Point("001", Path("x"), kpis=kpis)], {"001": ""})
    assert sentence.startswith(begin)
