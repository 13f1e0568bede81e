"""Options of modules to the request for a history: servers, credentials, addresses that are no addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import collect_history, history_settings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import HistoryRequest
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from past_run_files import write_past_run


def request(**given: Any) -> HistoryRequest:
    found = ArgumentSpecValidator(history_settings.OPTIONS).validate(given)
    assert not found.error_messages
    return history_settings.history_request_from_params(found.validated_parameters)


def test_without_options_nothing_is_read() -> None:
    found = request()
    assert (found.sources, found.most, found.rules.compare_on, found.rules.ignore) == ((), 50, (), ())


def test_servers_get_their_address_and_credentials() -> None:
    found = request(
        history=["/a", "s3://b/c", "opensearch"],
        history_runs=7,
        compare_on=["ran.openshift"],
        ignore=["x"],
        history_s3={"endpoint": "https://s3", "access_key": "key", "secret_key": "hidden-1"},
        history_opensearch={"url": "https://search:9200", "user": "jo", "password": "hidden-2"},
        ca_file="/ca.pem",
    )
    assert (found.sources, found.most) == (("/a", "s3://b/c", "opensearch"), 7)
    assert (found.rules.compare_on, found.rules.ignore) == (("ran.openshift",), ("x",))
    assert (found.s3.endpoint, found.s3.access_key, found.s3.secret_key) == ("https://s3", "key", "hidden-1")
    assert found.opensearch is not None
    assert (found.opensearch.url, found.opensearch.prefix) == ("https://search:9200", "seatrial")
    assert (found.opensearch.password, found.opensearch.authority, found.s3.authority) == ("hidden-2", *["/ca.pem"] * 2)
    assert "hidden" not in repr(found)


def test_an_unusable_address_is_noted_when_it_is_read(tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1)
    for url, words in (("search:9200", "is not https://host:port"), ("", "no address of OpenSearch is set")):
        found = collect_history.collect_past_runs(
            run_reader.read_run_directory(top), request(history=["opensearch"], history_opensearch={"url": url})
        )
        assert len(found.notes) == 1 and words in found.notes[0]
