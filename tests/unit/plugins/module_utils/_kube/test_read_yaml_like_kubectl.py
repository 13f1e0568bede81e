"""YAML as kubectl reads it: `kubectl label --local -o json` gave these values."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import read_yaml_like_kubectl

READ: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "on", "ON", "true", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "NO", "off", "false"), False),
    **dict.fromkeys(("~", "null", "NULL", "")),
    **{
        text: text for text in ("=", "1:30:00", "12:30:45", "2026-11-26", "2026-11-26T10:00:00Z", "yEs", ".", "+", "--")
    },
    **{text: text for text in ("0b", "0x", "_1", "infinity", "nan", "1e400", "0o8", "1,2", "<<", "._5", ".5_0")},
    "0755": 493,
    "0o755": 493,
    "0O17": 15,
    "0x1F": 31,
    "0b11": 3,
    "-0b11": -3,
    "-0x1F": -31,
    "0_7": 7,
    "007": 7,
    "08": 8,
    "1_000": 1000,
    "+12": 12,
    "-0": 0,
    "1.0": 1,
    "1e3": 1000,
    "5.": 5,
    ".5": 0.5,
    "+.5": 0.5,
    "09.5": 9.5,
    "18446744073709551615": 2**64 - 1,
    "1e20": 10**20,
    "0.1": 0.1,
    "1e-7": 1e-7,
    "'5'": "5",
    "!!str 5": "5",
    "!!int 5": 5,
    "!!bool yes": True,
    "!!timestamp 2026-01-01": "2026-01-01",
    "!!binary aGk=": "hi",
    "!other bar": "bar",
}


def test_values_are_read_as_kubectl_reads_them() -> None:
    text = "".join(f"- {value}\n" for value in READ)
    assert json.dumps(read_yaml_like_kubectl.load_yaml_documents(text)) == json.dumps([list(READ.values())])


def test_keys_are_texts_and_merged_mappings_are_mappings() -> None:
    text = "1: a\nyes: b\n1:30: c\nbase: &b {x: 1, y1: 2}\nd: {<<: *b, x: 3}\nx: 1\nx: 2\n---\n---\nsecond: 1\n"
    first = {"1": "a", "true": "b", "1:30": "c", "base": {"x": 1, "y1": 2}, "d": {"x": 3, "y1": 2}, "x": 2}
    assert read_yaml_like_kubectl.load_yaml_documents(text) == [first, {"second": 1}]
    assert (
        read_yaml_like_kubectl.load_first_document(text) == first
        and read_yaml_like_kubectl.load_first_document("") is None
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: .nan", "line 2: .nan is no number"),
        ("- a\n- [", "line 3"),
        ("a: 1\nb: !!int [1]", "line 2"),
        ("a: 1\nb: !!bool [1]", "line 2"),
    ],
)
def test_what_can_not_be_read_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        read_yaml_like_kubectl.load_yaml_documents(text)
    assert words in read_yaml_like_kubectl.describe_yaml_error(caught.value)


@pytest.mark.parametrize(("items", "count"), [("", 0), (" []", 0), (" [{kind: Job}, {kind: JobList, items: }]", 1)])
def test_a_list_stands_for_its_items(items: str, count: int) -> None:
    assert read_yaml_like_kubectl.load_kubernetes_objects(f"kind: List\nitems:{items}\n") == [{"kind": "Job"}] * count


def test_a_manifest_with_too_many_values_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(yaml.YAMLError, match="it has more than 1,000,000 values"):
        read_yaml_like_kubectl.load_kubernetes_objects("- a\n" * 1_000_001)
