"""Files that grow are handed over in parts and an end, and restored by whoever continues them."""

from __future__ import annotations

import base64
import json
import random
import tempfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
    load_pods_lifecycle,
    pod_files_through_configmaps,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_pods_lifecycle import ClientState
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.pod_files_through_configmaps import (
    ResultSync,
)
from config_map_store import ConfigMapStore
from hypothesis import given, settings
from hypothesis import strategies as st

LEDGER, OBSERVATIONS = pod_files_through_configmaps.FILES


def store_of() -> ConfigMapStore:
    store = ConfigMapStore()
    store.held["load-0-files"] = {}
    return store


def overloaded() -> None:
    raise ApiError("overloaded", 503)


def lines(chance: random.Random, size: int) -> bytes:
    """Whole lines that hardly compress."""
    return b"".join(chance.randbytes(500).hex().encode() + b"\n" for _ in range(size // 1001))


def over(store: ConfigMapStore, folder: Path) -> ResultSync:
    folder.mkdir(exist_ok=True)
    return ResultSync(store, "ns", "load-0", folder, {"labels": {"a": "b"}})


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (zlib.compress(b"{}\n" * (4 << 20)), "larger than a part"),
        (zlib.compress(b"x" * 5000)[:-2], "truncated"),
        (b"", "truncated"),
    ],
)
def test_a_part_that_no_pod_of_ours_would_write_is_refused(tmp_path: Path, packed: bytes, why: str) -> None:
    store = store_of()
    index = {LEDGER: {"parts": [], "at": 0, "size": 0, "sha256": ""}}
    ends = {LEDGER: base64.b64encode(packed).decode()}
    store.held["load-0-files"] = {"data": {"index": json.dumps(index)}, "binaryData": ends}
    with pytest.raises(DataError, match=f"load-0-files has no valid part of a file: it is {why}"):
        pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "to")


def test_what_grew_is_restored_and_goes_on_by_several_pods(tmp_path: Path) -> None:
    chance, store = random.Random(3), store_of()
    wanted = dict.fromkeys(pod_files_through_configmaps.FILES, b"")
    for number in range(3):
        folder = tmp_path / str(number)
        pod = over(store, folder)
        assert pod.restore() is (number > 0)
        for name, content in wanted.items():
            assert number == 0 or (folder / name).read_bytes() == content
        for _ in range(3):
            for name in wanted:
                wanted[name] += lines(chance, chance.choice([0, 5_000, 900_000, 2_200_000]))
                (folder / name).write_bytes(wanted[name])
            pod.send()
        assert pod.send() is False, "nothing was added"
        with open(folder / LEDGER, "ab") as stream:
            stream.write(b"lost with the pod")
    index = pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "here")
    assert {name: (tmp_path / "here" / name).read_bytes() for name in wanted} == wanted
    assert sum(last - first + 1 for one in index.values() for _of, first, last in one["parts"]) > 4


def test_a_torn_end_is_handed_over_and_cut_off_by_whoever_continues(tmp_path: Path) -> None:
    store = store_of()
    pod = over(store, tmp_path / "a")
    (tmp_path / "a" / LEDGER).write_bytes(b"x" * 20 + b"\n" + b"to")
    assert pod.send()
    again = over(store, tmp_path / "b")
    assert again.restore()
    (tmp_path / "b" / LEDGER).write_bytes(b"x" * 20 + b"\n")
    assert again.send()
    pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "c")
    assert (tmp_path / "c" / LEDGER).read_bytes() == b"x" * 20 + b"\n"


def test_after_a_failure_everything_is_sent_by_the_next_call(tmp_path: Path) -> None:
    store = store_of()
    pod = over(store, tmp_path / "a")
    content = lines(random.Random(1), 2_500_000)
    (tmp_path / "a" / OBSERVATIONS).write_bytes(content)
    store.before = overloaded
    with pytest.raises(ApiError, match="overloaded"):
        pod.send()
    store.before = lambda: None
    assert pod.send()
    pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "c")
    assert (tmp_path / "c" / OBSERVATIONS).read_bytes() == content


