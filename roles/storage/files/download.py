# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download models and datasets into a volume. Runs in a pod, with Python 3.9 or later and its standard library only.

    python3 program.py specification.json credentials

The specification is written by module download_job. The folder ``credentials`` has one file for each secret. What
happens is printed as one JSON dictionary per line: ``progress``, ``source`` (a source is there), ``failed``.

A file is downloaded as <file>.part, continued where an earlier attempt ended, compared with the checksum of its
server, then renamed. When all files of a source are there, <folder>/.seatrial/<name>.json records their checksums.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import fcntl
import fnmatch
import hashlib
import hmac
import json
import os
import re
import shutil
import ssl
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

TRIES = 5
CHUNK = 1 << 20
TIMEOUT = 60.0
PROGRESS = 2.0
#: Bytes of a list of files, or of a page of it; pages.
MOST, PAGES = 64 << 20, 1000


#: What reading an answer of another form raises.
FORM_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    xml.etree.ElementTree.ParseError,
)


class Failed(Exception):
    """The message for the user."""


class Denied(Failed):
    """A server refuses to answer, or does not have it."""


class File:
    """One file to download: its path in the source, address, size (None: unknown) and checksums by algorithm."""

    def __init__(self, path, url, size=None, sums=None, signed=None):
        self.path, self.url, self.size, self.sums = path, url, size, sums or {}
        self.signed = signed or (lambda url: {})


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to HTTP servers, and from https only to https."""

    def redirect_request(self, request, reply, code, message, headers, url):
        scheme = urllib.parse.urlsplit(url).scheme
        if scheme != "https" and (scheme, request.type) != ("http", "http"):
            raise Failed(f"{request.full_url}: it redirects to {url.partition('?')[0]}, which is not https")
        return super().redirect_request(request, reply, code, message, headers, url)


class Web:
    """Requests with retries. Headers with credentials are not sent to the host of a redirect."""

    def __init__(self, authority):
        context = ssl.create_default_context()
        if authority:
            context.load_verify_locations(cafile=authority)
        self.opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), Redirects())

    def open(self, url, headers=None, first=0):
        """Return the reply, from byte ``first`` on if the server can (status 206)."""
        request = urllib.request.Request(url, headers={"Range": f"bytes={first}-"} if first else {})
        for name, value in (headers or {}).items():
            request.add_unredirected_header(name, value)
        try:
            return self.opener.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            words = {401: "; a token or key is required", 403: "; check token or keys", 404: ""}.get(error.code)
            if words is None and error.code != 416:
                raise OSError(f"{url}: status {error.code}") from error  # another attempt may succeed
            raise Denied(f"{url}: status {error.code}{words or ''}") from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise Failed(f"{url}: {error.reason}; is the certificate authority in storage_ca_file?") from error
            raise OSError(f"{url}: {error.reason}") from error

    def read(self, url, headers=None):
        def once():
            with self.open(url, headers) as reply:
                text = reply.read(MOST + 1)
            if len(text) > MOST:
                raise Failed(f"{url}: the list of files has more than {MOST >> 20} MiB")
            return text

        return retried(once)


def retried(work):
    """Call ``work`` until it raises no OSError."""
    for number in range(TRIES):
        try:
            return work()
        except OSError as error:
            if number == TRIES - 1:
                raise Failed(f"{error} ({TRIES} attempts)") from error
            time.sleep(min(2.0**number, 15.0))
    raise AssertionError


class Hub:
    """A model hub with the interface of the Hugging Face Hub: hf://<model> and hf://datasets/<dataset>."""

    def __init__(self, web, address, token):
        self.web, self.address, self.headers = web, address.rstrip("/"), {}
        if token:
            self.headers = {"Authorization": f"Bearer {token}"}

    def files(self, source):
        name = source["source"][len("hf://") :]
        dataset = name.startswith("datasets/")
        kind, plain = ("datasets", name[len("datasets/") :]) if dataset else ("models", name)
        revision = urllib.parse.quote(source["revision"] or "main", safe="")
        text = self.web.read(f"{self.address}/api/{kind}/{plain}/revision/{revision}?blobs=true", self.headers)
        found = json.loads(text)
        files = []
        for one in found["siblings"]:
            sums = {"sha256": one["lfs"]["sha256"]} if one.get("lfs") else {"git": one.get("blobId")}
            url = f"{self.address}/{name}/resolve/{found['sha']}/{urllib.parse.quote(one['rfilename'])}"
            size = None if one.get("size") is None else int(one["size"])
            files.append(File(one["rfilename"], url, size, sums, lambda _url: self.headers))
        return chosen(files, source), found["sha"]


