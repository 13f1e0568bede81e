# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of a run that may say why it failed, whatever its files have."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import run_texts
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = ("name", "uid", "state", "lastState", "terminated", "exitCode", "reason", "ready", "conditions", "a")
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
STATUS = st.fixed_dictionaries(
    {"phase": st.just("Running") | ANY, "conditions": ANY, "containerStatuses": ANY, "initContainerStatuses": ANY}
)
OBJECTS = st.fixed_dictionaries(
    {"kind": st.just("Pod") | ANY, "metadata": ANY, "status": STATUS | ANY, "involvedObject": ANY, "nodes": ANY}
)


@settings(max_examples=100, deadline=None)
@given(OBJECTS, st.sampled_from(["pods.jsonl", "events-ns.jsonl", "state.json"]))
def test_no_captured_object_of_whatever_shape_ends_the_search(captured: dict[str, Any], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture" / "001-failed"
        capture.mkdir(parents=True)
        (Path(folder) / "run.yml").write_text("{id: r, phases: {}}")
        (capture / name).write_text(json.dumps(captured) + "\n")
        for text in run_texts.run_texts(run_reader.read_run_directory(Path(folder))):
            assert "\n" not in text.text


def test_containers_and_conditions_of_a_pod_are_read_beside_what_has_another_form(tmp_path: Path) -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such\nimage"}}}
    status = {"phase": "Pending", "conditions": 5, "containerStatuses": ["x", {"state": [1]}, waiting]}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": status}
    (tmp_path / "capture" / "001-failed").mkdir(parents=True)
    (tmp_path / "run.yml").write_text("{id: r, phases: {}}")
    (tmp_path / "capture" / "001-failed" / "pods.jsonl").write_text(json.dumps(pod))
    found = [text for text in run_texts.run_texts(run_reader.read_run_directory(tmp_path)) if text.place == "pods"]
    assert [text.text for text in found] == ["Pending", "container main waiting: ImagePullBackOff: no such image"]
    assert {(text.about, text.line) for text in found} == {("Pod p", 1)}
