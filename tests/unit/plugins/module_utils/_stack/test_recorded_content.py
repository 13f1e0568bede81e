"""What an annotation of a claim says about the content of its volume, if others have written it."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_volume


@pytest.mark.parametrize("text", ["1", "null", "[1]", '"a"', "{", "true"])
def test_an_annotation_that_is_no_object_records_nothing(text: str) -> None:
    claim = {"metadata": {"name": "c", "annotations": {storage_volume.CONTENT: text}}}
    assert storage_volume.recorded_content(claim) == {}
