# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""S3-compatible storage: resumable upload in parts with verified checksums; download.

``endpoint`` selects a server other than Amazon S3. Objects are private by default. An object with the same checksum is
not uploaded again, and neither are the parts of an interrupted upload.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.mask_sent_credentials import (
    mask_sent_credentials,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from .http_client import limit_number_of_pages
from .http_transport import is_this_machine, secrets_of_proxies
from .s3_reply_limits import limit_replies

#: Minimum part size of S3 in bytes, except for the last part.
LEAST_PART = 5 * 2**20
#: Maximum number of parts of S3.
MOST_PARTS = 10_000
#: Most pages of the list of parts, of which the server chooses the size.
MOST_PARTS_PAGES = 100
MANIFEST = "manifest.json"
#: Most bytes of an object that is read into the memory.
MOST_OBJECT = 256 << 20
ACLS = ("private", "bucket-owner-full-control", "bucket-owner-read", "authenticated-read", "public-read")


@dataclass(frozen=True)
class S3Location:
    """Bucket, prefix and credentials. Empty credentials: boto3's (environment, profile, instance role)."""

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
        """The address s3://bucket/prefix."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_s3_url(url: str) -> tuple[str, str]:
    """Return bucket and key of s3://bucket/key. Raises InputError."""
    scheme, _colon, rest = url.partition("://")
    bucket, _slash, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise InputError(f"'{url}' is not s3://bucket/prefix")
    return bucket, key.strip("/")


def create_s3_client(location: S3Location, timeout: float = 60.0, attempts: int = 5, presign: bool = False) -> Any:
    """Return a boto3 client. Raises InputError if boto3 is missing or a setting is invalid.

    timeout: of each request, in seconds. attempts: at each request. presign: for URLs that others use.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise InputError("the Python package boto3 is required for s3:// and is not installed") from error
    if location.acl not in ACLS:
        raise InputError(f"acl '{location.acl}' is none of {', '.join(ACLS)}")
    if location.part_size < LEAST_PART:
        raise InputError(f"part_size {location.part_size} is below the minimum of S3, {LEAST_PART} bytes")
    own = (
        {"aws_access_key_id": location.access_key, "aws_secret_access_key": location.secret_key}
        if location.access_key
        else {}
    )
    # A presigned URL has no checksum, which is not known when the URL is made; before version 1.36 none has.
    wanted = {"signature_version": "s3v4", "request_checksum_calculation": "when_required"} if presign else {}
    presigning = {name: value for name, value in wanted.items() if name in Config.OPTION_DEFAULTS}
    proxies: dict[str, Any] = {"proxies": {}} if location.endpoint and is_this_machine(location.endpoint) else {}
    try:
        client = boto3.client(
            "s3",
            endpoint_url=location.endpoint or None,
            region_name=location.region or None,
            verify=location.authority or None,
            config=Config(
                s3={"addressing_style": "path"} if location.endpoint else None,
                connect_timeout=min(20.0, timeout),
                read_timeout=timeout,
                retries={"max_attempts": attempts, "mode": "standard"},
                **presigning,
                **proxies,
            ),
            **own,
        )
    except ValueError as error:
        raise InputError(f"endpoint '{location.endpoint}': {error}") from error
    limit_replies(client)
    return client


def upload_and_verify_files(
    location: S3Location, files: Mapping[str, Path], say: Callable[[str], None]
) -> dict[str, Any]:
    """Upload files (name below the prefix -> path) and verify each; the manifest last, as the mark of completeness.

    Return the numbers of files sent, of unchanged files ("there"), and of resumed parts. Raises AccessError, DataError.
    """
    with s3_errors(location):
        target = S3Prefix(location, create_s3_client(location), say)
        names = [name for name in files if name != MANIFEST]
        with ThreadPool(location.parallel) as pool:
            outcomes = list(pool.map(lambda name: target.put(name, files[name]), names))
        if MANIFEST in files:
            outcomes.append(target.put(MANIFEST, files[MANIFEST]))
    return {"sent": outcomes.count("sent"), "there": outcomes.count("there"), "resumed": target.resumed}


class s3_errors:
    """Convert the exceptions of boto3 to an AccessError with bucket, response and remedy."""

    def __init__(self, location: S3Location) -> None:
        self.location = location

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: Any, _trace: Any) -> None:
        if isinstance(error, RecursionError):
            raise AccessError(f"{self.location.address}: the server redirects each request again") from error
        if isinstance(error, (AttributeError, LookupError, TypeError, ValueError)):
            raise AccessError(f"{self.location.address}: an answer of the server has an unexpected form") from error
        module = type(error).__module__ if error is not None else ""
        if not module.startswith(("botocore", "boto3", "s3transfer")):
            return
        answer = getattr(error, "response", None) or {}
        code = (answer.get("Error") or {}).get("Code", "")
        where = f"{self.location.address} at {self.location.endpoint or 'Amazon S3'}"
        hint = {
            "NoSuchBucket": "; create the bucket first",
            "AccessDenied": "; check the access key and the bucket's policy",
            "InvalidAccessKeyId": "; check the access key",
            "SignatureDoesNotMatch": "; check the secret key",
            "403": "; check access key, secret key and the bucket's policy",  # a HEAD response has no reason
        }.get(code, "")
        why = mask_sent_credentials(str(error).strip().encode(), "", *secrets_of_proxies()).decode()
        raise AccessError(f"{where}: {why}{hint}") from error


class S3Prefix:
    """The objects below one prefix."""

    def __init__(self, location: S3Location, connection: Any, say: Callable[[str], None]) -> None:
        self.location = location
        self.s3 = connection
        self.say = say
        self.resumed = 0  # parts that an earlier upload sent
        self.acl = {"ACL": location.acl}

    def key(self, name: str) -> str:
        """Return the key of a file of the run."""
        return f"{self.location.prefix}/{name}".lstrip("/")

    def put(self, name: str, path: Path) -> str:
        """Upload a file unless it is there; return "sent" or "there". Raises DataError if the object differs."""
        size = path.stat().st_size
        digest = (
            file_checksum_for_s3(path, self._part(size))
            if size > self.location.part_size
            else file_checksum_for_s3(path)
        )
        if self._verified(name, path, size, digest):
            return "there"
        if size > self.location.part_size:
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
            raise DataError(
                f"{self.location.address}/{name}: after the upload, its size or checksum differs from {path}"
            )
        return "sent"

    def _part(self, size: int) -> int:
        return max(self.location.part_size, -(-size // MOST_PARTS))

    @staticmethod
    def _kind(name: str) -> dict[str, str]:
        known = {".jsonl": "application/x-ndjson", ".yml": "application/yaml", "": "text/plain"}
        suffix = Path(name).suffix
        return {"ContentType": known.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"}

    def _call(self, function: Any, **arguments: Any) -> Any:
        """Call with our ACL, or without in a bucket that does not support ACLs: it is private anyway."""
        from botocore.exceptions import ClientError

        try:
            return function(Bucket=self.location.bucket, **arguments, **self.acl)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code != "AccessControlListNotSupported" or self.location.acl != "private":
                raise
            self.say(f"bucket {self.location.bucket} does not support ACLs: its objects belong to its owner only")
            self.acl = {}
            return function(Bucket=self.location.bucket, **arguments)

    def _verified(self, name: str, path: Path, size: int, digest: str) -> bool:
        """Return whether the object has this content, by the server's checksum or else by downloading it."""
        from botocore.exceptions import ClientError

        try:
            head = self.s3.head_object(Bucket=self.location.bucket, Key=self.key(name), ChecksumMode="ENABLED")
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                return False
            raise
        if head["ContentLength"] != size:
            return False
        sha256 = head.get("ChecksumSHA256")
        if sha256:
            return sha256 == digest
        body = self.s3.get_object(Bucket=self.location.bucket, Key=self.key(name))["Body"]
        return _sha256_of_parts(iter(lambda: body.read(2**20), b"")) == _sha256_of_parts(_read_file_in_parts(path))

    def _in_parts(self, name: str, path: Path, size: int) -> None:
        part_size = self._part(size)
        upload_id, there = self._unfinished(name)
        if upload_id is None:
            created = self._call(
                self.s3.create_multipart_upload, Key=self.key(name), ChecksumAlgorithm="SHA256", **self._kind(name)
            )
            upload_id = created["UploadId"]
        common = {"Bucket": self.location.bucket, "Key": self.key(name), "UploadId": upload_id}
        parts = []
        for number, data in enumerate(_read_file_in_parts(path, part_size), start=1):
            digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
            known = there.get(number)
            if known and known["Size"] == len(data) and known.get("ChecksumSHA256") == digest:
                self.resumed += 1
                tag = known["ETag"]
            else:
                tag = self.s3.upload_part(**common, PartNumber=number, Body=data, ChecksumSHA256=digest)["ETag"]
            parts.append({"PartNumber": number, "ETag": tag, "ChecksumSHA256": digest})
        self.s3.complete_multipart_upload(**common, MultipartUpload={"Parts": parts})

    def _unfinished(self, name: str) -> tuple[str | None, dict[int, Any]]:
        """Return the newest incomplete upload of this object and its parts."""
        answer = self.s3.list_multipart_uploads(Bucket=self.location.bucket, Prefix=self.key(name))
        own = [unfinished for unfinished in answer.get("Uploads") or [] if unfinished["Key"] == self.key(name)]
        if not own:
            return None, {}
        newest = max(own, key=lambda candidate: candidate["Initiated"])
        pages = self.s3.get_paginator("list_parts").paginate(
            Bucket=self.location.bucket, Key=self.key(name), UploadId=newest["UploadId"]
        )
        limited = limit_number_of_pages(f"{self.location.address}/{name}: parts of an upload", pages, MOST_PARTS_PAGES)
        parts = {part["PartNumber"]: part for page in limited for part in page.get("Parts") or []}
        self.say(f"{name}: resuming an upload with {formats.format_count(len(parts), 'part')}")
        return newest["UploadId"], parts


def list_pages(connection: Any, bucket: str, prefix: str, **more: Any) -> Iterator[dict[str, Any]]:
    """Yield the pages of the objects below a prefix. Raises AccessError for more than the client reads."""
    pages = connection.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **more)
    where = f"s3://{bucket}/{prefix}"
    for page in limit_number_of_pages(where, pages):
        with expect_documented_form(where, page):
            for entry in page.get("Contents") or ():
                entry.update({key: entry[key] for key in ("Key", "Size")})
            for entry in page.get("CommonPrefixes") or ():
                entry.update(Prefix=entry["Prefix"])
        yield page