class Bucket:
    """S3: s3://<bucket>/<prefix>, with the signatures of AWS (version 4), or without keys anonymously."""

    def __init__(self, web, endpoint, region, access, secret):
        self.web, self.region, self.access, self.secret = web, region or "us-east-1", access, secret
        self.endpoint = (endpoint or f"https://s3.{self.region}.amazonaws.com").rstrip("/")

    def files(self, source):
        bucket, _slash, prefix = source["source"][len("s3://") :].partition("/")
        base, files, token = f"{self.endpoint}/{bucket}", [], ""
        for _number in range(PAGES):
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
            url = f"{base}?{urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote)}"
            page = xml.etree.ElementTree.fromstring(self.web.read(url, self.signed(url)))
            space = page.tag.partition("}")[0] + "}" if "}" in page.tag else ""
            for one in page.iter(f"{space}Contents"):
                key = one.findtext(f"{space}Key") or ""
                tag = (one.findtext(f"{space}ETag") or "").strip('"')
                path = key[len(prefix) :].lstrip("/")
                if key.endswith("/") or (key != prefix and prefix and key[len(prefix.rstrip("/"))] != "/"):
                    continue  # a folder, or a key that only begins like the prefix
                size = int(one.findtext(f"{space}Size") or 0)
                # Of an object that was sent in one part, the tag is the MD5 of its content.
                sums = {"md5": tag} if len(tag) == 32 else {}
                files.append(File(path, f"{base}/{urllib.parse.quote(key)}", size, sums, self.signed))
            token = page.findtext(f"{space}NextContinuationToken") or ""
            if not token:
                return chosen(files, source), ""
        raise Failed(f"{source['source']}: the list of its files has more than {PAGES} pages")

    def signed(self, url):
        if not self.access:
            return {}
        parts = urllib.parse.urlsplit(url)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        headers = {"host": parts.netloc, "x-amz-content-sha256": empty, "x-amz-date": now}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"GET\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{empty}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for part in (now[:8], self.region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        credential = f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {"x-amz-content-sha256": empty, "x-amz-date": now, "Authorization": credential}


