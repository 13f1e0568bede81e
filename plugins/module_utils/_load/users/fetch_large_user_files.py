# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of users in pods that are too large for the API server: they go through an S3 server, as those of a load do.

Each user has one object, ``<prefix>/<run>/<point>/users/<index>.gz``, an archive as roles/users/files/sent_files.py
packs it. A Secret has a presigned URL for each, which only the pod of that user gets. ``uploads.json`` beside the
users' folders names the objects until none can be left.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import (
    disk_reserve,
    files,
    formats,
    run_labels,
    waiting,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import TarHeaderReader
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_control_characters
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.lost_labels import refuse_lost_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import delete_object_of_run

from ..plan.rendered_workload_templates import workload_name
from ..remote import result_upload
from ..remote.result_bucket import ResultStore


def count_files(folder: Path) -> int:
    """Return the number of files below a folder."""
    return sum(path.is_file() for path in folder.rglob("*"))


def extract_archive(archive: Path, to: Path, what: str) -> int:
    """Replace the folder ``to`` by the content of an archive; return the number of files. what: for errors.

    Nothing is replaced if the archive is damaged, or would write elsewhere: both raise DataError.
    """
    with tempfile.TemporaryDirectory(dir=to.parent) as aside:
        fresh = Path(aside) / "files"
        try:
            size = _unpacked_size(archive)
            disk_reserve.refuse_filling_disk(what, size, 0, to.parent)
            with _open_plain(archive) as stream, (reader := TarHeaderReader(stream, what)).opened() as content:
                members = list(reader.members(content))
                _refuse_unsent_kinds(what, members)
                # Refuses paths that lead out of the folder, and devices.
                content.extractall(fresh, members, filter="data")
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{what}: {error}") from error
        fresh.mkdir(exist_ok=True)  # of an archive without files
        shutil.rmtree(to, ignore_errors=True)
        fresh.replace(to)
    return count_files(to)


def _refuse_unsent_kinds(what: str, members: Iterable[tarfile.TarInfo]) -> None:
    """Raise DataError for a link, and for a sparse file, which has any size: a user's pod sends neither."""
    for member in members:
        if member.issym() or member.issparse():
            name = escape_control_characters(member.name[:100])
            raise DataError(f"{what}: {name} is a {'symbolic link' if member.issym() else 'sparse file'}")


def _open_plain(archive: Path) -> BinaryIO:
    """Open the plain archive."""
    with open(archive, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(archive)) if compressed else open(archive, "rb")


def _unpacked_size(archive: Path) -> int:
    """Return the bytes of the plain archive, which is read to its end: there a compressed one has its checksum."""
    with _open_plain(archive) as content:
        return sum(map(len, iter(lambda: content.read(1 << 20), b"")))


POD = ServedKind("v1", "Pod", "pods", True)
FILE = "uploads.json"
SCHEMA = "user_uploads/1"
#: Bytes of base64 that a Secret holds: 1 MiB decoded, and room for its other fields.
_MOST_DATA = 1_300_000
#: Timeout for deleted pods to be gone, seconds; they get five to end.
_GONE = 120.0


@dataclass(frozen=True)
class UserUploads:
    """What the users of one point upload. dest: folder of the users."""

    store: ResultStore
    namespace: str
    run: str
    point: str
    dest: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def from_params(
        cls, params: Mapping[str, Any], namespace: str, run: str, point: str, dest: Path, count: int
    ) -> UserUploads | None:
        """Return the uploads by option ``collect_s3`` of a module, None without one. Raises InputError.

        count: number of users.
        """
        # A load in pods has objects of the same numbers at the same point.
        store = ResultStore.from_params(params, run, f"{point}/users", count)
        return cls(store, namespace, run, point, dest) if store is not None else None

    @property
    def secret(self) -> str:
        """Name of the Secret with the URLs."""
        return result_upload.url_secret_name(workload_name(self.run, self.point, 0).removesuffix("-0"))

    def prepare(self, client: Client) -> None:
        """Check the bucket, record the objects, and create the Secret with the URLs.

        Raises InputError if the bucket cannot be used, or for more users than a Secret has room for; ApiError.
        """
        data = self.store.secret()
        size = sum(map(len, data.values()))
        if size > _MOST_DATA:
            most = self.store.clients * _MOST_DATA // size
            raise InputError(
                f"the URLs for {formats.format_count(self.store.clients, 'user')} do not fit into a Secret,"
                " which has room "
                f"for about {most}: set fewer users (users_count), or no workload_collect_s3"
            )
        self.store.check()
        self.dest.mkdir(parents=True, exist_ok=True)
        files.write_json(self.dest / FILE, {"schema": SCHEMA, **self.store.record()}, SCHEMA)
        labels = {run_labels.RUN: self.run, run_labels.POINT: self.point}
        metadata = {"name": self.secret, "namespace": self.namespace, "labels": labels}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        stored = client.apply(secret)
        refuse_lost_labels(
            client.access.server,
            secret,
            stored,
            lambda: client.delete_seen(result_upload.SECRET, stored["metadata"]),
        )

    def uploaded_clients(self) -> frozenset[int]:
        """Return the users that have uploaded their files. Raises AccessError."""
        return frozenset(self.store.uploaded_clients())

    def fetch_into_folder(self, index: int, to: Path, digest: str = "") -> int:
        """Replace the folder ``to`` by the files of a user; return their number.

        digest: SHA-256 that the helper has reported, if it did. Raises AccessError, DataError.
        """
        to.parent.mkdir(parents=True, exist_ok=True)
        sent = {"key": str(index), **({"sha256": digest} if digest else {})}
        with self._lock:  # the default session of boto3 is for one thread
            archive = self.store.fetch(sent, to.parent)
        try:
            return extract_archive(archive, to, f"files of user {index}")
        finally:
            archive.unlink(missing_ok=True)

    def forget(self, client: Client) -> None:
        """Delete objects, Secret and record, when all files are here and no pod can upload any more."""
        self.store.delete()
        (self.dest / FILE).unlink(missing_ok=True)
        delete_object_of_run(client, result_upload.SECRET, self.secret, self.namespace, self.run)


def number_of_expected_uploads(dest: Path) -> int | None:
    """Return the number of users whose uploads are recorded in the folder ``dest``, None without a record."""
    try:
        return len(files.read_json(dest / FILE)["keys"])
    except DataError:
        return None


def end_pods_and_fetch_uploads(client: Client, uploads: UserUploads, say: Callable[[str], None]) -> None:
    """End the pods of the users, fetch what they have uploaded and no call has collected, and delete the objects.

    Raises AccessError if the S3 server does not respond, DataError for a damaged object, which stays.
    """
    try:
        _end_pods(client, uploads)
    except AccessError as error:
        say(f"the pods of the users cannot be deleted, and may upload files later: {error}")
    there = sorted(uploads.uploaded_clients())
    for index in there:
        uploads.fetch_into_folder(index, uploads.dest / str(index) / "files")
    if there:
        say(f"fetched what {formats.format_count(len(there), 'user')} had uploaded")
    try:
        uploads.forget(client)
    except AccessError as error:
        say(f"the Secret {uploads.secret} cannot be deleted: {error}")


def _end_pods(client: Client, uploads: UserUploads) -> None:
    selector = run_labels.workload_label_selector(uploads.run, uploads.point)

    def left() -> list[str]:
        return [pod["metadata"]["name"] for pod in client.list(POD, uploads.namespace, selector)[0]]

    for pod in client.list(POD, uploads.namespace, selector)[0]:
        client.delete_seen(POD, pod["metadata"])
    waiting.wait_until_gone(left, _GONE)