class Killed(BaseException):
    """The pod is killed at a write."""


def killed_at(store: ConfigMapStore, number: int, after: bool) -> None:
    """Let the write with this number be the last one, with or without effect."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    store.before, store.after = (lambda: None, count) if after else (count, lambda: None)


def complete(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


SIZES = st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from([0, 900, 30_000, 250_000])), max_size=5)
#: Of each pod: what its files grow by before each of its calls, at which write it is killed, and whether that is done.
PODS = st.lists(st.tuples(SIZES, st.integers(0, 6), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(PODS, st.integers(0, 1000))
def test_nothing_that_was_handed_over_is_lost_whichever_write_is_the_last(pods: list[Any], seed: int) -> None:
    chance, store = random.Random(seed), store_of()
    handed = dict.fromkeys(pod_files_through_configmaps.FILES, b"")  # at least this has to be restored
    with tempfile.TemporaryDirectory() as top:
        for number, (grows, kill, after) in enumerate([*pods, ([], 99, False)]):
            folder = Path(top) / str(number)
            pod = over(store, folder)
            pod.restore()
            files = {}
            for name in pod_files_through_configmaps.FILES:
                path = folder / name
                restored = complete(path.read_bytes()) if path.exists() else b""
                assert restored.startswith(handed[name])
                path.write_bytes(restored)  # who appends cuts off an incomplete last line
                files[name] = handed[name] = restored
            killed_at(store, kill, after)
            try:
                for sizes in grows:
                    for name, size in zip(pod_files_through_configmaps.FILES, sizes, strict=True):
                        files[name] += b"\n" if size else b""
                        files[name] += lines(chance, size) + chance.randbytes(size % 300).hex().encode()
                        (folder / name).write_bytes(files[name])
                    pod.send()
                    handed = {name: complete(content) for name, content in files.items()}
            except Killed:
                pass
            store.before = store.after = lambda: None
            here = Path(top) / "here"
            for name in pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", here):
                found = (here / name).read_bytes()
                assert complete(found).startswith(handed[name]) and files[name].startswith(complete(found))


def test_what_is_written_grows_linearly_with_what_was_recorded(tmp_path: Path) -> None:
    chance, written = random.Random(1), []
    for calls in (50, 100, 200):
        store, folder = store_of(), tmp_path / str(calls)
        pod, recorded = over(store, folder), 0
        for _ in range(calls):
            for name, size in ((LEDGER, 1_200), (OBSERVATIONS, 12_000)):
                with open(folder / name, "ab") as stream:
                    recorded += stream.write(lines(chance, size))
            pod.send()
        written.append(store.written)
        head = json.dumps(store.held["load-0-files"])
        # Base64 and metadata, what is new, and the small ends of both files again.
        assert store.written < 1.5 * recorded + calls * (1.4 * 2 * pod_files_through_configmaps.MAX_END_BYTES + 2_000)
        assert len(head) < 1.4 * 2 * pod_files_through_configmaps.MAX_END_BYTES + 2_000, (
            "the index does not grow with the number of parts"
        )
    assert 1.8 < written[1] / written[0] < 2.2 and 1.8 < written[2] / written[1] < 2.2


def test_what_is_damaged_or_gone_is_an_error(tmp_path: Path) -> None:
    store = store_of()
    pod = over(store, tmp_path / "a")
    (tmp_path / "a" / LEDGER).write_bytes(lines(random.Random(1), 3_000_000))
    pod.send()
    part = next(name for name in store.held if name != "load-0-files")
    kept = store.held[part]
    (key,) = kept["binaryData"]
    for data, words in ((b"no", "no valid part"), (zlib.compress(b"other"), "its checksum differs")):
        store.held[part] = {**kept, "binaryData": {key: base64.b64encode(data).decode()}}
        with pytest.raises(DataError, match=words):
            pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "c")
    del store.held[part]
    with pytest.raises(DataError, match="was deleted"):
        pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "c")
    with pytest.raises(DataError, match="load-1-files with the files of the load was deleted"):
        pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-1", tmp_path / "c")


def test_a_client_is_lost_when_its_pod_is_not_made_again() -> None:
    ended = ClientState(state="ended", result={"outcome": {"ok": True}})
    clients = (ended, ClientState("running"), ClientState("running"), ClientState())
    pods = {1: "exit code 137, Error"}
    job: dict[str, Any] = {"status": {"failedIndexes": "0-1,7"}}
    assert load_pods_lifecycle.why_clients_are_lost(job, clients, pods) == {1: "exit code 137, Error"}
    job["status"]["conditions"] = [{"type": "Failed", "status": "True", "message": "too long"}]
    assert load_pods_lifecycle.why_clients_are_lost(job, clients, pods) == {
        1: "exit code 137, Error",
        2: "too long",
        3: "too long",
    }
    assert load_pods_lifecycle.why_clients_are_lost({}, clients, pods) == {}
    assert (
        load_pods_lifecycle.parse_index_intervals("1,3-5", 9) == {1, 3, 4, 5}
        and load_pods_lifecycle.parse_index_intervals("", 9) == set()
    )
    assert load_pods_lifecycle.parse_index_intervals("2-99999999999", 4) == {2, 3}
    with pytest.raises(DataError, match="failedIndexes of the Job of a load"):
        load_pods_lifecycle.parse_index_intervals("a-b", 4)


ENDED: dict[str, Any] = {"outcome": {"ok": True, "result": {"changed": True}}, "parcels": []}


@pytest.mark.parametrize(
    "written",
    [
        {"lines": "{"},
        {"count": "many"},
        {"counts": "[1]"},
        {"counts": '{"created": [[]]}'},
        {"result": "5"},
        {"result": '{"parcels": []}'},
        {"result": json.dumps({"outcome": {"ok": True, "result": 5}})},
        {"result": json.dumps({"outcome": {"ok": False}})},
        {"result": json.dumps({**ENDED, "parcels": [{"kind": "step"}]})},
        {"result": json.dumps({**ENDED, "parcels": [{"kind": "archive", "key": 5}]})},
        {"result": json.dumps({**ENDED, "parcels": [{"kind": "s", "name": "a", "sha256": "", "parts": 5}]})},
        "text",
    ],
)
def test_what_no_client_writes_into_its_config_map_is_one_error(written: Any) -> None:
    with pytest.raises(DataError, match="the ConfigMap of a client of the load: the answer has an unexpected form"):
        ClientState.from_config_map({"data": written})


@pytest.mark.parametrize(
    "index",
    ["{", json.dumps({LEDGER: 5}), json.dumps({LEDGER: {"parts": [["p"]], "sha256": ""}}), json.dumps({LEDGER: {}})],
)
def test_an_index_that_no_client_writes_is_one_error(tmp_path: Path, index: str) -> None:
    store = store_of()
    store.held["load-0-files"] = {"data": {"index": index}, "binaryData": {LEDGER: ""}}
    with pytest.raises(DataError, match="load-0-files: the answer has an unexpected form"):
        pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path)


def test_a_part_that_is_named_again_and_again_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of()
    part = base64.b64encode(zlib.compress(b"x" * pod_files_through_configmaps.MAX_PART_RAW_BYTES)).decode()
    store.held["p-0001"] = {"binaryData": {"piece": part}}
    index = {LEDGER: {"parts": [["p", 1, 1]] * 50, "at": 0, "size": 0, "sha256": ""}}
    ends = {LEDGER: base64.b64encode(zlib.compress(b"")).decode()}
    store.held["load-0-files"] = {"data": {"index": json.dumps(index)}, "binaryData": ends}
    monkeypatch.setattr(disk_reserve.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=10 << 20))
    with pytest.raises(DataError, match=f"{LEDGER}: it unpacks to .* MiB or more, and 10 MiB are free"):
        pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "to")
    assert sum(path.stat().st_size for path in (tmp_path / "to").iterdir()) <= 10 << 20
