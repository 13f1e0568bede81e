"""Files for CI: series that continue from run to run, a copy of junit.xml."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, prometheus_textfile
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from run_directory import World, write_run


@pytest.fixture(scope="module")
def top(tmp_path_factory, definitions):
    folder = write_run(tmp_path_factory.mktemp("ci") / "run", [(World(count=10, outcomes={3: "failed"}), {})])
    write_timeline(str(folder))
    write_kpis(str(folder), [definitions])
    write_verdict(str(folder), 0.5)
    return folder


SAMPLE = re.compile(r'[a-z_]+\{([a-z]+="(?:[^"\\]|\\.)*",?)+\} (-?[\d.e+-]+|nan|inf)')


def samples(run, verdict):
    lines = [
        line for line in prometheus_textfile.prometheus_textfile(run, verdict).splitlines() if not line.startswith("#")
    ]
    assert all(SAMPLE.fullmatch(line) for line in lines)
    return dict(line.rsplit(" ", 1) for line in lines)


def test_the_textfile_has_a_sample_a_kpi_with_its_labels(top):
    run = run_reader.read_run_directory(top)
    found = samples(run, export_run.read_run_verdict(run))
    kpis = files.read_json(top / "points/000/kpis.json")["kpis"]
    assert sum(one.startswith("seatrial_kpi{") for one in found) == sum(one["value"] is not None for one in kpis)
    assert sum(one.startswith("seatrial_kpi_rows_of{") for one in found) == len(kpis)
    common = 'project="fine_tuning",preset="light"'
    assert found[f'seatrial_verdict{{{common},verdict="regression"}}'] == "1.0"
    assert found[f'seatrial_verdict{{{common},verdict="pass"}}'] == "0.0"
    assert found[f"seatrial_verdict_code{{{common}}}"] == "4.0"
    failed = f'{{{common},point="",kpi="workloads_failed",unit="workloads",simulated="true"}}'
    assert found[f"seatrial_kpi_reading_code{failed}"] == "1.0", "outside its limit"
    assert (found[f"seatrial_kpi_low{failed}"], found[f"seatrial_kpi_high{failed}"]) == ("1.0", "1.0")
    text = prometheus_textfile.prometheus_textfile(run, {})
    helps = re.findall(r"# HELP (\S+)", text)
    assert helps == re.findall(r"# TYPE (\S+) gauge", text) == list(dict.fromkeys(helps))
    assert len(helps) == len(prometheus_textfile.SERIES)


def test_the_series_of_two_runs_are_the_same_except_for_the_info(top, tmp_path, definitions):
    other = write_run(tmp_path / "run", [(World(count=10, outcomes={3: "failed"}, seed=5), {})])
    record = files.read_yaml(other / "run.yml") | {"id": "t1122-fedcba"}
    files.write_yaml(other / "run.yml", record)
    write_timeline(str(other))
    write_kpis(str(other), [definitions])
    write_verdict(str(other), 0.5)
    series = [
        set(samples(run, export_run.read_run_verdict(run))) for run in map(run_reader.read_run_directory, (top, other))
    ]
    assert {one.partition("{")[0] for one in series[0] ^ series[1]} == {"seatrial_run_info"}
    assert not any("t1122-fedcba" in one for one in series[1] if not one.startswith("seatrial_run_info"))


def test_a_point_is_named_by_its_matrix_values(tmp_path, definitions):
    worlds = [(World(count=3, seed=seed), {"fine_tuning_gpus": seed, "a": "b"}) for seed in (1, 2)]
    folder = write_run(tmp_path / "run", worlds)
    write_timeline(str(folder))
    write_kpis(str(folder), [definitions])
    found = samples(run_reader.read_run_directory(folder), {})
    points = {re.search(r'point="([^"]*)"', one)[1] for one in found if one.startswith("seatrial_kpi{")}
    assert points == {"a=b,fine_tuning_gpus=1", "a=b,fine_tuning_gpus=2"}
    assert any('verdict="unknown"} ' in f"{one} " for one in found)


def test_a_repeated_point_has_the_series_of_one_attempt_with_the_mean_of_all(top):
    run = run_reader.read_run_directory(top)
    (first,) = run.points
    run.points.append(replace(first, number="000-2", record={**first.record, "attempt": 2}))
    once = set(samples(run, {}))
    assert not any("attempt=" in one for one in once)
    run.schedule = [{"type": "session", "repeat": {"max": 10}}]
    judged = {"point": "000", "name": "workloads_failed", "value": 1.5, "low": 1.0, "high": 2.0, "reading": "pass"}
    found = samples(run, {"kpis": [judged]})
    labels = '{project="fine_tuning",preset="light",point="",kpi="workloads_failed",unit="workloads",simulated="true"}'
    ends = [found[f"seatrial_kpi{end}{labels}"] for end in ("", "_low", "_high")]
    assert ends == ["1.5", "1.0", "2.0"]


def test_files_are_written_once_and_gated(top, tmp_path):
    paths = [str(tmp_path / "a" / "junit.xml"), str(tmp_path / "seatrial.prom")]
    first = export_run.write_ci_files(str(top), *paths, {}, [], export_run.LABEL)
    second = export_run.write_ci_files(str(top), *paths, {}, [], export_run.LABEL)
    assert (first["changed"], second["changed"], first["paths"]) == (True, False, paths)
    assert (tmp_path / "a" / "junit.xml").read_text() == (top / "junit.xml").read_text()
    with pytest.raises(secret_gate.SecretFound):
        export_run.write_ci_files(str(top), *paths, {"a setting": "fine_tuning-light"[:10]}, [], export_run.LABEL)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("opensearch:9200", "is not https://host:port"),
        ("http://opensearch.example.com:9200", "http is allowed for this machine only"),
        ("https://me:secret@opensearch.example.com", "give user and password as settings"),
    ],
)
def test_addresses_of_opensearch_are_checked(address, message):
    with pytest.raises(InputError, match=message) as caught:
        OpenSearchServer(address)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(("url", "parts"), [("s3://b", ("b", "")), ("s3://b/a/c/", ("b", "a/c"))])
def test_addresses_of_s3_are_split(url, parts):
    assert s3.parse_s3_url(url) == parts
    with pytest.raises(InputError):
        s3.parse_s3_url(url.removeprefix("s3:"))
