# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs and what is kept for another machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import (
    cluster_metadata_store,
    installer_actions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from scripted_server import ScriptedServer


def test_an_entry_is_found_until_it_is_dropped(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    cluster_metadata_store.write_cluster_entry(place, "perf", {"metadata": {"infraID": "perf-abcde"}})
    assert cluster_metadata_store.read_cluster_entry(place, "perf") == {"metadata": {"infraID": "perf-abcde"}}
    cluster_metadata_store.delete_cluster_entry(place, "perf")
    cluster_metadata_store.delete_cluster_entry(place, "perf")
    with pytest.raises(DataError, match="has no cluster perf"):
        cluster_metadata_store.read_cluster_entry(place, "perf")
    with pytest.raises(InputError, match="is not a valid cluster name"):
        cluster_metadata_store.write_cluster_entry(place, "../perf", {})
    cluster_metadata_store.write_cluster_entry("", "perf", {})
    with pytest.raises(InputError, match="cluster_release_named=perf requires cluster_metadata_store"):
        cluster_metadata_store.read_cluster_entry("", "perf")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>", "the entry of perf is not JSON"),
        (b"[" * 100_000, "the entry of perf is not JSON"),
        (b"[1]", "the entry of perf is not a JSON object"),
        (b"x" * 101, "s3://clusters/perf.json: the object has more than 100 bytes"),
    ],
)
def test_an_entry_of_another_form_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes, words: str) -> None:
    monkeypatch.setattr(s3, "MOST_OBJECT", 100 if len(content) == 101 else s3.MOST_OBJECT)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first client
    with ScriptedServer(lambda _asked: (200, content)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        with pytest.raises(DataError, match=words):
            cluster_metadata_store.read_cluster_entry("s3://clusters", "perf")


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, str]]:
    folder = tmp_path / "mirror" / "4.19.9"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "openshift-install-linux.tar.gz", "w:gz") as archive:
        body = b"#!/bin/sh\n"
        entry = tarfile.TarInfo("openshift-install")
        entry.size = len(body)
        archive.addfile(entry, io.BytesIO(body))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "mirror")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    digest = hashlib.sha256((folder / "openshift-install-linux.tar.gz").read_bytes()).hexdigest()
    yield f"http://127.0.0.1:{server.server_port}", digest
    server.shutdown()
    server.server_close()


def test_a_program_is_fetched_once_and_only_with_the_checksum_that_was_pinned(tmp_path: Path, mirror: Any) -> None:
    url, digest = mirror
    said: list[str] = []
    find = partial(installer_actions.find_or_download_program, "openshift-install", "")
    path = Path(find(url, "4.19.9", digest, tmp_path / "cache", said.append))
    assert path.read_bytes() == b"#!/bin/sh\n" and path.stat().st_mode & 0o100
    assert find(url, "4.19.9", f"sha256:{digest}", tmp_path / "cache", said.append) == str(path)
    assert said == [f"downloading {url}/4.19.9/openshift-install-linux.tar.gz"]
    with pytest.raises(ProcessError, match="nothing was kept"):
        find(url, "4.19.9", "0" * 64, tmp_path / "other", said.append)
    assert not (tmp_path / "other").exists()
    with pytest.raises(InputError, match="only with cluster_version"):
        find(url, "", digest, tmp_path / "cache", said.append)
    with pytest.raises(ProcessError, match="cannot be fetched"):
        find(url, "4.0.0", digest, tmp_path / "cache", said.append)


def test_a_path_that_was_given_must_be_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="there is no program"):
        installer_actions.find_or_download_program(
            "openshift-install", str(tmp_path / "no"), "", "", "", tmp_path, print
        )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="openshift-install is not in PATH"):
        installer_actions.find_or_download_program("openshift-install", "", "", "", "", tmp_path, print)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "../../documents"}, "has another name"),
        ({"name": "other"}, "has another name"),
        ({"name": None}, "has another name"),
        ({"provider": "managed"}, "is not of a provider that stores entries"),
        ({"provider": "../../../../tmp/tasks"}, "is not of a provider that stores entries"),
        ({"provider_data": {"share": {"folder": "/home/me"}}}, "names a folder that is not of the cluster"),
        ({"provider_data": {"share": {"folder": "/srv/share/x/../perf"}}}, "names a folder that is not of the cluster"),
        ({"provider_data": {"share": ["/"]}}, "names a folder that is not of the cluster"),
        ({"provider_data": "x"}, "has provider_data of another form"),
        ({"provider_data": {"settings": "x"}}, "has provider_data of another form"),
        ({"provider_data": {"machines": ["node1"]}}, "has machines of another form"),
        ({"hosts": ["../sutest"]}, "names hosts that no run has"),
        ({"hosts": "sutest"}, "names hosts that no run has"),
    ],
)
def test_an_entry_that_leads_to_other_files_is_refused(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    share = {"host": "bastion", "folder": "/srv/share/perf"}
    usual = {"name": "perf", "provider": "openshift_agent", "provider_data": {"share": share}}
    cluster_metadata_store.write_cluster_entry(str(tmp_path), "perf", usual)
    assert cluster_metadata_store.read_cluster_entry(str(tmp_path), "perf") == usual
    cluster_metadata_store.write_cluster_entry(str(tmp_path), "perf", {**usual, **entry})
    with pytest.raises(DataError, match=f"the entry of perf {words}: nothing was deleted"):
        cluster_metadata_store.read_cluster_entry(str(tmp_path), "perf")


KNOWN = {"node1": "192.0.2.11", "node2": "192.0.2.12"}
OWN = {"inventory": "/lab/hosts.yml", "bastion": "bastion", "share_dir": "/srv/share"}


@pytest.mark.parametrize(
    ("data", "left"),
    [
        ({"machines": [{"name": "node1", "address": "192.0.2.11"}]}, []),
        ({"machines": [{"name": "node1", "address": "192.0.2.12"}]}, ["machine node1 with the BMC 192.0.2.12"]),
        ({"machines": [{"name": "node3", "address": "192.0.2.66"}]}, ["machine node3 with the BMC 192.0.2.66"]),
        ({"machines": [{"name": "node3", "address": ""}]}, ["machine node3 with the BMC "]),
        ({"machines": [{"name": ["node1"], "address": "192.0.2.11"}]}, ["machine ['node1'] with the BMC 192.0.2.11"]),
        ({"share": {"host": "bastion", "folder": "/srv/share/perf"}}, []),
        ({"share": {"host": "else", "folder": "/srv/share/perf"}}, ["folder /srv/share/perf on else"]),
        ({"share": {"host": "bastion", "folder": "/home/perf"}}, ["folder /home/perf on bastion"]),
    ],
)
def test_of_an_entry_only_what_the_session_names_is_used(data: dict[str, Any], left: list[str]) -> None:
    entry = {"name": "perf", "owned": False, "provider_data": {"settings": {"cluster_agent_inventory": "x"}, **data}}
    kept = cluster_metadata_store.keep_what_session_names(entry, lambda name: KNOWN.get(name, ""), OWN)
    assert kept["owned"] is True and kept["provider_data"]["left"] == left
    assert kept["provider_data"]["settings"] == {"cluster_agent_inventory": "/lab/hosts.yml"}
    for name, value in data.items():
        assert kept["provider_data"].get(name) == ([] if left and name == "machines" else None if left else value)
