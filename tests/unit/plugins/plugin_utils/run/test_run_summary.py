# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user reads at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_session

CLUSTER = {
    "provider": "rehearsal",
    "name": "t1-abcdef",
    "state": "acquired",
    "owned": True,
    "simulated": True,
    "simulated_writers": ["node"],
    "api_host": "127.0.0.1:6443",
    "version": "v1.36.3",
    "nodes": 4,
    "gpus": 32,
}


def record(**more: Any) -> dict[str, Any]:
    return {
        "id": "t1-abcdef",
        "project": "fine_tuning",
        "presets": ["light"],
        "status": "passed",
        "give_back": "GIVE BACK",
        "started": "2026-11-21T05:00:00.000Z",
        "ended": "2026-11-21T05:01:30.000Z",
        "phases": {},
        "held": [],
        "clusters": {"sutest": CLUSTER, "driver": CLUSTER},
        "split": close_session.seconds_by_category(90.0, {"cluster": 14.2, "load": 5.0}),
    } | more


def done(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"status": "passed"} for name in names}


def test_the_split_sums_to_the_total() -> None:
    parts = close_session.seconds_by_category(90.0, {"cluster": 14.2, "load": 5.0, "wait": 40.0})
    assert parts == {"cluster": 14.2, "load": 5.0, "wait": 40.0, "ansible": 30.8, "total": 90.0}
    assert (
        close_session.time_split_line(parts)
        == "90.0 s = cluster 14.2 + load 5.0 + waiting for workloads 40.0 + Ansible itself 30.8"
    )


@pytest.mark.parametrize(
    ("real", "shown"), [([], "simulated nodes, 4 nodes"), (["real-0"], "1 real node, 4 nodes in all")]
)
def test_the_real_nodes_of_a_cluster_with_simulated_ones_are_counted(
    tmp_path: Path, real: list[str], shown: str
) -> None:
    cluster = {**CLUSTER, "real_nodes": real}
    assert shown in "\n".join(close_session.summary_lines(record(clusters={"sutest": cluster}), tmp_path, {}))


def test_what_is_held_is_printed_with_the_command_that_gives_it_back(tmp_path: Path) -> None:
    held = [{"what": "rehearsal cluster x", "since": "2026-11-21T05:00:00.000Z", "until": None}]
    text = "\n".join(close_session.summary_lines(record(held=held), tmp_path, {}))
    assert "held      rehearsal cluster x, until you give it back" in text
    assert text.endswith("give back GIVE BACK")
    assert "GIVE BACK" not in "\n".join(close_session.summary_lines(record(), tmp_path, {}))


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        (
            {},
            "until you give it back; from 2026-11-21T17:00:00Z on cluster.yml --tags reap does so too",
        ),
        ({"ends": "Hive takes it back"}, "until 2026-11-21T17:00:00Z, when Hive takes it back"),
    ],
)
def test_the_end_of_what_is_held_says_what_makes_it_true(more: dict[str, str], shown: str, tmp_path: Path) -> None:
    one = {"what": "cluster x", "since": "2026-11-21T05:00:00.000Z", "until": "2026-11-21T17:00:00.000Z", **more}
    assert f"  held      cluster x, {shown}" in close_session.summary_lines(record(held=[one]), tmp_path, {})


def test_how_to_reach_what_is_held_stands_in_the_summary(tmp_path: Path) -> None:
    kept = {**CLUSTER, "kubeconfig": "/a folder/kubeconfig", "console": "https://console.example.com"}
    clusters = {"sutest": kept, "driver": kept | {"context": "lab"}}
    held = [{"what": "rehearsal cluster t1-abcdef", "since": "2026-11-21T05:00:00.000Z", "until": None}]
    found = [
        line
        for line in close_session.summary_lines(record(clusters=clusters, held=held), tmp_path, {})
        if "reach it" in line
    ]
    assert found == [
        "  reach it  export KUBECONFIG='/a folder/kubeconfig'",
        "  reach it  kubectl '--kubeconfig=/a folder/kubeconfig' --context=lab get pods -A",
        "  reach it  https://console.example.com",
    ]


