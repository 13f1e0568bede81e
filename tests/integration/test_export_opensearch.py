"""OpenSearch against a real node: documents with the same ids every time, over verified TLS."""

from __future__ import annotations

import functools
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, opensearch_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.opensearch_export import (
    OpenSearchIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from run_directory import RUN, World, write_run

ROLES = Path(__file__).parents[2] / "roles"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.opensearch(tmp_path_factory.mktemp("node")) as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    worlds = [
        (World(count=10, canary=5.0), {"fine_tuning_hyper_parameters.r": 4, "fine_tuning_tolerations": [{"key": "x"}]}),
        (World(count=10, canary=5.0, outcomes={2: "unfinished"}), {"fine_tuning_hyper_parameters.r": 8}),
    ]
    top = write_run(tmp_path_factory.mktemp("run") / "run", worlds)
    write_timeline(str(top))
    write_kpis(str(top), [str(ROLES / "results/files/kpis/workload.yml"), str(ROLES / "fine_tuning/files/kpis.yml")])
    write_verdict(str(top), 0.5)
    return top


def test_every_kpi_of_every_point_can_be_searched_and_twice_is_once(run: Path, address: str) -> None:
    server = OpenSearchServer(address, "tests")
    first = export_run.write_run_to_opensearch(str(run), server, {}, [], export_run.LABEL)
    second = export_run.write_run_to_opensearch(str(run), server, {}, [], export_run.LABEL)
    kpis = [one for n in ("000", "001") for one in files.read_json(run / "points" / n / "kpis.json")["kpis"]]
    assert first["counts"] == {"created": len(kpis) + 1, "updated": 0}
    assert second["counts"] == {"created": 0, "updated": len(kpis) + 1}
    assert servers.get(f"{address}/tests-kpis/_count")["count"] == len(kpis)
    found = servers.get(
        f"{address}/tests-kpis/_search?q=name:makespan%20AND%20settings.fine_tuning_hyper_parameters.r:4"
    )
    (hit,) = found["hits"]["hits"]
    makespan = next(one for one in kpis if one["name"] == "makespan" and one["value"])
    assert hit["_source"]["value"] == makespan["value"]
    assert (hit["_source"]["simulated"], hit["_source"]["status"]) == (True, "valid")
    assert servers.get(f"{address}/tests-runs/_doc/{RUN}")["_source"]["verdict"] == "regression"
    assert first["exported"]["address"] == f"{address}/tests-runs/_doc/{RUN}"


def test_the_template_gives_fields_their_types(run: Path, address: str) -> None:
    export_run.write_run_to_opensearch(str(run), OpenSearchServer(address, "typed"), {}, [], export_run.LABEL)
    known = servers.get(f"{address}/typed-kpis/_mapping")["typed-kpis"]["mappings"]["properties"]
    types = {name: known[name].get("type") for name in ("@timestamp", "value", "name", "settings", "simulated")}
    assert types == {
        "@timestamp": "date",
        "value": "double",
        "name": "keyword",
        "settings": "flat_object",
        "simulated": "boolean",
    }


def test_tls_is_verified(run: Path, address: str, tmp_path: Path) -> None:
    with servers.tls(tmp_path, address) as (secure, authority):
        with pytest.raises(AccessError, match="certificate verify failed.*configure the CA that signed"):
            export_run.write_run_to_opensearch(str(run), OpenSearchServer(secure, "tls"), {}, [], export_run.LABEL)
        trusted = OpenSearchServer(secure, "tls", authority=str(authority))
        assert (
            export_run.write_run_to_opensearch(str(run), trusted, {}, [], export_run.LABEL)["counts"]["created"] > 100
        )


def test_a_run_with_a_secret_sends_nothing(run: Path, address: str) -> None:
    with pytest.raises(secret_gate.SecretFound, match="run.yml:"):
        export_run.write_run_to_opensearch(
            str(run), OpenSearchServer(address, "secret"), {"a setting": "ansible-playbook"}, [], export_run.LABEL
        )
    assert "secret-runs" not in servers.get(f"{address}/_all/_settings")


def test_a_document_that_is_refused_is_told(address: str) -> None:
    index = OpenSearchIndex(OpenSearchServer(address, "refused"))
    index.prepare()
    wrong = [("kpis", name, {"value": "not a number"}) for name in "abcde"]
    with pytest.raises(
        AccessError,
        match="refused 5 documents and wrote 1; .*not whole.*is a of refused-kpis: mapper_",
    ):
        index.write([*wrong, ("kpis", "f", {"value": 1.0}), ("runs", "g", {"whole": True})])
    with pytest.raises(urllib.error.HTTPError):  # so that the run stays marked
        servers.get(f"{address}/refused-runs/_doc/g")


#: What the first run of an index may contain, and a later one: settings of any length and shape.
HOSTILE: list[dict[str, Any]] = [
    {"presets": ["2026-11"], "settings": {"a": "2026-11-25", "b": {"c": 1}, "list": [1, {"x": None}]}},
    {"presets": ["light"], "settings": {"a": "text", "b": "c", "b.c": 2, "": {"": "empty"}, " ": "blank"}},
    {"presets": ["2026-51"], "versions": {"kube-apiserver": "2026-11-25", "foo": "1", "foo.bar": "2"}},
    {
        "versions": {"kube-apiserver": "v1.36", "foo": "1"},
        "settings": {"long": "x" * 40_000, "wide": "\U0001f600" * 8_191},
    },
    {"settings": {"k" * 40_000: 1, ".": 1, "..": 2, "a..b": 3, "\\": 4, "nan": float("nan"), "big": 10**400}},
    {"settings": {"deep": functools.reduce(lambda inner, _level: {"level": inner}, range(200), {"end": "x"})}},
    {"settings": {"b": [], "a": {}, "date": "2026-01-01T00:00:00Z", "true": True, "number": "1e5"}},
]


def hostile_entries(number: int) -> list[tuple[str, str, dict[str, Any]]]:
    given = HOSTILE[number]
    record = {"project": "p", "presets": given.get("presets", []), "versions": given.get("versions", {})}
    point = Point("000", Path("x"), {"uuid": f"u{number}"}, all_settings=given.get("settings", {}))
    point.kpis = [{"name": "makespan", "value": 1.0, "unit": "s", "labels": given.get("settings", {})}]
    run = Run(
        Path("x"), {"id": f"t1121-aaaaa{number}", **record, "started": "2026-11-25T10:00:00.000Z"}, points=[point]
    )
    return opensearch_export.run_and_kpi_documents(run, {"verdict": "pass"}, "valid")


@pytest.mark.parametrize("first", range(len(HOSTILE)))
def test_any_settings_are_taken_in_any_order_of_runs(address: str, first: int) -> None:
    index = OpenSearchIndex(OpenSearchServer(address, f"hostile{first}"))
    index.prepare()
    for number in (first, *(number for number in range(len(HOSTILE)) if number != first)):
        assert index.write(hostile_entries(number)) == {"created": 2, "updated": 1}
    index.prepare()  # the types are still those of the template
    (hit,) = servers.get(f"{address}/hostile{first}-kpis/_search?q=labels.settings.number:1e5")["hits"]["hits"]
    assert hit["_source"]["run"] == "t1121-aaaaa6"


def test_an_index_of_another_template_is_told_before_documents_are_written(address: str) -> None:
    put = urllib.request.Request(
        f"{address}/foreign-kpis/_doc/a?refresh=true",
        b'{"presets": "2026-11-25"}',
        {"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(put, timeout=60).close()
    with pytest.raises(DataError, match="field presets of index foreign-kpis is a date instead of a text"):
        OpenSearchIndex(OpenSearchServer(address, "foreign")).prepare()


def test_a_server_that_is_not_there_is_told(run: Path) -> None:
    with pytest.raises(AccessError, match="Connection refused"):
        export_run.write_run_to_opensearch(str(run), OpenSearchServer("http://127.0.0.1:9"), {}, [], export_run.LABEL)
