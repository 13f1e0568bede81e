"""What an annotation of a claim says about the content of its volume, if others have written it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_volume


@pytest.mark.parametrize("text", ["1", "null", "[1]", '"a"', "{", "true"])
def test_an_annotation_that_is_no_object_records_nothing(text: str) -> None:
    claim = {"metadata": {"name": "c", "annotations": {storage_volume.CONTENT: text}}}
    assert storage_volume.recorded_content(claim) == {}


@pytest.mark.parametrize("theirs", [{}, {"sha256": 12345}, {"sha256": None}, {"sha256": ["a"]}, 5, []])
def test_a_record_that_others_have_damaged_is_left_out_when_a_download_is_recorded(theirs: Any) -> None:
    sha = (theirs or {}).get("sha256") if isinstance(theirs, dict) else None
    metadata = {
        "name": "c",
        "labels": {storage_volume.source_label_key("m"): str(sha), storage_volume.source_label_key("kept"): "b" * 32},
        "annotations": {storage_volume.CONTENT: json.dumps({"m": theirs, "kept": {"sha256": "b" * 64}})},
    }
    sent: list[Any] = []
    kind = SimpleNamespace(path=lambda *_place: "/p")
    client: Any = SimpleNamespace(
        kind=lambda *_kind: kind,
        get=lambda *_place: {"metadata": metadata},
        request=lambda _method, _path, body, **_options: sent.append(body),
    )
    storage_volume.record_downloads(client, "ns", "c", [{"name": "n", "sha256": "a" * 64}])
    assert set(json.loads(sent[0]["metadata"]["annotations"][storage_volume.CONTENT])) == {"n", "kept"}


@pytest.mark.parametrize("spec", [None, {}, {"resources": 5}, {"resources": {"requests": []}}])
def test_a_claim_of_another_form_is_named(spec: Any) -> None:
    wanted = storage_volume.VolumeClaim("ns", "c", "1Gi", "ReadWriteOnce", "", "r")
    with pytest.raises(DataError, match="claim ns/c: the answer has an unexpected form"):
        storage_volume.check_claim_fits_request({"metadata": {"name": "c"}, "spec": spec}, wanted)
