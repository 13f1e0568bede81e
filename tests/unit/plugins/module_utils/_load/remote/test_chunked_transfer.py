"""Files go through ConfigMaps and come out as they were, whatever their size; what is damaged is refused."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import pod_files_through_configmaps
from config_map_store import ConfigMapStore
from hypothesis import given, settings
from hypothesis import strategies as st


def sent(store: ConfigMapStore, *paths: Path) -> list[dict[str, Any]]:
    return pod_files_through_configmaps.send_files_as_configmaps(
        store, "ns", "load-x", [("point", path) for path in paths], {"labels": {"a": "b"}}
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5000), st.booleans(), st.integers(1, 700))
def test_what_is_put_in_comes_out_in_pieces_of_the_asked_size(size: int, dull: bool, piece: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(b"a" * size if dull else random.Random(size).randbytes(size))
        cut = list(pod_files_through_configmaps.compressed_file_chunks(path, piece))
        assert all(len(one) == piece for one in cut[:-1]) and 0 < len(cut[-1]) <= piece
        assert pod_files_through_configmaps.zlib.decompress(b"".join(cut)) == path.read_bytes()


def test_several_files_share_the_numbering_and_a_second_sending_finds_the_first(tmp_path: Path) -> None:
    large, small = tmp_path / "ledger.jsonl", tmp_path / "log"
    large.write_bytes(random.Random(1).randbytes(pod_files_through_configmaps.CHUNK + 100))
    small.write_bytes(b"")
    store = ConfigMapStore()
    first = sent(store, large, small)
    assert [one["parts"] for one in first] == [["load-x-0001", "load-x-0002"], ["load-x-0003"]]
    assert sent(store, large, small) == first
    assert all(one["metadata"]["labels"] == {"a": "b"} for one in store.held.values())
    for one, path in zip(first, (large, small), strict=True):
        pod_files_through_configmaps.fetch_file_from_configmaps(store, "ns", one, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == path.read_bytes()


def test_a_file_that_would_fill_the_disk_is_refused_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = tmp_path / "bomb"
    with open(bomb, "wb") as stream:
        stream.truncate(300 << 20)
    store = ConfigMapStore()
    (one,) = sent(store, bomb)
    assert len(one["parts"]) == 1, "a thousandth of its size"
    monkeypatch.setattr(disk_reserve.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=100 << 20))
    with pytest.raises(DataError, match="bomb: it unpacks to .* MiB or more, and 100 MiB are free"):
        pod_files_through_configmaps.fetch_file_from_configmaps(store, "ns", one, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size <= 100 << 20


def test_a_part_that_is_gone_or_another_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(random.Random(1).randbytes(2 * pod_files_through_configmaps.CHUNK))
    store = ConfigMapStore()
    (one,) = sent(store, path)
    with pytest.raises(DataError, match="its checksum differs after the transfer"):
        pod_files_through_configmaps.fetch_file_from_configmaps(
            store, "ns", {**one, "parts": one["parts"][:2]}, tmp_path / "out"
        )
    with pytest.raises(DataError, match="has no valid chunk of it"):
        pod_files_through_configmaps.fetch_file_from_configmaps(
            store, "ns", {**one, "parts": one["parts"][1:]}, tmp_path / "out"
        )
    del store.held[one["parts"][1]]
    with pytest.raises(DataError, match="load-x-0002 with a chunk .* was deleted"):
        pod_files_through_configmaps.fetch_file_from_configmaps(store, "ns", one, tmp_path / "out")
