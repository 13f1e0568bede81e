# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a run from a folder, a real S3 server and a real OpenSearch node: the same, as exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3 as _s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.opensearch_export import (
    OpenSearchIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import collect_history, read_past_runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import (
    HistoryRequest,
    RunHistory,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import LabelRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from history_copies import write_copies
from history_series import noisy
from past_run_files import kpi, run_id, write_past_run
from playbook import play
from run_directory import World, write_run

#: Figures of the days of November, and what is different about some days.
VALUES = {1: 10.0, 2: 10.3, 3: 9.8, 4: 10.1, 5: 9.9, 6: 10.2, 7: 50.0, 8: 60.0, 9: 70.0, 10: 80.0}
ODD: dict[int, dict[str, Any]] = {
    5: {"points": ("001", "001-2"), "repeats": True},
    6: {"points": ("001", "001-2", "001-3"), "resumed": ["001-3"]},
    7: {"verdict": "invalid"},
    8: {"ran": {"simulated": False}},
    9: {"settings": {"fine_tuning_count": 99}},
    10: {"points": ("001", "002-2")},
}
TODAY = 20
RULES = LabelRules(("ran.kubernetes",), ("fine_tuning_gpus",))


@dataclass(frozen=True)
class Places:
    """Where the same runs are. top: the run that is judged."""

    folder: Path
    top: Path
    s3: _s3.S3Location
    opensearch: OpenSearchServer

    def request(self, source: str, **more: Any) -> HistoryRequest:
        found = {"folder": str(self.folder), "s3": f"{self.s3.address}", "opensearch": "opensearch"}[source]
        return HistoryRequest((found,), s3=replace(self.s3, bucket=""), opensearch=self.opensearch, **more)

    def history(self, source: str, **more: Any) -> RunHistory:
        return collect_history.collect_past_runs(run_reader.read_run_directory(self.top), self.request(source, **more))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    base = tmp_path_factory.mktemp("history")
    folder = base / "runs"
    for number, value in VALUES.items():
        given = {"ran": {"kubernetes": "v1.35.0"} if number < 4 else {}, **ODD.get(number, {})}
        write_past_run(
            folder, number, value, settings={"fine_tuning_gpus": number, **given.pop("settings", {})}, **given
        )
    write_past_run(folder, 11, project="scheduler")
    top = write_past_run(base / "now", TODAY, 10.0)
    with servers.s3(base) as s3, servers.opensearch(base) as search:
        location = _s3.S3Location(
            "results", "nightly", s3, access_key=servers.S3_KEYS[0], secret_key=servers.S3_KEYS[1]
        )
        server = OpenSearchServer(search, "history")
        for one in sorted(folder.iterdir()):
            export_run.upload_run_to_s3(str(one), location, {}, [], export_run.LABEL, lambda _line: None)
            export_run.write_run_to_opensearch(str(one), server, {}, [], export_run.LABEL)
        yield Places(folder, top, location, server)


def seen(found: RunHistory, top: Path) -> dict[str, Any]:
    """Return everything that a verdict reads of a history."""
    series = found.series(run_reader.read_run_directory(top), kpi(1.0), "001", judged=True)
    document = found.document()
    del document["sources"]
    return {"history": document, "series": series, "notes": found.notes}


@pytest.mark.parametrize("source", ["s3", "opensearch"])
def test_an_exported_run_is_the_same_history_as_its_folder(places: Places, source: str) -> None:
    expected = seen(places.history("folder", rules=RULES), places.top)
    assert seen(places.history(source, rules=RULES), places.top) == expected
    series = expected["series"]
    assert [one.value for one in series.old] == [10.0, 10.3, 9.8]
    assert [one.value for one in series.new] == [10.1, 9.9, 10.2, 80.0, 10.0]
    assert series.baseline == "v1.35.0"
    assert expected["notes"] == ()
    assert expected["history"]["found"] == len(VALUES)
    assert {one["why"]: one["runs"] for one in expected["history"]["left_out"]} == {
        "invalid": [run_id(7)],
        "not simulated": [run_id(8)],
        "other fine_tuning_count": [run_id(9)],
    }


def test_all_labels_arrive_as_they_were(places: Places) -> None:
    def labels(source: str) -> dict[str, list[Any]]:
        request = places.request(source)
        return {
            one.run: [(point.number, point.at, point.labels, point.kpis) for point in one.points]
            for one in request.read(request.sources[0], "fine_tuning", [])
        }

    expected = labels("folder")
    assert len(expected) == len(VALUES)
    assert labels("s3") == expected
    assert labels("opensearch") == expected


def test_the_newest_runs_are_used(places: Places) -> None:
    expected = seen(places.history("folder", rules=RULES, most=2), places.top)
    assert [one.value for one in expected["series"].new] == [10.2, 80.0, 10.0]
    for source in ("s3", "opensearch"):
        found = places.history(source, rules=RULES, most=2)
        assert seen(found, places.top)["series"] == expected["series"]
        assert found.used == (run_id(6), run_id(10))


def test_answers_of_several_pages_are_read(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = seen(places.history("opensearch", rules=RULES), places.top)
    monkeypatch.setattr(read_past_runs, "PAGE", 2)
    monkeypatch.setattr(read_past_runs, "BATCH", 3)
    assert seen(places.history("opensearch", rules=RULES), places.top) == expected


def test_incomplete_damaged_and_foreign_objects_are_left_out(places: Places, tmp_path: Path) -> None:
    own = replace(places.s3, prefix="odd")
    write = _s3.create_s3_client(own).put_object
    for number in (1, 2, 3):
        top = write_past_run(tmp_path, number, float(number))
        export_run.upload_run_to_s3(
            str(top), replace(own, prefix="odd/nested"), {}, [], export_run.LABEL, lambda _line: None
        )
        name = f"odd/nested/{top.name}"
        if number == 1:
            _s3.create_s3_client(own).delete_object(Bucket=own.bucket, Key=f"{name}/manifest.json")
        if number == 2:
            write(Bucket=own.bucket, Key=f"{name}/points/001/kpis.json", Body=b"{}")
    write(Bucket=own.bucket, Key="odd/photos/x.png", Body=b"x")
    write(Bucket=own.bucket, Key="odd/other/manifest.json", Body=b"[]")
    request = places.request("s3", rules=LabelRules((), ("fine_tuning_gpus",)))
    found = collect_history.collect_past_runs(
        run_reader.read_run_directory(places.top), replace(request, sources=(own.address,))
    )
    assert found.used == (run_id(3),)
    assert len(found.notes) == 3
    for words in ("without manifest.json", "it is not the file that its manifest describes", "not a manifest of a run"):
        assert any(words in one and "s3://results/odd" in one for one in found.notes), (words, found.notes)


def test_what_was_exported_before_labels_were_is_left_out(places: Places) -> None:
    server = replace(places.opensearch, prefix="before")
    index = OpenSearchIndex(server)
    index.prepare()
    common = {"run": run_id(1), "project": "fine_tuning", "verdict": "fail", "@timestamp": "2026-11-01T10:00:00.000Z"}
    figure = {**common, "uuid": "u", "point": "001", "name": "makespan", "value": 1.0, "unit": "s"}
    index.write([("runs", run_id(1), common), ("kpis", "u:makespan", figure)])
    found = collect_history.collect_past_runs(
        run_reader.read_run_directory(places.top), replace(places.request("opensearch"), opensearch=server)
    )
    assert found.document()["left_out"] == [{"why": "written before labels were recorded", "runs": [run_id(1)]}]


def test_without_any_export_there_is_no_history(places: Places) -> None:
    request = replace(places.request("opensearch"), opensearch=replace(places.opensearch, prefix="never"))
    found = collect_history.collect_past_runs(run_reader.read_run_directory(places.top), request)
    assert (found.found, found.notes) == (0, ())
    location = replace(places.request("s3"), sources=("s3://results/never",))
    assert collect_history.collect_past_runs(run_reader.read_run_directory(places.top), location).found == 0
    nowhere = replace(places.request("s3"), sources=("s3://no-such-bucket/never",))
    assert (
        "could not be read"
        in collect_history.collect_past_runs(run_reader.read_run_directory(places.top), nowhere).notes[0]
    )


def test_figures_of_an_older_version_are_lifted_on_s3_too(places: Places, tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1, 1.0)
    path = top / "points" / "001" / "kpis.json"
    document = files.read_json(path)
    path.write_text(json.dumps({**document, "schema": "kpis/1", "labels": {"project": "fine_tuning"}}))
    location = replace(places.s3, prefix="old")
    export_run.upload_run_to_s3(str(top), location, {}, [], export_run.LABEL, lambda _line: None)
    request = replace(places.request("s3"), sources=(location.address,))
    ((run,), (local,)) = (list(request.read(where, "fine_tuning", [])) for where in (location.address, str(tmp_path)))
    assert run.points == local.points
    assert run.points[0].labels["settings.fine_tuning_count"] == 10


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A recorded run, and earlier ones: twelve of another version, 23 % faster, and four like it."""
    base = tmp_path_factory.mktemp("recorded")
    top = write_run(base / "fine_tuning-light-t1121-abcdef", [(World(count=10, canary=5.0), {})])
    roles = Path(__file__).parents[2] / "roles"
    write_timeline(str(top))
    write_kpis(str(top), [str(roles / "results/files/kpis/workload.yml"), str(roles / "fine_tuning/files/kpis.yml")])
    write_verdict(str(top), 0.5)
    faster = write_copies(top, base / "past", noisy(1, 1 / 1.3, 12), labels={"openshift": "4.19.3"})
    return top, [*faster, *write_copies(top, base / "past", noisy(2, 1.0, 4), since=30)]


def test_the_verdict_is_the_same_from_each_source(places: Places, recorded: tuple[Path, list[Path]]) -> None:
    top, past = recorded
    location, server = replace(places.s3, prefix="verdict"), replace(places.opensearch, prefix="verdict")
    for one in past:
        export_run.upload_run_to_s3(str(one), location, {}, [], export_run.LABEL, lambda _line: None)
        export_run.write_run_to_opensearch(str(one), server, {}, [], export_run.LABEL)
    found = []
    for source in (str(past[0].parent), location.address, "opensearch"):
        rules = LabelRules(("ran.openshift",))
        request = HistoryRequest((source,), rules=rules, s3=replace(location, bucket=""), opensearch=server)
        write_verdict(str(top), 0.5, rules=JudgingRules(judged=["makespan"]), past=request)
        verdict = files.read_json(top / "verdict.json")
        assert verdict["history"].pop("sources") == [source]
        found.append(verdict)
    assert (found[0]["verdict"], found[0]["history"]["used"]) == ("regression", 16)
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_the_servers_of_the_export_are_those_of_the_history(
    places: Places, recorded: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    top, past = recorded
    location, server = replace(places.s3, prefix="half"), replace(places.opensearch, prefix="half")
    for number, one in enumerate(past):
        if number % 2:
            export_run.upload_run_to_s3(str(one), location, {}, [], export_run.LABEL, lambda _line: None)
        else:
            export_run.write_run_to_opensearch(str(one), server, {}, [], export_run.LABEL)
    given = {
        "results_history": ["s3://results/half", "opensearch", "no/such/folder"],
        "results_compare_on": ["ran.openshift"],
        "results_judged": ["makespan"],
        "workload_max_lateness": 0.5,
        "export_s3_endpoint": places.s3.endpoint,
        "export_s3_access_key": servers.S3_KEYS[0],
        "export_opensearch_url": server.url,
        "export_opensearch_index_prefix": "half",
    }
    words = ("-e", f"source={top}", "-e", json.dumps(given))
    secret = {"SEATRIAL_EXPORT_S3_SECRET_KEY": servers.S3_KEYS[1]}
    done = play(*words, artifacts=tmp_path, project="replot", env=secret)
    verdict = files.read_json(tmp_path / f"{top.name}-replot" / "verdict.json")
    assert (verdict["verdict"], verdict["history"]["used"]) == ("regression", 16), done.output[-4000:]
    assert [one for one in verdict["warnings"] if "history could not be read: folder" in one]
    assert servers.S3_KEYS[1] not in done.output
