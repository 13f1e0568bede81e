# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""S3 and whatever speaks like it: upload with checksums that are verified, in parts that can be resumed; download.

Buckets may be anywhere (``endpoint``); the access is private unless another one is asked for. An object that is there
already with the same checksum is left alone, and parts of an upload that was cut short are not sent again.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import ThreadPool

#: Parts of at least 5 MiB are what S3 takes, except for the last one.
LEAST_PART = 5 * 2**20
#: S3 takes no more parts than this.
MOST_PARTS = 10_000
MANIFEST = "manifest.json"
ACLS = ("private", "bucket-owner-full-control", "bucket-owner-read", "authenticated-read", "public-read")


@dataclass(frozen=True)
class S3Location:
    """Where and as whom. Empty credentials: as boto3 finds them (environment, profile, role of the machine)."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    authority: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    acl: str = "private"
    part_size: int = 16 * 2**20
    parallel: int = 4

    @property
    def address(self) -> str:
        """Return it as s3://bucket/prefix."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def split(url: str) -> tuple[str, str]:
    """Return bucket and key of s3://bucket/key. Raises InputError."""
    scheme, _colon, rest = url.partition("://")
    bucket, _slash, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise InputError(f"'{url}' is no s3://bucket/prefix")
    return bucket, key.strip("/")


def client(place: S3Location) -> Any:
    """Return a boto3 client. Raises InputError when boto3 is missing or a setting can't be."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise InputError("the Python package boto3 is needed for s3:// and is not installed") from error
    if place.acl not in ACLS:
        raise InputError(f"acl '{place.acl}' is none of {', '.join(ACLS)}")
    if place.part_size < LEAST_PART:
        raise InputError(f"part_size {place.part_size} is less than the {LEAST_PART} bytes that S3 takes")
    own = {"aws_access_key_id": place.access_key, "aws_secret_access_key": place.secret_key} if place.access_key else {}
    try:
        return boto3.client(
            "s3",
            endpoint_url=place.endpoint or None,
            region_name=place.region or None,
            verify=place.authority or None,
            config=Config(
                s3={"addressing_style": "path"} if place.endpoint else None,
                connect_timeout=20,
                read_timeout=60,
                retries={"max_attempts": 5, "mode": "standard"},
            ),
            **own,
        )
    except ValueError as error:
        raise InputError(f"endpoint '{place.endpoint}': {error}") from error


def upload(place: S3Location, files: Mapping[str, Path], say: Callable[[str], None]) -> dict[str, Any]:
    """Upload files (name below the prefix -> path) and verify each; the manifest last, which says that all is there.

    Returns how many were sent and how many were there already. Raises AccessError, DataError.
    """
    with s3_errors(place):
        target = S3Prefix(place, client(place), say)
        names = [name for name in files if name != MANIFEST]
        with ThreadPool(place.parallel) as pool:
            outcomes = list(pool.map(lambda name: target.put(name, files[name]), names))
        if MANIFEST in files:
            outcomes.append(target.put(MANIFEST, files[MANIFEST]))
    return {"sent": outcomes.count("sent"), "there": outcomes.count("there"), "resumed": target.resumed}


class s3_errors:
    """Turn what boto3 raises into one error that says which bucket, what was answered and what to do."""

    def __init__(self, place: S3Location) -> None:
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: Any, _trace: Any) -> None:
        module = type(error).__module__ if error is not None else ""
        if not module.startswith(("botocore", "boto3", "s3transfer")):
            return
        answer = getattr(error, "response", None) or {}
        code = (answer.get("Error") or {}).get("Code", "")
        where = f"{self.place.address} at {self.place.endpoint or 'Amazon S3'}"
        hint = {
            "NoSuchBucket": "; make the bucket first",
            "AccessDenied": "; check the access key and the bucket's policy",
            "InvalidAccessKeyId": "; check the access key",
            "SignatureDoesNotMatch": "; check the secret key",
            "403": "; check access key, secret key and the bucket's policy",  # a HEAD has no room for a reason
        }.get(code, "")
        raise AccessError(f"{where}: {str(error).strip()}{hint}") from error


class S3Prefix:
    """The objects below one prefix."""

    def __init__(self, place: S3Location, connection: Any, say: Callable[[str], None]) -> None:
        self.place = place
        self.s3 = connection
        self.say = say
        self.resumed = 0  # parts that an earlier upload had sent
        self.acl = {"ACL": place.acl}

    def key(self, name: str) -> str:
        """Return the key of a file of the run."""
        return f"{self.place.prefix}/{name}".lstrip("/")

    def put(self, name: str, path: Path) -> str:
        """Upload one file unless it is there; return "sent" or "there". Raises DataError when it differs afterwards."""
        size = path.stat().st_size
        digest = checksum(path, self._part(size)) if size > self.place.part_size else checksum(path)
        if self._verified(name, path, size, digest):
            return "there"
        if size > self.place.part_size:
            self._in_parts(name, path, size)
        else:
            self._call(
                self.s3.put_object,
                Key=self.key(name),
                Body=path.read_bytes(),
                ChecksumSHA256=digest,
                **self._kind(name),
            )
        if not self._verified(name, path, size, digest):
            raise DataError(f"{self.place.address}/{name}: after the upload its size or checksum is not that of {path}")
        return "sent"

    def _part(self, size: int) -> int:
        return max(self.place.part_size, -(-size // MOST_PARTS))

    @staticmethod
    def _kind(name: str) -> dict[str, str]:
        known = {".jsonl": "application/x-ndjson", ".yml": "application/yaml", "": "text/plain"}
        suffix = Path(name).suffix
        return {"ContentType": known.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"}

    def _call(self, function: Any, **arguments: Any) -> Any:
        """Call with our ACL; a bucket that has no ACLs is private to its owner anyway."""
        from botocore.exceptions import ClientError

        try:
            return function(Bucket=self.place.bucket, **arguments, **self.acl)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code != "AccessControlListNotSupported" or self.place.acl != "private":
                raise
            self.say(f"bucket {self.place.bucket} has no access lists: its objects are its owner's alone")
            self.acl = {}
            return function(Bucket=self.place.bucket, **arguments)

    def _verified(self, name: str, path: Path, size: int, digest: str) -> bool:
        """Tell whether the object is there with this content, by the server's checksum, else by reading it back."""
        from botocore.exceptions import ClientError

        try:
            head = self.s3.head_object(Bucket=self.place.bucket, Key=self.key(name), ChecksumMode="ENABLED")
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                return False
            raise
        if head["ContentLength"] != size:
            return False
        found = head.get("ChecksumSHA256")
        if found:
            return found == digest
        body = self.s3.get_object(Bucket=self.place.bucket, Key=self.key(name))["Body"]
        return _digest_of(iter(lambda: body.read(2**20), b"")) == _digest_of(_read(path))

    def _in_parts(self, name: str, path: Path, size: int) -> None:
        part_size = self._part(size)
        upload_id, there = self._begun(name)
        if upload_id is None:
            begun = self._call(
                self.s3.create_multipart_upload, Key=self.key(name), ChecksumAlgorithm="SHA256", **self._kind(name)
            )
            upload_id = begun["UploadId"]
        common = {"Bucket": self.place.bucket, "Key": self.key(name), "UploadId": upload_id}
        parts = []
        for number, data in enumerate(_read(path, part_size), start=1):
            digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
            known = there.get(number)
            if known and known["Size"] == len(data) and known.get("ChecksumSHA256") == digest:
                self.resumed += 1
                tag = known["ETag"]
            else:
                tag = self.s3.upload_part(**common, PartNumber=number, Body=data, ChecksumSHA256=digest)["ETag"]
            parts.append({"PartNumber": number, "ETag": tag, "ChecksumSHA256": digest})
        self.s3.complete_multipart_upload(**common, MultipartUpload={"Parts": parts})

    def _begun(self, name: str) -> tuple[str | None, dict[int, Any]]:
        """Return the newest upload of this object that was begun and not ended, and the parts that it has."""
        answer = self.s3.list_multipart_uploads(Bucket=self.place.bucket, Prefix=self.key(name))
        own = [one for one in answer.get("Uploads") or [] if one["Key"] == self.key(name)]
        if not own:
            return None, {}
        newest = max(own, key=lambda one: one["Initiated"])
        pages = self.s3.get_paginator("list_parts").paginate(
            Bucket=self.place.bucket, Key=self.key(name), UploadId=newest["UploadId"]
        )
        found = {part["PartNumber"]: part for page in pages for part in page.get("Parts") or []}
        self.say(f"{name}: going on with an upload that has {len(found)} parts")
        return newest["UploadId"], found


