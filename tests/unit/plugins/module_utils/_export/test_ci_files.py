"""Files for CI: well-formed for any verdict, with simulated figures marked."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._export import (
    ci_files,
    export_run,
    opensearch,
    secret_gate,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.write_verdict import write_verdict
from run_directory import World, write_run


@pytest.fixture(scope="module")
def top(tmp_path_factory, definitions):
    folder = write_run(tmp_path_factory.mktemp("ci") / "run", [(World(count=10, outcomes={3: "failed"}), {})])
    write_timeline(str(folder))
    write_kpis(str(folder), [definitions])
    write_verdict(str(folder), 0.5)
    return folder


def test_each_check_is_a_test_case(top):
    verdict = export_run.verdict_of(run_reader.read(top))
    suite = ElementTree.fromstring(ci_files.junit(run_reader.read(top), verdict)).find("testsuite")
    assert suite.get("name") == "fine_tuning.light"
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "1", "1")
    failed = [one for one in suite.iter("testcase") if one.find("failure") is not None]
    assert [one.get("name") for one in failed] == ["objects point 000"]
    assert "9 of 10 workloads succeeded; 1 failed" in failed[0].find("failure").get("message")
    shown = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert re.fullmatch(r"[\d.]+ 1/s \(simulated\)", shown["000.throughput_done"])
    assert "simulated" not in shown["000.lateness_p99"]


@pytest.mark.parametrize("text", ['<&">', "control \x1b[31m and \x00", "no end \ud800"])
def test_any_words_make_well_formed_xml(top, text):
    verdict = {"verdict": text, "checks": [{"check": text, "result": "outside", "detail": text, "point": None}]}
    ElementTree.fromstring(ci_files.junit(run_reader.read(top), verdict).encode("utf-8", "replace"))


def test_without_a_verdict_the_suite_fails(top):
    suite = ElementTree.fromstring(ci_files.junit(run_reader.read(top), {})).find("testsuite")
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


SAMPLE = re.compile(r'[a-z_]+\{([a-z]+="(?:[^"\\]|\\.)*",?)+\} (-?[\d.e+-]+|nan|inf)')


def test_the_textfile_has_a_sample_a_kpi_with_its_labels(top):
    text = ci_files.textfile(run_reader.read(top), export_run.verdict_of(run_reader.read(top)))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in lines)
    kpis = _files.read_json(top / "points/000/kpis.json")["kpis"]
    assert sum(line.startswith("seatrial_kpi{") for line in lines) == sum(one["value"] is not None for one in kpis)
    assert sum(line.startswith("seatrial_kpi_rows_of{") for line in lines) == len(kpis)
    assert any('verdict="regression"} 1.0' in line for line in lines)
    helps = re.findall(r"# HELP (\S+)", text)
    assert len(helps) == len(set(helps)) == 4


def test_files_are_written_once_and_gated(top, tmp_path):
    paths = [str(tmp_path / "a" / "junit.xml"), str(tmp_path / "seatrial.prom")]
    first = export_run.to_ci(str(top), *paths, {}, [], export_run.LABEL)
    second = export_run.to_ci(str(top), *paths, {}, [], export_run.LABEL)
    assert (first["changed"], second["changed"], first["paths"]) == (True, False, paths)
    with pytest.raises(secret_gate.SecretFound):
        export_run.to_ci(str(top), *paths, {"a setting": "fine_tuning-light"[:10]}, [], export_run.LABEL)


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
        opensearch.OpenSearchServer(address)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(("url", "parts"), [("s3://b", ("b", "")), ("s3://b/a/c/", ("b", "a/c"))])
def test_addresses_of_s3_are_split(url, parts):
    assert _s3.split(url) == parts
    with pytest.raises(InputError):
        _s3.split(url.removeprefix("s3:"))
