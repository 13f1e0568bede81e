"""OpenSearch against a real node: documents with the same ids every time, over verified TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.opensearch_export import (
    OpenSearchIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    write_timeline,
)
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
    with pytest.raises(AccessError, match="refused document a of refused-kpis: mapper_parsing_exception"):
        index.write([("kpis", "a", {"value": "not a number"})])


def test_a_server_that_is_not_there_is_told(run: Path) -> None:
    with pytest.raises(AccessError, match="Connection refused"):
        export_run.write_run_to_opensearch(str(run), OpenSearchServer("http://127.0.0.1:9"), {}, [], export_run.LABEL)
