# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server as the programs in pods of this role use it: requests, watches, labels of objects, lengths of texts.

Standard library only, Python 3.9 or later.
"""

import http.client
import json
import os
import ssl
import sys
import time
from urllib.parse import urlencode

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Seconds: timeout of a request, duration of a watch, pause after an error, how long to retry.
TIMEOUT, WATCH, PAUSE, PATIENCE = 30, 300, 0.2, 300


def labels_of_point():
    """Return the labels by which objects of this point are found and deleted."""
    return {f"perfscale.seatrial/{one}": os.environ[f"SEATRIAL_{one.upper()}"] for one in ("run", "point")}


class Refused(Exception):
    """The API server refused a request. ``status``: HTTP status."""

    def __init__(self, status, text):
        super().__init__(f"HTTP {status}: {text[:300]}")
        self.status = status


class Api:
    """The API server of the pod's cluster, with the rights of its service account."""

    def __init__(self):
        self.namespace = os.environ["SEATRIAL_NAMESPACE"]
        self._kept = None

    def connection(self, timeout=TIMEOUT):
        context = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def headers(self):
        # The kubelet renews the token.
        with open(f"{ACCOUNT}/token", encoding="ascii") as stream:
            return {"Authorization": f"Bearer {stream.read().strip()}", "Accept": "application/json"}

    def request(self, method, path, body=None, kind="application/json", query=None):
        """Return the decoded reply. Raises Refused, OSError, http.client.HTTPException."""
        if self._kept is None:
            self._kept = self.connection()
        try:
            data = None if body is None else json.dumps(body)
            target = f"{path}?{urlencode(query)}" if query else path
            self._kept.request(method, target, data, {**self.headers(), "Content-Type": kind})
            reply = self._kept.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self._kept.close()
            self._kept = None
            raise
        if reply.status >= 300:
            raise Refused(reply.status, text.decode(errors="replace"))
        return json.loads(text)

    def patiently(self, method, path, body=None, kind="application/json", fine=()):
        """As request(), repeated after errors that may pass; statuses in ``fine`` are no error and return None."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.request(method, path, body, kind)
            except Refused as error:
                if error.status in fine:
                    return None
                # A 403 may pass: an API server that has just started has not read its roles.
                if error.status < 500 and error.status not in (403, 408, 425, 429) or time.monotonic() > end:
                    raise
            except (OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise
            time.sleep(PAUSE)

    def watch(self, path, name, see, watching=lambda: None, deadline=float("inf")):
        """Call ``see(object)`` with the object and its changes until it returns a true value, and return that.

        Without a name, with every object of the path. The object is None while there is none. ``watching`` is called
        when the watch is established. Returns None after ``deadline``, of time.monotonic().
        """
        while time.monotonic() < deadline:
            try:
                found = self._watch_once(path, name, see, watching, min(WATCH, deadline - time.monotonic()))
                if found:
                    return found
            except (OSError, ValueError, http.client.HTTPException, Refused) as error:
                print(f"seatrial: {path}: {error}; trying again", file=sys.stderr, flush=True)
                time.sleep(PAUSE)
        return None

    def _watch_once(self, path, name, see, watching, seconds):
        only = {"fieldSelector": f"metadata.name={name}"} if name else {}
        listed = self.request("GET", path, query=only)
        # The items of a list have no kind.
        kind = listed["kind"][: -len("List")]
        for one in listed["items"] or [None]:
            found = see(one and {"kind": kind, **one})
            if found:
                return found
        more = {
            "watch": "1",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "timeoutSeconds": max(1, int(seconds)),
        }
        connection = self.connection(WATCH + TIMEOUT)
        try:
            connection.request("GET", f"{path}?{urlencode({**only, **more})}", headers=self.headers())
            reply = connection.getresponse()
            if reply.status != 200:
                raise Refused(reply.status, reply.read().decode(errors="replace"))
            watching()
            for line in iter(reply.readline, b""):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None  # the list is read again
                found = see(None if event["type"] == "DELETED" else event["object"])
                if found:
                    return found
            return None
        finally:
            connection.close()


def shortened(text, size):
    """Return the beginning of a text that takes at most ``size`` bytes as JSON, up to 12 of which are one character."""
    text = text[:size]
    while len(json.dumps(text)) > size:
        text = text[:-1]
    return text
