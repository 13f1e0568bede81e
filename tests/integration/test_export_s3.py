"""S3 against a real server: what arrives is what was sent, a cut upload goes on, and no secret leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import MOST_BYTES
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_metadata_store
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from playbook import play
from run_directory import World, write_run

ROOT = Path(__file__).parents[2]
NAME = "fine_tuning-light-t1121-abcdef"
CANARY = "canary-5e2a-secret-of-a-setting"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.s3(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(scope="module")
def place(address: str) -> s3.S3Location:
    return s3.S3Location("results", "nightly", address, access_key=servers.S3_KEYS[0], secret_key=servers.S3_KEYS[1])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = write_run(tmp_path_factory.mktemp("runs") / NAME, [(World(count=12, canary=5.0), {})])
    role = ROOT / "roles"
    write_timeline(str(top))
    write_kpis(str(top), [str(role / "results/files/kpis/workload.yml"), str(role / "fine_tuning/files")])
    write_verdict(str(top), 0.5)
    return top


def quiet(_line: str) -> None:
    """Say nothing."""


def export(top: Path, place: s3.S3Location, **secrets: str) -> dict:
    return export_run.upload_run_to_s3(str(top), place, secrets, [], export_run.LABEL, quiet)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_arrives_whole_private_and_with_a_manifest(run: Path, place: s3.S3Location, tmp_path: Path) -> None:
    result = export(run, place)
    assert result["exported"] == {"target": "s3", "address": f"s3://results/nightly/{NAME}", "status": "valid"}
    s3.download_objects_to_folder(replace(place, prefix=f"nightly/{NAME}"), tmp_path, MOST_BYTES)
    found = contents(tmp_path)
    manifest = files.read_json(tmp_path / "manifest.json")
    files.validate_schema_if_enabled("manifest/1", manifest)
    del found["manifest.json"]
    assert found == contents(run)
    assert {one["name"] for one in manifest["files"]} == set(found)


def test_a_second_export_sends_what_is_new_only(run: Path, place: s3.S3Location, tmp_path: Path) -> None:
    own = replace(place, prefix="again")
    top = tmp_path / NAME
    shutil.copytree(run, top)
    first = export(top, own)
    second = export(top, own)
    (top / "points" / "000" / "timeline.csv").write_text("changed")
    third = export(top, own)
    assert first["counts"]["there"] == 0
    assert second["counts"] == {"sent": 0, "there": first["counts"]["sent"], "resumed": 0}
    assert not second["changed"]
    assert third["counts"]["sent"] == 2  # the file and the manifest


def test_a_large_file_goes_in_parts_and_a_cut_upload_goes_on(place: s3.S3Location, tmp_path: Path) -> None:
    data = bytes(range(256)) * (13 * 2**20 // 256)
    (tmp_path / "large.bin").write_bytes(data)
    own = replace(place, prefix="parts", part_size=5 * 2**20)
    connection = s3.create_s3_client(own)
    begun = connection.create_multipart_upload(Bucket="results", Key="parts/large.bin", ChecksumAlgorithm="SHA256")
    connection.upload_part(
        Bucket="results",
        Key="parts/large.bin",
        UploadId=begun["UploadId"],
        PartNumber=1,
        Body=data[: 5 * 2**20],
        ChecksumAlgorithm="SHA256",
    )
    counts = s3.upload_and_verify_files(own, {"large.bin": tmp_path / "large.bin"}, quiet)
    assert counts == {"sent": 1, "there": 0, "resumed": 1}
    assert connection.get_object(Bucket="results", Key="parts/large.bin")["Body"].read() == data
    assert s3.upload_and_verify_files(own, {"large.bin": tmp_path / "large.bin"}, quiet)["there"] == 1
    assert not connection.list_multipart_uploads(Bucket="results").get("Uploads")


def test_what_arrived_otherwise_is_noticed(place: s3.S3Location, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"right")
    own = replace(place, prefix="wrong")
    s3.create_s3_client(own).put_object(Bucket="results", Key="wrong/x", Body=b"wrong")
    assert s3.upload_and_verify_files(own, {"x": tmp_path / "x"}, quiet)["sent"] == 1
    assert s3.create_s3_client(own).get_object(Bucket="results", Key="wrong/x")["Body"].read() == b"right"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bucket": "nowhere"}, "NoSuchBucket|create the bucket first"),
        ({"secret_key": "wrong-key-of-some-length"}, "check access key, secret key"),
        ({"access_key": "nobody"}, "access key"),
        ({"endpoint": "http://127.0.0.1:9"}, "Could not connect"),
    ],
)
def test_a_refusal_says_what_to_do_and_shows_no_key(
    run: Path, place: s3.S3Location, change: dict, message: str
) -> None:
    with pytest.raises(AccessError, match=message) as caught:
        export(run, replace(place, **change))
    assert "wrong-key-of-some-length" not in str(caught.value)


def test_a_run_with_a_secret_stays_here(run: Path, place: s3.S3Location, tmp_path: Path) -> None:
    top = tmp_path / NAME
    shutil.copytree(run, top)
    (top / "points" / "000" / "logs").mkdir()
    (top / "points" / "000" / "logs" / "pod.log").write_text(f"line one\nHF_TOKEN={CANARY}\n")
    own = replace(place, prefix="secret")
    with pytest.raises(
        secret_gate.SecretFound, match=r"points/000/logs/pod.log:2: the value of fine_tuning_model_token"
    ):
        export(top, own, fine_tuning_model_token=CANARY)
    assert not s3.create_s3_client(own).list_objects_v2(Bucket="results", Prefix="secret").get("Contents")


def test_an_invalid_run_goes_as_such_or_not_at_all(run: Path, place: s3.S3Location, tmp_path: Path) -> None:
    top = tmp_path / NAME
    shutil.copytree(run, top)
    (top / "points" / "000" / "kpis.json").unlink()
    assert export_run.upload_run_to_s3(str(top), place, {}, [], export_run.SKIP, quiet)["exported"] is None
    result = export(top, replace(place, prefix="invalid"))
    assert result["exported"]["status"] == "invalid"
    assert result["warnings"] == ["exported as invalid: point 000 could not be parsed"]


def test_replot_fetches_a_run_from_s3_makes_the_same_figures_and_exports_when_asked(
    run: Path, place: s3.S3Location, address: str, tmp_path: Path
) -> None:
    export(run, place)
    words = ["-e", f"export_s3_endpoint={address}", "-e", f"export_s3_access_key={servers.S3_KEYS[0]}"]
    secret = {"SEATRIAL_EXPORT_S3_SECRET_KEY": servers.S3_KEYS[1]}
    done = play(
        *words,
        "-e",
        f"source=s3://results/nightly/{NAME}",
        "-e",
        "export_enabled_on_replot=true",
        "-e",
        "export_s3_url=s3://results/replots",
        "-e",
        "export_junit=junit.xml",
        artifacts=tmp_path,
        project="replot",
        env=secret,
    )
    assert done.code == 0, done.output[-4000:]
    top = tmp_path / f"{NAME}-replot"
    for name in ("kpis.json", "attribution.json", "timeline.csv"):
        assert (top / "points" / "000" / name).read_bytes() == (run / "points" / "000" / name).read_bytes(), name
    assert (top / "report" / "index.html").exists() and (top / "junit.xml").exists()
    record = files.read_yaml(top / "run.yml")
    assert record["replot"]["source"] == f"s3://results/nightly/{NAME}"
    (exported,) = record["exported"]
    assert exported["address"] == f"s3://results/replots/{NAME}-replot"
    assert servers.S3_KEYS[1] not in done.output


def test_what_destroys_a_cluster_is_kept_on_a_server_until_it_is_dropped(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), servers.S3_KEYS, strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    entry = {"name": "perf", "metadata": {"infraID": "perf-abcde"}}
    for where in ("s3://results/clusters", "s3://results"):
        cluster_metadata_store.write_cluster_entry(where, "perf", entry)
        cluster_metadata_store.write_cluster_entry(where, "perf", {**entry, "owner": "jo"})
        assert cluster_metadata_store.read_cluster_entry(where, "perf") == {**entry, "owner": "jo"}
        cluster_metadata_store.delete_cluster_entry(where, "perf")
        cluster_metadata_store.delete_cluster_entry(where, "perf")
        with pytest.raises(DataError, match=f"{where} has no cluster perf"):
            cluster_metadata_store.read_cluster_entry(where, "perf")
    with pytest.raises(AccessError, match="cluster_metadata_store: s3://no-such-bucket/x at .*create the bucket first"):
        cluster_metadata_store.write_cluster_entry("s3://no-such-bucket/x", "perf", entry)
    with pytest.raises(InputError, match="has no bucket"):
        cluster_metadata_store.write_cluster_entry("s3:///x", "perf", entry)
