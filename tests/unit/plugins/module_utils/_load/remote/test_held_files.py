"""What is too large for the API server is held back in the pod, and the controller is told what to do about it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
    host_or_pod_load,
    pod_files_through_configmaps,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_in_pods import PodsFollower
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_pods_lifecycle import (
    ClientState,
    DriverPod,
    PodsState,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.pod_files_through_configmaps import (
    ResultSync,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.pod_manifests import DriverPodSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.result_bucket import ResultStore
from config_map_store import ConfigMapStore

LEDGER, OBSERVATIONS = pod_files_through_configmaps.FILES
S3 = {"url": "s3://results/x", "endpoint": "https://s3.example.com", "access_key": "key", "secret_key": "hidden words"}


def store_of() -> ConfigMapStore:
    store = ConfigMapStore()
    store.held["load-0-files"] = {}
    return store


def lines(chance: random.Random, size: int) -> bytes:
    return b"".join(chance.randbytes(500).hex().encode() + b"\n" for _ in range(size // 1001))


def over(store: ConfigMapStore, folder: Path, most: int) -> ResultSync:
    folder.mkdir(exist_ok=True)
    return ResultSync(store, "ns", "load-0", folder, {"labels": {"a": "b"}}, most)


def size_of(store: ConfigMapStore) -> int:
    return sum(len(one) for held in store.held.values() for one in held.get("binaryData", {}).values()) * 3 // 4


def test_above_the_bound_observations_stay_and_the_ledger_goes_on(tmp_path: Path) -> None:
    chance, store, most = random.Random(5), store_of(), 1_500_000
    pod = over(store, tmp_path / "a", most)
    for _ in range(4):
        for name, size in ((LEDGER, 100_000), (OBSERVATIONS, 1_000_000)):
            with open(tmp_path / "a" / name, "ab") as stream:
                stream.write(lines(chance, size))
        pod.send()
    assert pod.held
    assert size_of(store) <= most + 2 * pod_files_through_configmaps.MAX_PART_BYTES + 400_000, (
        "the API server gets no more than that"
    )
    pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "here")
    whole = {name: (tmp_path / "a" / name).read_bytes() for name in pod_files_through_configmaps.FILES}
    assert (tmp_path / "here" / LEDGER).read_bytes() == whole[LEDGER]
    part = (tmp_path / "here" / OBSERVATIONS).read_bytes()
    assert 0 < len(part) < len(whole[OBSERVATIONS]) and whole[OBSERVATIONS].startswith(part)
    assert part.endswith(b"\n")
    again = over(store, tmp_path / "b", most)
    assert again.restore() and again.held, "a pod that is made again knows it"
    assert again.send() is False or again.held


@pytest.mark.parametrize(("most", "held"), [(0, True), (1 << 20, False)])
def test_the_bound_holds_for_small_files_as_well(tmp_path: Path, most: int, held: bool) -> None:
    store = store_of()
    pod = over(store, tmp_path / "a", most)
    for name in pod_files_through_configmaps.FILES:
        (tmp_path / "a" / name).write_bytes(b'{"type":"end"}\n')
    pod.send()
    assert pod.held is held
    index = pod_files_through_configmaps.fetch_handed_over_files(store, "ns", "load-0", tmp_path / "here")
    assert (tmp_path / "here" / LEDGER).read_bytes() == b'{"type":"end"}\n'
    assert ((tmp_path / "here" / OBSERVATIONS).read_bytes() == b"") is held and index


def pod_of(store: ConfigMapStore, s3: dict[str, str] | None) -> tuple[DriverPod, list[str]]:
    said: list[str] = []
    given = {"collect_s3": s3 or {}}
    of = ResultStore.from_params(given, "run-aa", "001", 2)
    return DriverPod(store, DriverPodSpec("run-aa", "001", "image", clients=2), said.append, 1.0, of), said


HELD = PodsState(True, (ClientState("running"), ClientState("running", holds="12.0 MB")))


def test_without_a_server_the_load_says_what_to_set() -> None:
    pod, _said = pod_of(store_of(), None)
    with pytest.raises(
        ProcessError, match=r"1 client cannot send all files, client 1: 12.0 MB.*set workload_collect_s3"
    ):
        PodsFollower(pod, 10, 1.0, lambda: True)._collect(HELD)


def test_with_a_server_the_pods_get_new_urls_and_no_credentials() -> None:
    pytest.importorskip("boto3")
    store = store_of()
    pod, said = pod_of(store, S3)
    follower = PodsFollower(pod, 10, 1.0, lambda: True)
    follower._collect(PodsState(True, (ClientState("running"), ClientState("running"))))
    assert not said and "load-run-aa-001-upload" not in store.held
    follower._collect(HELD)
    follower._collect(HELD)
    assert said == ["1 client cannot send all files, client 1: 12.0 MB"], "it is said once"
    urls = store.held["load-run-aa-001-upload"]["data"]
    assert sorted(urls) == ["0", "1"] and "hidden words" not in json.dumps(store.held)


@pytest.mark.parametrize("name", ["arguments.yml", "../../run.yml", "log\x1b[2J", ""])
def test_a_pod_adds_to_no_other_file_of_a_role_call_than_a_load_writes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside these is what a later session reads as the arguments of the call."""
    handed_over = "fetch_handed_over_files"
    monkeypatch.setattr(pod_files_through_configmaps, handed_over, lambda *_all: _all[-1].mkdir(parents=True) or {})
    pod, _said = pod_of(store_of(), None)
    result = {"outcome": {"ok": True}, "parcels": [{"kind": "step", "name": name, "parts": [], "sha256": ""}]}
    with pytest.raises(DataError, match="a client of the load sent the file .*, which no load writes"):
        pod.fetch(PodsState(True, (ClientState("running", result=result),)), tmp_path, tmp_path / "step")


def test_an_archive_is_not_left_out_because_the_setting_was(tmp_path: Path) -> None:
    pod, _said = pod_of(store_of(), None)
    sent = ClientState("ended", result={"outcome": {"ok": True}, "parcels": [{"kind": "archive", "key": "1"}]})
    with pytest.raises(InputError, match="client 1 has uploaded its files to an S3 server: set workload_collect_s3"):
        pod._fetch_archive(sent, tmp_path)


def test_the_record_says_where_the_files_are(tmp_path: Path) -> None:
    of = ResultStore.from_params({"collect_s3": S3}, "run-aa", "001", 2)
    assert of is not None
    host_or_pod_load.write_load_record(tmp_path, host_or_pod_load.DRIVER_POD, "", "started", collect=of.record())
    found = host_or_pod_load.read_load_record(tmp_path)
    assert found is not None
    keys = ["x/run-aa/001/0.gz", "x/run-aa/001/1.gz"]
    assert found["collect"] == {"bucket": "results", "endpoint": S3["endpoint"], "keys": keys}