class Server:
    """https:// and http://: the files below the address that its SHA256SUMS or the source names, or one file."""

    def __init__(self, web, token):
        self.web, self.headers = web, {"Authorization": f"Bearer {token}"} if token else {}

    def files(self, source):
        base = source["source"]
        sums = self.sums_of(base)
        named = sums or source["files"]
        paths = {one: f"{base.rstrip('/')}/{urllib.parse.quote(one)}" for one in named} or {"": base}

        def one(path, url):
            def size_of():
                with self.web.open(url, self.headers) as reply:  # not every server answers HEAD
                    return reply.headers.get("Content-Length")

            size = retried(size_of)
            return File(path, url, int(size) if size else None, {"sha256": sums.get(path)}, lambda _url: self.headers)

        if sums:
            selected = {each.path for each in chosen([File(path, "") for path in paths], source)}
            paths = {path: url for path, url in paths.items() if path in selected}
        return [one(path, url) for path, url in paths.items()], ""

    def sums_of(self, base):
        """Return the checksums by path in the SHA256SUMS of a folder; nothing if it has no such file."""

        def once():
            with self.web.open(f"{base.rstrip('/')}/SHA256SUMS", self.headers) as reply:
                return reply.read(CHUNK)

        try:
            text = retried(once).decode(errors="replace")
        except Denied:
            return {}
        lines = [re.fullmatch(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)", line) for line in text.splitlines()]
        # Some servers answer with a page whatever the address is.
        return {line[2]: line[1].lower() for line in lines} if all(lines) else {}


def chosen(files, source):
    """Return the files that the patterns of a source select."""
    patterns = source["files"]
    kept = [one for one in files if not patterns or any(fnmatch.fnmatch(one.path, each) for each in patterns)]
    if not kept:
        what = f"{len(files)} files, none of which matches {', '.join(patterns)}" if files else "no files"
        raise Failed(f"{source['source']} has {what}")
    return kept


class Tally:
    """Bytes so far, printed now and then."""

    def __init__(self, total):
        self.total, self.done, self.lock, self.last = total, 0, threading.Lock(), 0.0

    def add(self, number):
        with self.lock:
            self.done += number
            now = time.monotonic()
            if now - self.last >= PROGRESS:
                self.last = now
                tell("progress", done=self.done, total=max(self.total, self.done))


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


def check(path, file):
    """Return the SHA-256 of a file. Raises OSError if its size or a checksum of the server differs."""
    size = os.path.getsize(path)
    sums = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    sums["git"] = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # as git hashes the content of a file
    used = ["sha256", *(name for name, value in file.sums.items() if value and name != "sha256")]
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            for name in used:
                sums[name].update(chunk)
    for name, value in file.sums.items():
        if value and sums[name].hexdigest() != value:
            raise OSError(f"{file.url}: its {name} checksum is {sums[name].hexdigest()}, its server says {value}")
    if file.size is not None and size != file.size:
        raise OSError(f"{file.url}: {size} bytes instead of {file.size}")
    return sums["sha256"].hexdigest()


def fetch(web, file, target, tally):
    """Download one file; return its SHA-256."""
    part = f"{target}.part"
    os.makedirs(os.path.dirname(target), exist_ok=True)

    def once():
        there = os.path.getsize(part) if os.path.exists(part) else 0
        if file.size is None or there != file.size or not there:
            first = there if file.size is not None and there < file.size else 0
            with web.open(file.url, file.signed(file.url), first) as reply:
                added = reply.status == 206
                if added:
                    tally.add(there)
                with open(part, "ab" if added else "wb") as stream:
                    while chunk := reply.read(CHUNK):
                        if file.size is not None and stream.tell() + len(chunk) > file.size:
                            os.unlink(part)
                            tally.done -= stream.tell()
                            raise OSError(f"{file.url}: more than the {file.size} bytes that its server announced")
                        stream.write(chunk)
                        tally.add(len(chunk))
        if file.size is not None and os.path.getsize(part) < file.size:
            raise OSError(f"{file.url}: {os.path.getsize(part)} bytes arrived of {file.size}")
        try:
            return check(part, file)
        except OSError:
            tally.done -= os.path.getsize(part)
            os.unlink(part)
            raise

    digest = retried(once)
    os.replace(part, target)
    return digest


@contextlib.contextmanager
def locked(folder, name):
    """Let no other pod write the same source, where the volume has locks."""
    os.makedirs(os.path.join(folder, ".seatrial"), exist_ok=True)
    with open(record_path(folder, name) + ".lock", "w") as stream:
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def digest_of(sums):
    """Return the checksum of a source: that of its only file, or of the list that sha256sum would print."""
    if list(sums) == [""]:
        return sums[""]
    return hashlib.sha256("".join(f"{value}  {path}\n" for path, value in sorted(sums.items())).encode()).hexdigest()


def record_path(folder, name):
    return os.path.join(folder, ".seatrial", urllib.parse.quote(name, safe="") + ".json")


def recorded(folder, source):
    """Return the record of a source whose files are all there unchanged, else None."""
    try:
        with open(record_path(folder, source["name"])) as stream:
            record = json.load(stream)
        if record["key"] != source["key"]:
            return None
        for path, value in record["sums"].items():
            check(os.path.join(folder, source["name"], path).rstrip("/"), File(path, "", None, {"sha256": value}))
    except (OSError, ValueError, KeyError):
        return None
    return record


def under(folder, name, path):
    """Return the path of a file of source ``name``. Raises Failed for one that would be outside of its folder."""
    top, target = (os.path.normpath(os.path.join(folder, name, below)) for below in ("", path))
    if not top.startswith(folder.rstrip("/") + "/") or not f"{target}/".startswith(f"{top}/"):
        raise Failed(f"'{name}/{path}' would be outside of the folder of its source")
    return target


def download(specification, credentials):
    """Download every source."""

    def secret(name):
        try:
            with open(os.path.join(credentials, name)) as stream:
                return stream.read().strip()
        except FileNotFoundError:
            return ""

    folder, web = specification["folder"], Web(specification["authority"])
    servers = {
        "hf": Hub(web, specification["hub"], secret("hub_token")),
        "s3": Bucket(web, specification["s3"], specification["region"], secret("access_key"), secret("secret_key")),
        "https": Server(web, secret("https_token")),
        # No token in plain text.
        "http": Server(web, ""),
    }
    left = []
    for source in specification["sources"]:
        record = recorded(folder, source)
        if record is not None:
            tell("source", seconds=0.0, downloaded=0, **{**record, "sums": {}})
            continue
        try:
            files, revision = servers[source["source"].partition("://")[0]].files(source)
        except FORM_ERRORS as error:
            raise Failed(f"{source['source']}: its server answers with no list of files: {error!r:.200}") from error
        left.append((source, files, revision))
    total = sum(one.size or 0 for _source, files, _revision in left for one in files)
    free = shutil.disk_usage(folder).free + sum(sizes_of_parts(folder, one[0], one[1]) for one in left)
    if total > free:
        need, have = (f"{one / 2**30:.2f} GiB" for one in (total, free))
        raise Failed(f"{need} to download, {have} are free on the volume: raise storage_size")
    tally = Tally(total)
    # One thread for each source, which waits; the files of all of them are downloaded by ``pool``.
    workers = concurrent.futures.ThreadPoolExecutor
    with workers(specification["parallel"]) as pool, workers(len(left) or 1) as waiting:
        jobs = [waiting.submit(one_source, web, folder, *one, tally, pool) for one in left]
    errors = [str(job.exception()) for job in jobs if job.exception()]
    if errors:
        raise Failed("; ".join(errors))


def sizes_of_parts(folder, source, files):
    paths = (os.path.join(folder, source["name"], one.path).rstrip("/") + ".part" for one in files)
    return sum(os.path.getsize(one) for one in paths if os.path.exists(one))


def one_source(web, folder, source, files, revision, tally, pool):
    """Download one source and record it."""
    began = time.monotonic()
    with locked(folder, source["name"]):
        targets = {one.path: under(folder, source["name"], one.path) for one in files}
        jobs = {one.path: pool.submit(fetch, web, one, targets[one.path], tally) for one in files}
        sums = {path: job.result() for path, job in jobs.items()}
        digest = digest_of(sums)
        if source["sha256"] and digest != source["sha256"]:
            for path in targets.values():
                os.unlink(path)
            raise Failed(f"{source['source']} has the checksum {digest}, and {source['sha256']} was asked for")
        size = sum(os.path.getsize(one) for one in targets.values())
        record = {
            "key": source["key"],
            "name": source["name"],
            "source": source["source"],
            "revision": revision,
            "sha256": digest,
            "files": len(files),
            "bytes": size,
            "sums": sums,
        }
        half = record_path(folder, source["name"]) + ".part"
        with open(half, "w") as stream:
            json.dump(record, stream)
        os.replace(half, record_path(folder, source["name"]))
    seconds = round(time.monotonic() - began, 3)
    tell("source", seconds=seconds, downloaded=size, **{**record, "sums": {}})


if __name__ == "__main__":
    try:
        with open(sys.argv[1]) as given:
            download(json.load(given), sys.argv[2])
    except (Failed, OSError) as error:
        tell("failed", message=str(error))
        sys.exit(1)
