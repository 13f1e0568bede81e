# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is downloaded to a volume, as users name it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_volume
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import (
    path_in_volume,
    read_sources,
)

LAB = {"lab": "s3://models/tuned", "files": "https://files.example.com/"}


@pytest.mark.parametrize(
    ("given", "name", "address"),
    [
        ("org/model-1b@hf", "org/model-1b", "hf://org/model-1b"),
        ("org/rows@hf-datasets", "org/rows", "hf://datasets/org/rows"),
        ("granite@lab", "granite", "s3://models/tuned/granite"),
        ("rows/alpaca.json@files", "rows/alpaca.json", "https://files.example.com/rows/alpaca.json"),
        ("hf://datasets/org/rows", "org/rows", "hf://datasets/org/rows"),
        ("https://files.example.com/a/b.json", "b.json", "https://files.example.com/a/b.json"),
        ({"source": "granite@lab", "name": "models/g"}, "models/g", "s3://models/tuned/granite"),
    ],
)
def test_a_source_has_an_address_and_a_path_in_the_volume(given: Any, name: str, address: str) -> None:
    (found,) = read_sources([given], LAB)
    assert (found.name, found.source) == (name, address)
    if isinstance(given, str) and "@" in given:
        assert path_in_volume(given) == name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("granite@lob", r"entry 1: no registry 'lob' \(did you mean 'lab'\?\); there are files, hf, hf-datasets, lab"),
        ("granite", "'granite' is neither name@registry nor an address such as hf://granite"),
        ("htps://x/y", r"begins with none of .* \(did you mean 'https'\?\)"),
        ("s3://", "names no bucket"),
        ({"source": "granite@lab", "nmae": "x"}, r"unknown key 'nmae' \(did you mean 'name'\?\)"),
        ({"name": "x"}, "neither name@registry, an address, nor a dictionary with 'source'"),
        ({"source": "granite@lab", "name": "../x"}, "'../x' is no path in a volume"),
        ({"source": "granite@lab", "name": "/x"}, "'/x' is no path in a volume"),
        ({"source": "granite@lab", "sha256": "12"}, "sha256 '12' is not 64 hexadecimal digits"),
        ({"source": "granite@lab", "revision": "main"}, "only sources of a model hub"),
        ({"source": "https://x/y", "files": ["*.json"]}, r"'\*.json' is no name of a file"),
    ],
)
def test_a_wrong_source_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_sources([given], LAB)


@pytest.mark.parametrize("other", ["granite", "granite/adapter", "granite@hf"])
def test_two_sources_are_never_at_one_place(other: str) -> None:
    second = other if "@" in other else {"source": "s3://models/x", "name": other}
    with pytest.raises(InputError, match="would be at the same place in the volume"):
        read_sources(["granite@lab", second], LAB)


def test_a_wrong_registry_is_refused() -> None:
    with pytest.raises(InputError, match="storage_registries.lab: 'models/' begins with none of"):
        read_sources([], {"lab": "models/"})


def test_a_claim_lacks_what_was_asked_for_otherwise() -> None:
    """Labels and annotation together say what the volume holds."""
    (one,) = read_sources(["org/model@hf"], {})
    (other,) = read_sources([{"source": "org/model@hf", "revision": "v2"}], {})
    record = {"name": one.name, "key": one.key, "sha256": "ab" * 32}
    labels = {storage_volume.source_label_key(one.name): "ab" * 16}
    held: dict[str, Any] = {
        "metadata": {"labels": labels, "annotations": {storage_volume.CONTENT: f'{{"{one.name}": {{'}}
    }
    assert (
        storage_volume.sources_missing_in_volume(None, [one])
        == storage_volume.sources_missing_in_volume(held, [one])
        == [one]
    )
    held["metadata"]["annotations"][storage_volume.CONTENT] = json.dumps({one.name: record})
    assert storage_volume.sources_missing_in_volume(held, [one]) == []
    assert storage_volume.sources_missing_in_volume(held, [other]) == [other]
    # Somebody removed or changed the label: the record does not count.
    held["metadata"]["labels"] = {storage_volume.source_label_key(one.name): "cd" * 16}
    assert storage_volume.sources_missing_in_volume(held, [one]) == [one]


@pytest.mark.parametrize("name", ["org/model", "a" * 200, "-x/.y-", "ä/b c"])
def test_the_label_of_a_source_is_one_that_the_server_permits(name: str) -> None:
    part = storage_volume.source_label_key(name).partition("/")[2]
    assert len(part) <= 63 and part[0].isalnum() and part[-1].isalnum()
    assert all(one.isascii() and (one.isalnum() or one in "._-") for one in part)
