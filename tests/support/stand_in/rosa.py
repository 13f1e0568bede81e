"""A stand-in for rosa: clusters are created and deleted in the stand-in of the service (ocm.py)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from stand_in.ocm import Service, check_login, fail, make, settings


def main() -> None:
    """Read the command line."""
    check_login()
    what, words = sys.argv[1:3], sys.argv[3:]
    parser = argparse.ArgumentParser(prog=f"rosa {' '.join(what)}", allow_abbrev=False)
    parser.add_argument("--yes", action="store_true", required=True)
    if what == ["create", "cluster"]:
        for name in ("--cluster-name", "--mode", "--region", "--properties", "--replicas"):
            parser.add_argument(name, required=True)
        for name in ("--compute-machine-type", "--version", "--tags", "--subnet-ids"):
            parser.add_argument(name)
        for name in ("--sts", "--hosted-cp"):
            parser.add_argument(name, action="store_true")
        given = parser.parse_args(words)
        key, _colon, value = given.properties.partition(":")
        tags = dict(one.split(" ", 1) for one in (given.tags or "").split(",") if one)
        with Service() as known:
            make(
                known,
                {
                    "name": given.cluster_name,
                    "region": {"id": given.region},
                    "nodes": {"compute": int(given.replicas)},
                    "properties": {key: value},
                    "tags": tags,
                    "made": ["operator-roles", "oidc-provider"],
                },
            )
        return
    parser.add_argument("--cluster", required=True)
    if what == ["delete", "cluster"]:
        given = parser.parse_args(words)
        with Service() as known:
            if given.cluster not in known:
                fail(f"There is no cluster with identifier or name '{given.cluster}'")
            known[given.cluster]["state"] = "uninstalling"
        return
    parser.add_argument("--mode", required=True, choices=["auto", "manual"])
    if what in (["delete", "operator-roles"], ["delete", "oidc-provider"]):
        given = parser.parse_args(words)
        with Service() as known:
            if given.cluster in known:
                fail(f"Cluster '{given.cluster}' is not deleted yet")
        if settings().get("stuck") == what[1]:
            fail(f"Access denied to {what[1]} of '{given.cluster}'")
        return
    fail(f"unknown command {what}")


if __name__ == "__main__":
    main()