def checksum(path: Path, part_size: int = 0) -> str:
    """Return the SHA-256 of a file as S3 writes it; of one in parts that of the parts' checksums, and their number."""
    if not part_size:
        return base64.b64encode(_digest_of(_read(path))).decode()
    digests = [hashlib.sha256(part).digest() for part in _read(path, part_size)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(digests)).digest()).decode()}-{len(digests)}"


def _digest_of(parts: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _read(path: Path, part_size: int = 2**20) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        while part := stream.read(part_size):
            yield part


def download(place: S3Location, folder: Path) -> int:
    """Fetch what lies below the prefix into ``folder``; return how many files. Raises AccessError, DataError."""
    with s3_errors(place):
        connection = client(place)
        pages = connection.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
        keys = [(one["Key"], one["Size"]) for page in pages for one in page.get("Contents") or []]
        under = f"{place.prefix}/" if place.prefix else ""
        wanted = {key[len(under) :]: size for key, size in keys if key.startswith(under) and not key.endswith("/")}
        if not wanted and any(key == place.prefix for key, _size in keys):
            under, wanted = place.prefix.rpartition("/")[0], {place.prefix.rpartition("/")[2]: 0}
            under = f"{under}/" if under else ""
        if not wanted:
            raise AccessError(f"{place.address}: there is nothing below this prefix")
        for name in wanted:
            target = (folder / name).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise DataError(f"{place.address}/{name}: a name that leads elsewhere")
            target.parent.mkdir(parents=True, exist_ok=True)
            connection.download_file(place.bucket, f"{under}{name}", str(target))
    return len(wanted)
