# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that downloads to a volume, against a real S3 server, an HTTPS server and a server like a model hub."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import itertools
import json
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import read_sources

SCRIPT = Path(__file__).parents[2] / "roles" / "storage" / "files" / "download.py"
WEIGHTS = b"\x00\x01weights" * 200_000
CONFIG = b'{"layers": 2}\n'


class Hub(http.server.BaseHTTPRequestHandler):
    """A model hub: a list of files with checksums, and files that may be at another host, with ranges."""

    token = "hub-token-5be1"
    seen: list[tuple[str, str | None, str | None]]
    broken: dict[str, int]

    def do_GET(self) -> None:
        authorization = self.headers.get("Authorization")
        self.seen.append((self.path, authorization, self.headers.get("Range")))
        if self.path.startswith("/cdn/"):
            self.answer(200, WEIGHTS)
        elif authorization != f"Bearer {self.token}":
            self.answer(401, b"")
        elif self.path == "/api/models/org/tiny/revision/main?blobs=true":
            git = hashlib.sha1(b"blob %d\0" % len(CONFIG) + CONFIG).hexdigest()
            lfs = {"sha256": hashlib.sha256(WEIGHTS).hexdigest(), "size": len(WEIGHTS)}
            files = [
                {"rfilename": "config.json", "size": len(CONFIG), "blobId": git},
                {"rfilename": "w/model.bin", "size": len(WEIGHTS), "blobId": "0", "lfs": lfs},
            ]
            self.answer(200, json.dumps({"sha": "c0ffee", "siblings": files}).encode())
        elif self.path == "/org/tiny/resolve/c0ffee/config.json":
            self.answer(200, CONFIG)
        elif self.path == "/org/tiny/resolve/c0ffee/w/model.bin":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/cdn/model.bin")
            self.end_headers()
        else:
            self.answer(404, b"")

    def answer(self, status: int, body: bytes) -> None:
        whole, first = len(body), 0
        if (asked := self.headers.get("Range")) and status == 200:
            status, first = 206, int(asked.removeprefix("bytes=").rstrip("-"))
        self.send_response(status)
        self.send_header("Content-Length", str(whole - first))
        self.end_headers()
        breaks = self.broken.pop(self.path, None)
        self.wfile.write(body[first:breaks])
        if breaks is not None:
            self.close_connection = True

    def log_message(self, *_given: object) -> None:
        return


