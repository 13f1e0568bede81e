"""The files of a load through a real S3 server: with presigned URLs only, verified, and never lost by a failure."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
    load_in_pods,
    presigned_upload,
    result_bucket,
    result_upload,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.result_bucket import ResultStore

OUTCOME = {"ok": True, "result": {"msg": "12 of 12 created"}}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.s3(tmp_path_factory.mktemp("s3")) as found:
        yield found


def store(address: str, point: str, **more: object) -> ResultStore:
    asked = {
        "url": "s3://results/loads", "endpoint": address, "access_key": servers.S3_KEYS[0],
        "secret_key": servers.S3_KEYS[1], **more,
    }  # fmt: skip
    found = ResultStore.from_params({"collect_s3": asked}, "run-aa", point, clients=2)
    assert found is not None
    return found


def url(of: ResultStore, client: int) -> str:
    return base64.b64decode(of.secret()[str(client)]).decode()


@pytest.fixture
def files(tmp_path: Path) -> list[tuple[str, Path]]:
    folder = tmp_path / "pod"
    folder.mkdir()
    rows = random.Random(3)
    made = []
    for kind, name in (("point", "ledger.jsonl"), ("point", "observations.jsonl"), ("step", "timings.jsonl")):
        path = folder / name
        path.write_text("".join(f'{{"value":{rows.random()}}}\n' for _ in range(2_000)))
        made.append((kind, path))
    return made


def packed(files: list[tuple[str, Path]]) -> Path:
    archive = files[0][1].with_name("results.gz")
    result_upload.pack_result_files(files, OUTCOME, archive)
    return archive


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_a_pod_uploads_without_credentials_arrives_and_is_deleted(
    address: str, files: list[tuple[str, Path]], tmp_path: Path
) -> None:
    of, archive = store(address, "001"), packed(files)
    of.check()
    assert of.uploaded_clients() == []
    # Nothing but Python and the URL is needed: no packages of the site, no environment.
    code = f"import sys; sys.path[:0] = {[one for one in sys.path if 'site-packages' not in one]!r}\n"
    code += f"from pathlib import Path; from {presigned_upload.__name__} import put_file\n"
    code += "put_file(sys.argv[1], Path(sys.argv[2]))"
    subprocess.run([sys.executable, "-S", "-c", code, url(of, 1), str(archive)], check=True, env={})
    assert of.uploaded_clients() == [1]
    point, step = tmp_path / "point", tmp_path / "step"
    for one in (point, step):
        one.mkdir()
    (step / "timings.jsonl").write_text("before\n")
    sent = {"kind": result_upload.ARCHIVE, "key": "1", "size": archive.stat().st_size, "sha256": digest(archive)}
    assert result_bucket.unpack_result_archive(of.fetch(sent, tmp_path), point, step) == OUTCOME
    for _kind, path in files[:2]:
        assert digest(point / path.name) == digest(path)
    assert (step / "timings.jsonl").read_text() == "before\n" + files[2][1].read_text()
    assert sorted(one.name for one in (*point.iterdir(), *step.iterdir())) == sorted(one.name for _k, one in files)
    assert of.delete() and of.uploaded_clients() == [] and not of.delete(), "safe to repeat"


def test_what_is_damaged_replaces_nothing(address: str, files: list[tuple[str, Path]], tmp_path: Path) -> None:
    of, archive = store(address, "002"), packed(files)
    presigned_upload.put_file(url(of, 0), archive)
    with pytest.raises(DataError, match=r"s3://results/loads/run-aa/002/0.gz: its checksum is not that of the files"):
        of.fetch({"key": "0", "sha256": "0" * 64}, tmp_path)
    (tmp_path / "ledger.jsonl").write_text("held\n")
    whole = archive.read_bytes()
    for wrong in (whole[: len(whole) // 2], whole[:-200] + bytes(200), b"nothing", whole + whole):
        of_client = {"Bucket": "results", "Key": of.key(0)}
        s3.create_s3_client(of.location).put_object(**of_client, Body=wrong)
        with pytest.raises(DataError, match="is damaged"):  # also without a checksum from the pod
            result_bucket.unpack_result_archive(of.fetch({"key": "0"}, tmp_path), tmp_path, None)
        assert (tmp_path / "ledger.jsonl").read_text() == "held\n"
    assert of.uploaded_clients() == [0], "a damaged object stays for whoever looks into it"
    assert of.delete()


def test_the_server_refuses_what_was_changed_on_the_way(
    address: str, files: list[tuple[str, Path]], monkeypatch
) -> None:
    of = store(address, "003")
    monkeypatch.setattr(presigned_upload, "_file_md5_base64", lambda _path: base64.b64encode(bytes(16)).decode())
    with pytest.raises(presigned_upload.Refused, match="HTTP 400 BadDigest"):
        presigned_upload.put_file(url(of, 0), packed(files))
    assert of.uploaded_clients() == []


def test_an_expired_or_foreign_url_is_refused_without_being_shown(address: str, files: list[tuple[str, Path]]) -> None:
    of, archive = replace(store(address, "004"), lifetime=1), packed(files)
    expired, other = url(of, 0), url(of, 1)
    time.sleep(2.1)
    with pytest.raises(presigned_upload.Refused, match="HTTP 403") as caught:
        presigned_upload.put_file(expired, archive)
    assert "Signature" not in str(caught.value) and servers.S3_KEYS[0] not in str(caught.value)
    fresh = url(store(address, "004"), 0)
    with pytest.raises(presigned_upload.Refused, match="HTTP 403"):  # it is for one object only
        presigned_upload.put_file(fresh.replace("/004/0.gz", "/004/1.gz"), archive)
    presigned_upload.put_file(fresh, archive)
    assert of.uploaded_clients() == [0] and fresh != expired != other


def test_what_cannot_be_used_is_said_before_anything_is_made(address: str) -> None:
    for more, words in (
        ({"url": "s3://no-such-bucket/x"}, "workload_collect_s3 cannot be used: .*create the bucket first"),
        ({"secret_key": "wrong"}, "check the secret key"),
        ({"endpoint": "http://127.0.0.1:9"}, "workload_collect_s3 cannot be used"),
    ):
        with pytest.raises(InputError, match=words):
            store(address, "005", **more).check()
    with pytest.raises(InputError, match="is not s3://bucket/prefix"):
        store(address, "005", url="results/x")
    assert ResultStore.from_params({"collect_s3": {"url": ""}}, "run-aa", "001") is None


def test_a_missing_object_and_a_missing_bucket_are_errors_of_access(address: str, tmp_path: Path) -> None:
    of = store(address, "006")
    with pytest.raises(AccessError, match=r"s3://results/loads/run-aa/006/0.gz at "):
        of.fetch({"key": "0"}, tmp_path)
    gone = store(address, "006", url="s3://gone/x")
    with pytest.raises(AccessError, match="create the bucket first"):
        gone.uploaded_clients()


def test_the_record_names_the_objects_and_no_credentials(address: str) -> None:
    of = store(address, "007")
    record = json.dumps(of.record())
    assert of.key(0) in record and of.key(1) in record and address in record
    assert not any(one in record or one in repr(of) for one in servers.S3_KEYS)


class Secrets:
    """The Secret with the URLs, in memory."""

    def __init__(self, *found: dict[str, str]) -> None:
        self.found = list(found)

    def get(self, _kind: object, _name: str, _namespace: str) -> dict[str, object]:
        return {"data": self.found.pop(0) if len(self.found) > 1 else self.found[0]}


def test_a_pod_keeps_its_files_until_it_gets_a_url_that_works(
    address: str, files: list[tuple[str, Path]], tmp_path: Path
) -> None:
    of = store(address, "008")
    expired = replace(of, lifetime=1).secret()
    gone = store(address, "008", url="s3://gone/x").secret()
    nobody = store(address, "008", endpoint="http://127.0.0.1:9").secret()
    time.sleep(2.1)
    told: list[str] = []
    secrets = Secrets({}, expired, expired, gone, nobody, of.secret())
    upload = result_upload.ResultUpload(secrets, "ns", "load-x", "1", 60.0, told.append, lambda: False)  # type: ignore[arg-type]
    sent = upload.send(files, OUTCOME, tmp_path, pause=0.01)
    assert len(told) == 5 and told[0].startswith(result_upload.NO_SERVER)
    assert "HTTP 403" in told[1] and "there is no new URL" in told[2] and "HTTP 404 NoSuchBucket" in told[3]
    assert "ConnectionRefusedError" in told[4]
    assert not any("Signature" in one or servers.S3_KEYS[1] in one for one in told)
    (tmp_path / "here").mkdir()
    assert result_bucket.unpack_result_archive(of.fetch(sent, tmp_path), tmp_path / "here", None) == OUTCOME
    assert of.delete()


def test_a_pod_that_waits_in_vain_says_what_was_not_collected(
    address: str, files: list[tuple[str, Path]], tmp_path: Path
) -> None:
    upload = result_upload.ResultUpload(Secrets({}), "ns", "load-x", "0", 0.0, print, lambda: False)  # type: ignore[arg-type]
    with pytest.raises(ProcessError, match="its files were not collected: they are too large for the API server"):
        upload.send(files, OUTCOME, tmp_path, pause=0.01)
    assert (tmp_path / "results.gz").exists()


def test_give_back_fetches_what_was_uploaded(address: str, files: list[tuple[str, Path]], tmp_path: Path) -> None:
    of, point, said = store(address, "009"), tmp_path / "point", []
    point.mkdir()
    presigned_upload.put_file(url(of, 1), packed(files))
    load_in_pods._fetch_uncollected_files(of, point, said.append)
    rows = (point / "ledger.jsonl").read_text().splitlines()
    lost = {"type": "lost", "client": 0, "clients": 2, "reason": "its files were not collected"}
    assert json.loads(rows[0]) == lost
    assert rows[1:] == files[0][1].read_text().splitlines()
    assert (point / "observations.jsonl").read_text() == files[1][1].read_text()
    assert sorted(one.name for one in point.iterdir()) == ["ledger.jsonl", "observations.jsonl"]
    assert said == ["fetched what 1 client had uploaded"] and of.delete()
