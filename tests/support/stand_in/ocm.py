"""A stand-in for ocm, the command line of OpenShift Cluster Manager, and for the service behind it: a file.

SEATRIAL_STAND_IN is as for openshift_install.py; ``token`` is the offline token that it takes, ``polls`` how often a
cluster is seen before its state goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

PATH = "/api/clusters_mgmt/v1/clusters"


def settings() -> dict[str, Any]:
    """The settings of the test."""
    return json.loads(Path(os.environ["SEATRIAL_STAND_IN"]).read_text(encoding="utf-8"))


def fail(message: str) -> None:
    """End as the real ones do."""
    sys.stderr.write(f"E: {message} (a stand-in says so)\n")
    sys.exit(1)


def check_login() -> None:
    """Refuse whoever does not have the token, as the service does."""
    path = os.environ.get("OCM_CONFIG")
    if not path or json.loads(Path(path).read_text(encoding="utf-8")).get("refresh_token") != settings().get("token"):
        fail("Not logged in, run the 'login' command")


class Service:
    """The clusters that the service knows, by id; under a lock while it is open."""

    def __enter__(self) -> dict[str, Any]:
        self.path = Path(settings()["cloud"]).with_name("managed.json")
        self.lock = open(f"{self.path}.lock", "w", encoding="utf-8")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.known: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        return self.known

    def __exit__(self, *_error: object) -> None:
        self.path.write_text(json.dumps(self.known), encoding="utf-8")
        self.lock.close()


def make(known: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    """Take a request."""
    if any(one["name"] == cluster["name"] for one in known.values()):
        fail(f"Cluster '{cluster['name']}' already exists")
    cluster |= {"id": f"id-{len(known)}", "state": "pending", "seen": 0}
    known[cluster["id"]] = cluster
    return cluster


def go_on(known: dict[str, Any]) -> None:
    """Let states change as they are looked at."""
    following = {"pending": "installing", "installing": "error" if settings().get("broken") else "ready"}
    for cluster in list(known.values()):
        cluster["seen"] += 1
        if cluster["seen"] % settings().get("polls", 2):
            continue
        if cluster["state"] == "uninstalling":
            del known[cluster["id"]]
        cluster["state"] = following.get(cluster["state"], cluster["state"])
        if cluster["state"] == "error":
            cluster["status"] = {"provision_error_message": settings()["broken"]}


def main() -> None:
    """Read the command line."""
    check_login()
    words = sys.argv[1:]
    if len(words) < 2 or not words[1].startswith(PATH):
        fail(f"unknown command {words}")
    verb, rest = words[0], words[1].removeprefix(PATH).strip("/").split("/")
    with Service() as known:
        if verb == "post" and rest == [""] and words[2] == "--body":
            body = json.loads(Path(words[3]).read_text(encoding="utf-8"))
            allowed = {"name", "product", "cloud_provider", "region", "nodes", "properties", "version"}
            if set(body) - allowed - {"expiration_timestamp"} or not re.fullmatch("[a-z][a-z0-9-]*", body["name"]):
                fail(f"request is not valid: {sorted(body)}")
            print(json.dumps(make(known, body)))
        elif verb == "get" and rest == [""]:
            go_on(known)
            asked = re.fullmatch("search=name = '(.*)'", words[3])
            if words[2] != "--parameter" or not asked:
                fail(f"unknown parameter {words[2:]}")
            print(json.dumps({"items": [one for one in known.values() if one["name"] == asked[1]]}))
        elif verb == "get" and rest[1:] == ["credentials"]:
            print(
                json.dumps({"kubeconfig": Path(settings()["kubeconfig"]).read_text(), "admin": {"user": "kubeadmin"}})
            )
        elif verb == "get" and rest[1:] == ["logs", "install"]:
            print(json.dumps({"content": "a stand-in's log\n"}))
        elif verb == "delete" and rest[0] in known:
            known[rest[0]]["state"] = "uninstalling"
        else:
            fail(f"404 {words}")


if __name__ == "__main__":
    main()