@contextmanager
def serving(handler: Any, certificate: tuple[Path, Path] | None = None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.seen, Hub.broken = [], {}
    with serving(Hub) as port:
        yield f"http://127.0.0.1:{port}"


def download(folder: Path, *given: Any, secrets: dict[str, str] | None = None, **more: Any) -> list[dict[str, Any]]:
    """Run the program as a pod does; return what it prints."""
    volume, credentials = folder / "volume", folder / "credentials"
    for one in (volume, credentials):
        one.mkdir(exist_ok=True)
    for name, value in (secrets or {}).items():
        (credentials / name).write_text(value)
    document = {"folder": str(volume), "hub": "", "s3": "", "region": "", "authority": "", "parallel": 2, **more}
    document["sources"] = [one.document() for one in read_sources(given, {})]
    (folder / "specification.json").write_text(json.dumps(document))
    command = [sys.executable, "-I", str(SCRIPT), str(folder / "specification.json"), str(credentials)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == any(one["event"] == "failed" for one in events), done.stderr
    return events


def sources(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in events if one["event"] == "source"}


def test_a_model_of_a_hub_is_downloaded_once_and_verified(tmp_path: Path, hub: str) -> None:
    token = {"hub_token": Hub.token}
    (tmp_path / "volume").mkdir()
    found = sources(download(tmp_path, "org/tiny@hf", secrets=token, hub=hub))["org/tiny"]
    assert (found["revision"], found["files"], found["bytes"]) == ("c0ffee", 2, len(CONFIG) + len(WEIGHTS))
    volume = tmp_path / "volume" / "org" / "tiny"
    assert (volume / "w" / "model.bin").read_bytes() == WEIGHTS and (volume / "config.json").read_bytes() == CONFIG
    # The host of a redirect never sees the token.
    assert [one[1] for one in Hub.seen if one[0].startswith("/cdn/")] == [None]
    listed = subprocess.run(["sha256sum", "config.json", "w/model.bin"], cwd=volume, capture_output=True, check=True)
    assert found["sha256"] == hashlib.sha256(listed.stdout).hexdigest()

    again = sources(download(tmp_path, "org/tiny@hf", hub="http://127.0.0.1:1"))["org/tiny"]
    assert again["downloaded"] == 0 and again["sha256"] == found["sha256"]
    (volume / "config.json").write_bytes(b"changed")
    assert sources(download(tmp_path, "org/tiny@hf", secrets=token, hub=hub))["org/tiny"]["downloaded"] > 0
    assert (volume / "config.json").read_bytes() == CONFIG


def test_a_download_that_breaks_off_goes_on_where_it_ended(tmp_path: Path, hub: str) -> None:
    Hub.broken = {"/cdn/model.bin": 1_000_000}
    wanted = {"source": "org/tiny@hf", "files": ["*.bin"]}
    found = sources(download(tmp_path, wanted, secrets={"hub_token": Hub.token}, hub=hub))["org/tiny"]
    assert found["files"] == 1
    assert [one[2] for one in Hub.seen if one[0].startswith("/cdn/")] == [None, "bytes=1000000-"]


@pytest.mark.parametrize(
    ("given", "secrets", "words"),
    [
        ("org/tiny@hf", {}, "status 401; a token or key is required"),
        ("org/none@hf", {"hub_token": Hub.token}, "api/models/org/none/revision/main.*status 404"),
        (
            {"source": "org/tiny@hf", "files": ["*.gguf"]},
            {"hub_token": Hub.token},
            r"2 files, none of which matches \*.gguf",
        ),
        (
            {"source": "org/tiny@hf", "sha256": "0" * 64},
            {"hub_token": Hub.token},
            "has the checksum .*, and 0{64} was asked",
        ),
    ],
)
def test_what_cannot_be_downloaded_fails_and_is_not_recorded(
    tmp_path: Path, hub: str, given: Any, secrets: dict[str, str], words: str
) -> None:
    (failed,) = [one for one in download(tmp_path, given, secrets=secrets, hub=hub) if one["event"] == "failed"]
    assert re.search(words, failed["message"])
    assert not list((tmp_path / "volume").glob(".seatrial/*.json"))
    assert Hub.token not in failed["message"]


def test_objects_of_an_s3_server_are_downloaded_with_keys(tmp_path: Path) -> None:
    import boto3

    with servers.s3(tmp_path, ("models",)) as address:
        access, secret = servers.S3_KEYS
        s3 = boto3.client("s3", endpoint_url=address, aws_access_key_id=access, aws_secret_access_key=secret)
        files = {"tiny/config.json": CONFIG, "tiny/a b+c/model.bin": WEIGHTS, "tiny-2/other": b"x", "rows.json": b"[]"}
        for key, body in files.items():
            s3.put_object(Bucket="models", Key=key, Body=body)
        keys = {"access_key": access, "secret_key": secret}
        given = ["s3://models/tiny", {"source": "s3://models/rows.json", "name": "rows/all.json"}]
        found = sources(download(tmp_path, *given, secrets=keys, s3=address, region="us-east-1"))
        assert (found["tiny"]["files"], found["rows/all.json"]["files"]) == (2, 1)
        volume = tmp_path / "volume"
        assert (volume / "tiny" / "a b+c" / "model.bin").read_bytes() == WEIGHTS
        assert (volume / "rows" / "all.json").read_bytes() == b"[]"
        assert found["rows/all.json"]["sha256"] == hashlib.sha256(b"[]").hexdigest()
        wrong = {"access_key": access, "secret_key": "no"}
        (failed,) = download(tmp_path, "s3://models/tiny-2", secrets=wrong, s3=address, region="us-east-1")
        assert "status 403; check token or keys" in failed["message"]


def test_a_file_of_an_https_server_needs_its_certificate_authority(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "rows.json").write_bytes(b"[1]")
    certificate = servers.certificate(tmp_path)

    class Site(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, directory=str(tmp_path / "site"), **more)

        def log_message(self, *_given: object) -> None:
            return

    with serving(Site, certificate) as port:
        wanted = {"source": f"https://127.0.0.1:{port}/", "name": "data", "files": ["rows.json"]}
        (failed,) = download(tmp_path, wanted)
        assert "is the certificate authority in storage_ca_file?" in failed["message"]
        assert sources(download(tmp_path, wanted, authority=str(certificate[0])))["data"]["bytes"] == 3
        assert (tmp_path / "volume" / "data" / "rows.json").read_bytes() == b"[1]"


def test_a_folder_of_a_site_is_downloaded_by_its_list_of_checksums(tmp_path: Path) -> None:
    folder = tmp_path / "site" / "tiny"
    (folder / "w").mkdir(parents=True)
    (folder / "config.json").write_bytes(CONFIG)
    (folder / "w" / "model.bin").write_bytes(WEIGHTS)
    files = ["config.json", "./w/model.bin"]
    listed = subprocess.run(["sha256sum", *files], cwd=folder, capture_output=True, check=True).stdout
    (folder / "SHA256SUMS").write_bytes(listed)

    class Site(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, directory=str(tmp_path / "site"), **more)

        def log_message(self, *_given: object) -> None:
            return

    with serving(Site) as port:
        given = f"http://127.0.0.1:{port}/tiny"
        found = sources(download(tmp_path, given))["tiny"]
        assert (found["files"], found["bytes"]) == (2, len(CONFIG) + len(WEIGHTS))
        assert (tmp_path / "volume" / "tiny" / "w" / "model.bin").read_bytes() == WEIGHTS
        part = {"source": given, "name": "part", "files": ["config.json"]}
        assert sources(download(tmp_path, part))["part"]["files"] == 1
        (folder / "config.json").write_bytes(b"changed")
        events = download(tmp_path, {"source": given, "name": "again"})
    (failed,) = [one for one in events if one["event"] == "failed"]
    assert "its sha256 checksum is" in failed["message"]


def test_more_than_the_volume_can_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Huge(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(2**60))
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            return

    with serving(Huge) as port:
        (failed,) = download(tmp_path, f"http://127.0.0.1:{port}/huge.bin")
    assert "GiB are free on the volume: raise storage_size" in failed["message"]
    assert not (tmp_path / "volume" / "huge.bin").exists()


@pytest.mark.parametrize("name", ["../other/model.bin", "../.seatrial/other.json", "../../outside"])
def test_a_server_names_no_file_outside_of_the_folder_of_its_source(tmp_path: Path, name: str) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{hashlib.sha256(b'x').hexdigest()}  {name}\n".encode() if "SHA256SUMS" in self.path else b"x"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_given: object) -> None:
            return

    there = tmp_path / "volume" / "other" / "model.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(WEIGHTS)
    with serving(Site) as port:
        (failed,) = download(tmp_path, f"http://127.0.0.1:{port}/tiny")
    assert failed["message"] == f"'tiny/{name}' would be outside of the folder of its source"
    assert there.read_bytes() == WEIGHTS
    assert not list(tmp_path.rglob("outside")) and not list(tmp_path.rglob(".seatrial/*.json"))


def redirecting(to: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", to)
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            return

    return Site


@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/rows.json", "ftp://127.0.0.1:{}/rows.json"])
def test_a_redirect_from_https_to_another_scheme_is_refused(tmp_path: Path, address: str) -> None:
    certificate = servers.certificate(tmp_path)
    Hub.seen, Hub.broken = [], {}
    with serving(Hub) as other, serving(redirecting(address.format(other)), certificate) as port:
        (failed,) = download(tmp_path, f"https://127.0.0.1:{port}/rows.json", authority=str(certificate[0]))
    assert failed["message"].endswith(f"it redirects to {address.format(other)}, which is not https")
    assert not Hub.seen


def test_checksums_that_could_not_be_read_are_not_taken_as_missing(tmp_path: Path) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path.endswith("SHA256SUMS") else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            return

    with serving(Site) as port:
        (failed,) = download(tmp_path, f"http://127.0.0.1:{port}/tiny")
    assert failed["message"] == f"http://127.0.0.1:{port}/tiny/SHA256SUMS: status 503 (5 attempts)"
    assert not list(tmp_path.rglob(".seatrial/*.json"))


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'{"siblings": [1], "sha": "c0ffee"}',
        b"{",
        b"[" * 100_000,
        b'{"siblings": [{"rfilename": "a", "size": "abc"}], "sha": "c0ffee"}',
        b'{"siblings": [{"rfilename": "a", "size": 1e400}], "sha": "c0ffee"}',
    ],
)
def test_an_answer_that_is_no_list_of_files_is_one_sentence(tmp_path: Path, answer: bytes) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_given: object) -> None:
            return

    with serving(Site) as port:
        (failed,) = download(tmp_path, "hf://org/tiny", hub=f"http://127.0.0.1:{port}")
    assert failed["message"].startswith("hf://org/tiny: its server answers with no list of files: ")


