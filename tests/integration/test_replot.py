"""replot.yml and compare.yml as their user runs them: archives from a web server, cut runs, wrong sources."""

from __future__ import annotations

import functools
import http.server
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import ci_job
import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from playbook import play
from run_directory import World, write_run

ROLES = Path(__file__).parents[2] / "roles"
KPIS = [str(ROLES / "results/files/kpis/workload.yml"), str(ROLES / "fine_tuning/files")]
NAME = "fine_tuning-light-t1121-abcdef"


def measured(top: Path) -> Path:
    """Write everything but the plots, as the run itself would have."""
    write_timeline(str(top))
    write_kpis(str(top), KPIS)
    write_verdict(str(top), 0.1)
    return top


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A run that was killed in the middle of its test."""
    top = write_run(tmp_path / "elsewhere" / NAME, [(World(count=20, rate=4, canary=5.0), {})])
    for name in ("ledger.jsonl", "observations.jsonl"):
        path = top / "points" / "000" / name
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.6)])
    (top / "points" / "000" / "training.jsonl").unlink()
    return measured(top)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str, Path]]:
    """(folder, https address, who vouches for it) of a web server."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with servers.tls(tmp_path, f"http://127.0.0.1:{server.server_port}") as (address, authority):
        yield folder, address, authority
    server.shutdown()


def test_a_cut_run_in_an_archive_on_a_web_server_gives_the_same_figures(cut: Path, web: tuple, tmp_path: Path) -> None:
    folder, address, authority = web
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as tar:
        tar.add(cut, arcname=NAME)
    words = ["-e", f"source={address}/{NAME}.tar.gz", "-e", f"export_ca_file={authority}"]
    done = play(*words, artifacts=tmp_path / "artifacts", project="replot")
    assert done.code == 0, done.output[-4000:]
    top = tmp_path / "artifacts" / f"{NAME}-replot"
    for name in ("kpis.json", "attribution.json", "timeline.csv", "timeline.jsonl"):
        assert (top / "points/000" / name).read_bytes() == (cut / "points/000" / name).read_bytes(), name
    assert files.read_json(top / "verdict.json") == files.read_json(cut / "verdict.json")
    assert "report/index.html" in done.output


def test_head_tail_and_skip_errors_hold_everywhere_and_are_said(tmp_path: Path) -> None:
    mixed = write_run(tmp_path / "elsewhere" / NAME, [(World(count=20, rate=4, outcomes={5: "failed"}), {})])
    words = ["-e", f"source=elsewhere/{NAME}", "-e", "head=10", "-e", "tail=6", "-e", "skip_errors=true"]
    here = {"ARTIFACT_DIR": ""}  # paths are relative to where the user stands, also the default
    done = play(*words, artifacts=tmp_path, project="replot", cwd=tmp_path, env=here)
    assert done.code == 0, done.output[-4000:]
    top = tmp_path / "artifacts" / f"{NAME}-replot"
    assert f"{top}/report/index.html" in done.output
    rows = [one for one in files.read_json_lines(top / "points/000/timeline.jsonl") if one["type"] == "workload"]
    assert [one["index"] for one in rows] == [4, 6, 7, 8, 9]
    said = "first 10, last 6 of these of 20 workloads, 1 with errors left out: 5 shown"
    page = (top / "report/index.html").read_text()
    assert page.count(said) >= 2  # beside the verdict, and with every plot
    kpis = files.read_json(top / "points/000/kpis.json")
    assert kpis["labels"]["selection"] == said
    assert all(one["of"] <= 5 for one in kpis["kpis"])
    assert files.read_json(top / "verdict.json")["selection"] == said
    assert not (mixed / "report").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "-e source= is required"),
        (["-e", "source=/nowhere"], "source /nowhere: no such file or directory"),
        (["-e", "source=https://127.0.0.1:9/x.tar"], "https://127.0.0.1:9/x.tar cannot be fetched: Connection refused"),
        (["-e", "source=/nowhere", "-e", "head=x"], "-e head= and -e tail= take a number of workloads"),
        (["-e", "source=/nowhere", "-e", "tail=-3"], "-e head= and -e tail= take a number of workloads"),
        (["-e", "source=/nowhere", "-e", "skip_errors=maybe"], "-e skip_errors= takes true or false"),
        (["-e", "source=/nowhere", "-e", "results_limits=3"], "results_limits and serving_slo are dictionaries"),
    ],
)
def test_a_source_that_is_none_is_told_at_once(words: list[str], message: str, tmp_path: Path) -> None:
    done = play(*words, artifacts=tmp_path, project="replot")
    assert done.code != 0
    assert message in done.flat()
    assert list(tmp_path.iterdir()) == []