def test_nothing_is_said_of_the_nodes_of_a_cluster_that_never_answered(tmp_path: Path) -> None:
    silent = {"provider": "existing", "api_host": "127.0.0.1:9", "simulated": False}
    for cluster, shown in (
        (silent, "existing cluster at 127.0.0.1:9"),
        (silent | {"version": "v1.36.3"}, "existing cluster at 127.0.0.1:9, Kubernetes 1.36.3, real nodes"),
    ):
        text = close_session.summary_lines(record(clusters={"sutest": cluster, "driver": cluster}), tmp_path, {})
        assert f"  where     sutest: {shown}" in text


def test_the_answer_and_what_went_wrong_come_first(tmp_path: Path) -> None:
    verdict = {
        "verdict": "regression",
        "checks": [],
        "answer": ["Up to 5 jobs/s."],
        "warnings": ["The machine was busy."],
    }
    (tmp_path / "ansible.log").touch()
    text = close_session.summary_lines(
        record(status="failed"), tmp_path, verdict, ["Take it: no room\nin the lab", "other"]
    )
    assert text[2:7] == [
        "  answer    Up to 5 jobs/s.",
        "  warning   The machine was busy.",
        "  failed    Take it: no room",
        "            in the lab",
        "  failed    other",
    ]
    assert f"  log       {tmp_path}/ansible.log" in text


def test_phases_that_did_nothing_have_not_passed(tmp_path: Path) -> None:
    ran = {**done("test", "release"), "cleanup": {"status": "skipped"}}
    assert "  phases    test, release passed; cleanup skipped" in close_session.summary_lines(
        record(phases=ran), tmp_path, {}
    )


def test_the_verdict_and_the_headline_carry_denominator_and_simulated(tmp_path: Path) -> None:
    figure = {"name": "makespan", "value": 12.3456, "unit": "s", "n": 9, "of": 12, "simulated": True}
    verdict = {"verdict": "pass", "headline": [figure], "checks": [], "baseline": None}
    text = "\n".join(close_session.summary_lines(record(), tmp_path, verdict))
    assert "makespan 12.3 s (9 of 12, simulated)" in text
    assert "PASS (no history to compare with)" in text


def test_the_page_on_which_points_are_compared_is_named(tmp_path: Path) -> None:
    page = tmp_path / "report" / "compare" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    assert f"  compared  {page}" in close_session.summary_lines(record(), tmp_path, {})


def test_the_first_failure_comes_first_in_the_last_message(tmp_path: Path) -> None:
    text = close_session.final_message_of_failed_run(["first", "second", "third"], tmp_path)
    assert text.startswith("first\n2 more in ")


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (
            {"name": "done", "value": 10000.0, "unit": "workloads", "n": 10000, "of": 10000},
            "done 10,000 workloads (10000",
        ),
        (
            {"name": "p95", "value": 144.309, "unit": "s", "n": 3, "of": 4, "simulated": True},
            "p95 2 min 24 s (3 of 4, s",
        ),
        ({"name": "rate", "value": 17.34, "unit": "1/s", "point": "001"}, "point 001 rate 17.3/s"),
        ({"name": "knee", "value": None, "unit": "1/s"}, "knee not known"),
        ({"name": "knee", "value": None, "unit": "1/s", "text": "–"}, "knee not known"),
        ({"name": "wait", "value": None, "unit": "s", "text": "≥ 5 min 1 s"}, "wait ≥ 5 min 1 s"),
        ({"name": "passed", "value": "12 of 12"}, "passed 12 of 12"),
    ],
)
def test_a_figure_is_written_as_people_read_it(figure: dict[str, Any], line: str) -> None:
    assert line in close_session.headline_figure_line(figure)


def test_in_awx_the_template_that_gives_back_is_named(tmp_path: Path) -> None:
    assert close_session.awx_give_back_hint({}, tmp_path) == ""
    for template in ("seatrial fine_tuning", "seatrial fine_tuning give back"):
        given = {"awx_job_id": 7, "awx_job_template_name": template}
        text = close_session.awx_give_back_hint(given, tmp_path)
        assert text == f"launch the template 'seatrial fine_tuning give back' with run_dir {tmp_path}"