class _Answering(http.server.BaseHTTPRequestHandler):
    """Answers each request with the bytes of a function of the path, until the client goes."""

    def parts(self) -> Iterator[bytes]:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for part in self.parts():
                self.wfile.write(part)

    def log_message(self, *_given: object) -> None:
        return


def test_a_file_that_is_larger_than_announced_does_not_fill_the_volume(tmp_path: Path) -> None:
    class Site(_Answering):
        def parts(self) -> Iterator[bytes]:
            if self.path.startswith("/api/"):
                yield json.dumps({"sha": "c0ffee", "siblings": [{"rfilename": "a", "size": 5 << 20}]}).encode()
            else:
                yield from itertools.repeat(b"x" * (1 << 20))

    with serving(Site) as port:
        (failed,) = (
            event
            for event in download(tmp_path, "hf://org/tiny", hub=f"http://127.0.0.1:{port}")
            if event["event"] == "failed"
        )
    assert "more than the 5242880 bytes that its server announced (5 attempts)" in failed["message"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 6 << 20


def test_a_list_of_objects_without_an_end_is_an_error(tmp_path: Path) -> None:
    class Site(_Answering):
        def parts(self) -> Iterator[bytes]:
            yield b"<R><NextContinuationToken>more</NextContinuationToken></R>"

    with serving(Site) as port:
        (failed,) = download(tmp_path, "s3://bucket/p", s3=f"http://127.0.0.1:{port}")
    assert failed["message"] == "s3://bucket/p: the list of its files has more than 1000 pages"