def test_limits_answer_and_checkpoints_of_a_replot_replace_those_of_the_run(tmp_path: Path) -> None:
    source = measured(write_run(tmp_path / NAME, [(World(count=20, rate=4), {})]))
    given = {"results_limits": {"makespan": {"max": 0.5}}, "results_answer": "makespan", "workload_checkpoint_every": 5}
    done = play("-e", f"source={source}", "-e", json.dumps(given), artifacts=tmp_path / "artifacts", project="replot")
    assert done.code == 0, done.output[-4000:]
    (top,) = (tmp_path / "artifacts").iterdir()
    verdict = files.read_json(top / "verdict.json")
    assert verdict["verdict"] == "regression" and verdict["answer"][0].startswith("Makespan")
    (makespan,) = [kpi for kpi in verdict["kpis"] if kpi["name"] == "makespan"]
    assert (makespan["limit"]["result"], makespan["limit"]["max"]) == ("outside", 0.5)
    assert files.read_yaml(top / "points" / "000" / "settings.yml")["workload_checkpoint_every"] == 5.0
    assert files.read_yaml(top / "provenance.yml")["settings"]["results_answer"][-1]["source"] == "replot"
    assert "makespan" not in str(files.read_yaml(source / "provenance.yml")), "the source stays as it is"


def test_a_run_of_a_newer_version_is_refused(cut: Path, tmp_path: Path) -> None:
    record = files.read_yaml(cut / "run.yml")
    files.write_yaml(cut / "run.yml", {**record, "schema": "run/7"})
    done = play("-e", f"source={cut}", artifacts=tmp_path / "artifacts", project="replot")
    assert done.code != 0
    assert "written by a newer version of perfscale.seatrial: run/7; this version reads up to run/1" in done.flat()
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    for name, world in (("a", World(count=30, rate=10)), ("b", World(count=30, rate=10, run_for=12.0, seed=2))):
        top = write_run(tmp_path / f"run-{name}", [(world, {})], id=f"t1121-aaaaa{name}")
        provenance = {"workload_count": [{"source": "default", "value": 1}, {"source": "-e", "value": ord(name)}]}
        files.write_yaml(top / "provenance.yml", {"schema": "provenance/1", "settings": provenance})
        if name == "a":
            measured(top)  # the other one is still to be made
    words = ["-e", json.dumps({"runs": " run-a, ./run-b,"})]  # as it is typed into a question of AWX
    done = play(*words, artifacts=Path("some", "where"), project="compare", cwd=tmp_path)
    assert done.code == 0, done.output[-4000:]
    folder = tmp_path / "some" / "where" / "compare-t1121-aaaaaa-t1121-aaaaab"
    assert f"{folder}/index.html" in done.flat()
    document = json.loads((folder / "comparison.json").read_text())
    files.validate_schema_if_enabled("comparison/2", document)
    assert document["settings"] == [{"name": "workload_count", "values": [97, 98]}]
    (pair,) = document["pairs"]
    makespan = next(one for one in pair["kpis"] if one["name"] == "makespan")
    assert makespan["simulated"] and makespan["difference"] > 2
    slower = next(one for one in pair["kpis"] if one["name"] == "since_sending_succeeded_p50")
    assert slower["reading"] == "worse" and slower["confidence"]["low"] > 1
    assert sum(one["difference"] for one in pair["writers"]) == pytest.approx(pair["total"][1] - pair["total"][0])
    assert max(pair["writers"], key=lambda one: one["difference"])["name"] == "node"
    job = ci_job.run(tmp_path / "ci", "compare", "-e", f"runs={tmp_path}/run-a,{tmp_path}/run-b")
    assert (job.status, job.last[:27]) == (2, "inconclusive (exit 2): Two "), job.output[-4000:]
    assert list(job.cases("skipped"))[0] == "comparison" and not job.cases("error")
    assert len(list((folder / "plots").glob("*.png"))) == len(list((folder / "plots").glob("*.csv"))) == 2
    assert "Makespan" in done.flat()
