"""Files of users that are too large for the API server come back through a real S3 server, whoever is killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import rehearsal as support
import servers
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    workload_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import result_upload
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import (
    fetch_large_user_files,
    fetch_user_files,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users.fetch_large_user_files import (
    POD,
    UserUploads,
)
from killed_runs import give_back
from load_world import World
from node_relay import NODE, NodeRelay
from playbook import ROOT, begin, play, run_dirs

pytestmark = pytest.mark.long
LACKING = suite_prerequisites.real_node_lacks()

PROGRAMS = ("roles/users/files/user.py", "roles/users/files/pod_api.py",
            "roles/users/files/sent_files.py",
            "plugins/module_utils/_load/remote/presigned_upload.py")  # fmt: skip
#: What the helper does after the command has ended: folder, limit of the API server.
HELPER = """
import json, sys, user, sent_files
print(json.dumps(sent_files.send(user.User(), sys.argv[1], int(sys.argv[2]))))
"""


class Site:
    """A namespace of a real API server, an S3 server, and pods that say what their helpers reported."""

    def __init__(self, world: World, address: str, folder: Path) -> None:
        self.world, self.client, self.folder = world, world.client, folder
        self.given = {
            "collect_s3": {
                "url": "s3://results/users", "endpoint": address, "access_key": servers.S3_KEYS[0],
                "secret_key": servers.S3_KEYS[1],
            }
        }  # fmt: skip
        self.dest = folder / "run" / "points" / "001" / "users"
        self.spec = fetch_user_files.UsersSpec(world.namespace, world.run_id, "001", 2, "all", self.dest)
        self.programs = folder / "programs"
        self.programs.mkdir()
        for one in PROGRAMS:
            shutil.copy(ROOT / one, self.programs)

    @property
    def uploads(self) -> UserUploads:
        found = UserUploads.from_params(self.given, self.spec.namespace, self.spec.run, "001", self.dest, 2)
        assert found is not None
        return found

    def helper(self, index: int, files: dict[str, bytes], limit: int = 100, s3_limit: int = 1 << 20) -> Any:
        """Run the helper of a user with its part of the Secret; return what it reports about the files."""
        folder = self.folder / f"pod-{index}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        data = self.client.get(result_upload.SECRET, self.uploads.secret, self.spec.namespace)["data"]
        environment = {
            "SEATRIAL_INDEX": str(index), "SEATRIAL_POD": "p", "SEATRIAL_NAMESPACE": "n",
            "SEATRIAL_UPLOAD_URL": result_upload.base64.b64decode(data[str(index)]).decode(),
            "SEATRIAL_UPLOAD_LIMIT": str(s3_limit),
        }  # fmt: skip
        # Nothing but Python: no packages of the site, no environment.
        command = [sys.executable, "-S", "-B", "-c", HELPER, str(folder), str(limit)]
        done = subprocess.run(
            command, env=environment, cwd=self.programs, timeout=60, check=True, stdout=subprocess.PIPE, text=True
        )
        assert {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()} == set(files)
        return json.loads(done.stdout)

    def pod(self, index: int, files: Any, phase: str = "Succeeded") -> None:
        """Create the pod of a user with the status that a node would write."""
        name = workload_name(self.spec.run, "001", index)
        labels = run_labels.workload_labels(self.spec.run, "001", index)
        spec = {"containers": [{"name": "user", "image": "none"}], "schedulerName": "nobody"}
        meta = {"name": name, "namespace": self.spec.namespace, "labels": labels}
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        state: dict[str, Any] = {"running": {}}
        if phase == "Succeeded":
            state = {"terminated": {"exitCode": 0, "message": json.dumps({"moments": {}, "files": files})}}
        own = {"name": "user", "state": state, "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        path = f"{POD.path(self.spec.namespace, name)}/status"
        status = {"status": {"phase": phase, "containerStatuses": [own]}}
        self.client.request("PATCH", path, status, content_type=MERGE_PATCH)

    def fetch(self) -> dict[str, Any]:
        return fetch_user_files.fetch_reports_and_files_of_users(self.client, self.spec, self.uploads)

    def nothing_left(self) -> None:
        """Check that bucket, cluster and point have nothing of the upload any more."""
        assert (
            self.uploads.store.uploaded_clients() == []
            and fetch_large_user_files.number_of_expected_uploads(self.dest) is None
        )
        assert self.client.get(result_upload.SECRET, self.uploads.secret, self.spec.namespace) is None
        for path in self.dest.rglob("*"):
            if path.is_file():
                assert servers.S3_KEYS[1].encode() not in path.read_bytes()
            assert ".results" not in path.name


@pytest.fixture
def site(world: World, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with servers.s3(tmp_path_factory.mktemp("s3")) as address:
        yield Site(world, address, tmp_path)


LARGE = {"big.bin": os.urandom(300_000), "deep/a.txt": b"hello\n"}


def test_large_files_come_back_and_small_ones_are_not_uploaded(site: Site) -> None:
    site.uploads.prepare(site.client)
    assert fetch_large_user_files.number_of_expected_uploads(site.dest) == 2, "it is known before anything was uploaded"
    told = site.helper(0, LARGE)
    assert told["bytes"] == 300_006 and told["left_out"] == 0
    cut = site.helper(1, {**LARGE, "z.bin": bytes(900_000)})
    assert (cut["left_out"], cut["limit"]) == (1, "users_files_s3_limit_bytes")
    assert cut["first_left_out"] == [{"name": "z.bin", "bytes": 900_000}]
    site.pod(0, told)
    site.pod(1, cut)
    found = site.fetch()
    assert found["summary"].endswith("fetched 4 files; left out 1 beyond the limit")
    for index in range(2):
        files = site.dest / str(index) / "files"
        assert {one: (files / one).read_bytes() for one in LARGE} == LARGE
    summary = _files.read_json(site.dest / "users.json")["files"]
    assert (summary["left_out_users"], summary["limit"]) == (1, "users_files_s3_limit_bytes")
    site.nothing_left()
    assert site.fetch()["summary"] == found["summary"], "a second call finds the files of the first"


def test_nothing_is_lost_or_left_whenever_the_controller_is_killed(site: Site) -> None:
    site.uploads.prepare(site.client)
    for index in range(2):
        site.pod(index, site.helper(index, LARGE))

    class Killed(BaseException):
        pass

    def die(*_words: Any) -> None:
        raise Killed

    # Before, in and after the download, and between the deletions.
    for owner, name in ((UserUploads, "fetch"), (fetch_user_files, "users_summary"), (UserUploads, "forget")):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(owner, name, die)
            site.fetch()
        assert (
            site.uploads.store.uploaded_clients() == [0, 1]
            and fetch_large_user_files.number_of_expected_uploads(site.dest) == 2
        )
    site.uploads.store.delete()
    assert "fetched 4 files" in site.fetch()["summary"]
    site.nothing_left()


def test_a_damaged_object_stays_and_replaces_nothing(site: Site) -> None:
    site.uploads.prepare(site.client)
    site.pod(0, site.helper(0, LARGE))
    site.pod(1, None)
    store = site.uploads.store
    held = s3.create_s3_client(store.location)
    whole = held.get_object(Bucket="results", Key=store.key(0))["Body"].read()
    held.put_object(Bucket="results", Key=store.key(0), Body=whole[:-20] + bytes(20))
    with pytest.raises(DataError, match="its checksum is not that of the files that were sent"):
        site.fetch()
    assert store.uploaded_clients() == [0] and not (site.dest / "0" / "files").exists()
    held.put_object(Bucket="results", Key=store.key(0), Body=whole)
    assert "fetched 2 files" in site.fetch()["summary"]
    site.nothing_left()
    site.dest.joinpath("0", "files").rename(site.folder / "moved")
    with pytest.raises(DataError, match=r"there is no users/.*/001/users/0.gz in the bucket any more"):
        site.fetch()


def test_what_a_pod_uploads_after_the_call_is_collected_by_the_cleanup(site: Site) -> None:
    site.uploads.prepare(site.client)
    site.pod(0, site.helper(0, LARGE))
    site.pod(1, None, phase="Running")
    site.fetch()
    assert fetch_large_user_files.number_of_expected_uploads(site.dest) == 2, "user 1 may still upload"
    site.helper(1, LARGE)
    said: list[str] = []
    fetch_large_user_files.end_pods_and_fetch_uploads(site.client, site.uploads, said.append)
    assert said == ["fetched what 2 users had uploaded"]
    assert (
        hashlib.sha256((site.dest / "1" / "files" / "big.bin").read_bytes()).digest()
        == hashlib.sha256(LARGE["big.bin"]).digest()
    )
    assert site.world.names("v1", "Pod") == []
    site.nothing_left()


def test_an_unreachable_server_delays_only_what_was_uploaded(site: Site) -> None:
    site.uploads.prepare(site.client)
    site.pod(0, site.helper(0, LARGE))
    site.pod(1, None)
    asked = site.given["collect_s3"]
    here, asked["secret_key"] = asked["secret_key"], "wrong"
    with pytest.raises(AccessError, match="check the secret key"):
        site.fetch()
    assert "check the secret key" in _files.read_json(site.dest / "users.json")["files"]["first_error"]
    assert fetch_large_user_files.number_of_expected_uploads(site.dest) == 2
    asked["secret_key"] = here
    assert "fetched 2 files" in site.fetch()["summary"]
    site.nothing_left()


def test_a_bucket_that_cannot_be_used_is_named_before_anything_is_made(site: Site) -> None:
    site.given["collect_s3"]["url"] = "s3://no-such-bucket/x"
    with pytest.raises(InputError, match="workload_collect_s3 cannot be used: .*create the bucket first"):
        site.uploads.prepare(site.client)
    assert fetch_large_user_files.number_of_expected_uploads(site.dest) is None
    assert site.client.get(result_upload.SECRET, site.uploads.secret, site.spec.namespace) is None


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_a_run_on_a_real_node_brings_large_files_home_also_after_it_was_killed(
    own_instance: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = own_instance("users-s3", nodes_real=1, components=["python-image"])
    cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    monkeypatch.setenv("SEATRIAL_EXPORT_S3_SECRET_KEY", servers.S3_KEYS[1])
    with servers.s3(tmp_path) as here, NodeRelay(options, urlsplit(here).port or 0) as relay:
        # The address of the node is in its own network only: to this machine, the server is a proxy for itself.
        monkeypatch.setenv("HTTP_PROXY", here)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        address = f"http://{NODE}:{relay.port}"
        settings = {
            "rehearsal_data_dir": options.data_dir, "rehearsal_name": options.name, "users_count": 2,
            "users_command": ["sh", "-c", "head -c 3000000 /dev/urandom > /data/big; env > /data/env"],
            "users_files": "/data", "users_files_limit_bytes": 100_000, "users_files_s3_limit_bytes": 10_000_000,
            "workload_collect_s3": "s3://results/runs", "export_s3_endpoint": address,
            "export_s3_access_key": servers.S3_KEYS[0],
        }  # fmt: skip
        words = ["-e", "preset=light", "-e", json.dumps(settings)]
        done = play(*words, project="users", artifacts=tmp_path / "whole")
        assert done.code == 0, done.output
        (run_dir,) = run_dirs(tmp_path / "whole")
        check_home(run_dir)
        assert "Files of users are missing" not in done.output

        log = tmp_path / "log"
        running = begin(*words, artifacts=tmp_path / "killed", log=log, project="users")
        try:
            store = wait_for(lambda: uploaded(tmp_path / "killed", address), running, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        (run_dir,) = run_dirs(tmp_path / "killed")
        given = give_back(run_dir)
        assert given.returncode == 0, given.stdout[-6000:]
        assert (run_dir / "points" / "001" / "users" / "0" / "files" / "big").stat().st_size == 3_000_000
        assert store.uploaded_clients() == [] and not list(run_dir.rglob("uploads.json"))


def uploaded(artifacts: Path, address: str) -> Any:
    """Return the store of a run as soon as user 0 has uploaded its files."""
    for record in artifacts.rglob("uploads.json"):
        asked = {
            "url": "s3://results/runs", "endpoint": address, "access_key": servers.S3_KEYS[0],
            "secret_key": servers.S3_KEYS[1],
        }  # fmt: skip
        run = _files.read_yaml(record.parents[3] / "run.yml")["id"]
        found = UserUploads.from_params({"collect_s3": asked}, "n", run, "001", record.parent, 2)
        if found is not None and 0 in found.uploaded_clients():
            return found.store
    return None


def wait_for(look: Callable[[], Any], running: subprocess.Popen[bytes], log: Path) -> Any:
    deadline = time.monotonic() + 300
    while not (found := look()):
        assert running.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.05)
    return found


def check_home(run_dir: Path) -> None:
    """Check that the run has all files and no secret, and that nothing is left to collect."""
    users = run_dir / "points" / "001" / "users"
    for index in range(2):
        files = users / str(index) / "files"
        assert (files / "big").stat().st_size == 3_000_000
        assert "SEATRIAL_UPLOAD" not in (files / "env").read_text()
        user = _files.read_json(users / str(index) / "user.json")
        assert (user["files"]["way"], user["files"]["count"], user["files"]["left_out"]) == ("s3", 2, 0)
    assert not list(run_dir.rglob("uploads.json"))
    for path in run_dir.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert servers.S3_KEYS[1].encode() not in text and b"X-Amz-Signature" not in text, path