def read_object(connection: Any, bucket: str, key: str) -> bytes:
    """Return a small object. Raises DataError for one that would fill the memory."""
    content: bytes = connection.get_object(Bucket=bucket, Key=key)["Body"].read(MOST_OBJECT + 1)
    if len(content) > MOST_OBJECT:
        raise DataError(f"s3://{bucket}/{key}: the object has more than {MOST_OBJECT} bytes")
    return content


def file_checksum_for_s3(path: Path, part_size: int = 0) -> str:
    """Return the SHA-256 of a file in S3's format; with parts, that of their checksums, and their number."""
    if not part_size:
        return base64.b64encode(_sha256_of_parts(_read_file_in_parts(path))).decode()
    digests = [hashlib.sha256(part).digest() for part in _read_file_in_parts(path, part_size)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(digests)).digest()).decode()}-{len(digests)}"


def _sha256_of_parts(parts: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _read_file_in_parts(path: Path, part_size: int = 2**20) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        while part := stream.read(part_size):
            yield part


def download_objects_to_folder(location: S3Location, folder: Path, most_bytes: int) -> int:
    """Download the objects below the prefix to ``folder``; return their number.

    Raises AccessError, DataError: also if they are more than ``most_bytes``, by the listing or in truth.
    """
    received = 0

    def count(size: int) -> None:
        nonlocal received
        received += size
        if received > most_bytes:
            raise DataError(f"{location.address}: the objects have more than {most_bytes} bytes")

    with s3_errors(location):
        connection = create_s3_client(location)
        pages = list_pages(connection, location.bucket, location.prefix)
        keys = [(content["Key"], content["Size"]) for page in pages for content in page.get("Contents") or []]
        under = f"{location.prefix}/" if location.prefix else ""
        wanted = {key[len(under) :]: size for key, size in keys if key.startswith(under) and not key.endswith("/")}
        if not wanted and any(key == location.prefix for key, _size in keys):
            under, wanted = (
                location.prefix.rpartition("/")[0],
                {location.prefix.rpartition("/")[2]: dict(keys)[location.prefix]},
            )
            under = f"{under}/" if under else ""
        if not wanted:
            raise AccessError(f"{location.address}: there are no objects below this prefix")
        if (size := sum(wanted.values())) > most_bytes:
            raise DataError(f"{location.address}: the objects have {size} bytes, {most_bytes} are the most")
        targets = {name: _target_of_key(location, folder, name, wanted) for name in sorted(wanted)}
        for name, target in targets.items():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                connection.download_file(location.bucket, f"{under}{name}", str(target), Callback=count)
            except OSError as error:
                raise DataError(
                    f"{location.address}/{name}: can't be written here: {error.strerror or error}"
                ) from error
    return len(wanted)


def _target_of_key(location: S3Location, folder: Path, name: str, names: Collection[str]) -> Path:
    """Return the file for an object. Raises DataError for a key that can't be a file below ``folder``."""
    target = Path(os.path.normpath(folder / name))
    if not target.is_relative_to(folder) or "\0" in name:
        raise DataError(f"{location.address}/{name}: the name leads outside of the target directory")
    if os.path.normpath(name) != name:
        raise DataError(f"{location.address}/{name}: this key can't be the name of a file")
    parents = [str(parent) for parent in Path(name).parents]
    if both := next((parent for parent in parents if parent in names), None):
        raise DataError(
            f"{location.address}: {both} and {name} can't both be files here: remove one of the two objects, or name a "
            "prefix without them"
        )
    return target
