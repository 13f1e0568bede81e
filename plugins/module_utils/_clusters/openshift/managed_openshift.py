# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of OpenShift Cluster Manager through its command-line tools: ROSA with rosa, OSD with ocm.

A cluster is identified by its name and by the property seatrial_run, which records its owner from the request on.
``ocm get`` and ``ocm delete`` read state and credentials and delete an OSD cluster; their paths are those of the public
API clusters_mgmt/v1.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig_document

CLUSTERS = "/api/clusters_mgmt/v1/clusters"
PROPERTY = "seatrial_run"
PAUSE = 30.0
#: Endpoint that exchanges an offline token for a short-lived one, as in the configuration of the ocm client.
SSO = "https://sso.redhat.com/auth/realms/redhat-external/protocol/openid-connect/token"
API = "https://api.openshift.com"


def require_settings(settings: Mapping[str, Any]) -> None:
    """Raise InputError for a setting that is missing."""
    if not settings.get("cluster_managed_region"):
        raise InputError("cluster_managed_region is required for provider managed and is not set")
    if settings.get("cluster_managed_hosted") and not settings.get("cluster_managed_subnets"):
        raise InputError(
            "cluster_managed_subnets is required for a hosted control plane: rosa does not create its subnets"
        )


def rosa_arguments(name: str, run_id: str, settings: Mapping[str, Any], tags: Mapping[str, str]) -> list[str]:
    """Return the arguments of ``rosa`` that create a cluster."""
    words = ["create", "cluster", "--cluster-name", name, "--sts", "--mode", "auto", "--yes"]
    words += ["--region", str(settings["cluster_managed_region"]), "--properties", f"{PROPERTY}:{run_id}"]
    words += ["--replicas", str(settings.get("cluster_managed_compute_count", 2))]
    if settings.get("cluster_managed_compute_type"):
        words += ["--compute-machine-type", str(settings["cluster_managed_compute_type"])]
    if settings.get("cluster_version"):
        words += ["--version", str(settings["cluster_version"])]
    if settings.get("cluster_managed_hosted"):
        words += [
            "--hosted-cp",
            "--subnet-ids",
            ",".join(str(subnet) for subnet in settings["cluster_managed_subnets"]),
        ]
    if tags:
        words += ["--tags", ",".join(f"{key} {value}" for key, value in tags.items())]
    return [*words, *(str(word) for word in settings.get("cluster_managed_arguments") or ())]


def osd_cluster_request(
    name: str, run_id: str, settings: Mapping[str, Any], tags: Mapping[str, str], expires: str
) -> dict[str, Any]:
    """Return the request for an OSD cluster. Tags become properties."""
    body: dict[str, Any] = {
        "name": name,
        "product": {"id": "osd"},
        "cloud_provider": {"id": str(settings.get("cluster_managed_cloud", "aws"))},
        "region": {"id": str(settings["cluster_managed_region"])},
        "nodes": {"compute": int(settings.get("cluster_managed_compute_count", 2))},
        "properties": {**tags, PROPERTY: run_id},
    }
    if settings.get("cluster_managed_compute_type"):
        body["nodes"]["compute_machine_type"] = {"id": str(settings["cluster_managed_compute_type"])}
    if settings.get("cluster_version"):
        body["version"] = {"id": f"openshift-v{settings['cluster_version']}"}
    if expires:
        body["expiration_timestamp"] = expires
    return body


class ManagedClusterTools:
    """The tools for one cluster. flavour: rosa or osd. folder: for credentials, readable by its owner only."""

    def __init__(
        self,
        flavour: str,
        name: str,
        run_id: str,
        folder: Path,
        programs: Mapping[str, str],
        token: str = "",
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda text: None,
        pause: float = PAUSE,
    ) -> None:
        self.flavour = flavour
        self.name = name
        self.run_id = run_id
        self.folder = folder
        self.programs = programs
        self.token = token
        self.environment = {**os.environ, **(environment or {})}
        self.say = say
        self.pause = pause

    def log_in(self) -> None:
        """Use the given token instead of the tools' login. It appears on no command line."""
        if not self.token:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        path = self.folder / "ocm.json"
        known = {"client_id": "cloud-services", "scopes": ["openid"], "token_url": SSO, "url": API}
        files.replace_text(path, json.dumps({**known, "refresh_token": self.token}), 0o600)
        self.environment["OCM_CONFIG"] = str(path)

    def find(self) -> dict[str, Any] | None:
        """Return the cluster of this name, if any. Raises OwnershipError if it does not belong to this run."""
        clusters = self._ocm("get", CLUSTERS, "--parameter", f"search=name = '{self.name}'").get("items") or []
        if not clusters:
            return None
        owner = (clusters[0].get("properties") or {}).get(PROPERTY)
        if owner != self.run_id:
            raise OwnershipError(
                f"cluster {self.name} exists and belongs to {'run ' + owner if owner else 'no run'}: choose another "
                "cluster_name"
            )
        return dict(clusters[0])

    def create(self, settings: Mapping[str, Any], tags: Mapping[str, str], expires: str) -> bool:
        """Request the cluster unless it exists; return whether it was requested."""
        require_settings(settings)
        if self.find():
            return False
        if self.flavour == "rosa":
            self._call("rosa", rosa_arguments(self.name, self.run_id, settings, tags), 1800)
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        body = self.folder / "request.json"
        files.write_json(body, osd_cluster_request(self.name, self.run_id, settings, tags, expires))
        self._ocm("post", CLUSTERS, "--body", str(body))
        return True

    def await_ready(self, timeout: float) -> dict[str, Any]:
        """Wait until the cluster is ready. Raises ProcessError with the first cause, WaitTimeout."""
        deadline = time.monotonic() + timeout
        reported = ""
        while True:
            cluster = self.find()
            if cluster is None:
                raise ProcessError(f"cluster {self.name} was deleted while it was being created")
            state = str(cluster.get("state", "unknown"))
            if state != reported:
                reported = state
                self.say(f"{self.name}: {state}")
            if state == "ready":
                return cluster
            if state in ("error", "uninstalling"):
                status = cluster.get("status") or {}
                raise ProcessError(
                    f"cluster {self.name}: {state}: {status.get('provision_error_message') or 'no reason given'}"
                )
            if time.monotonic() > deadline:
                raise WaitTimeout(f"cluster {self.name} is still {state} after {timeout:g} s")
            time.sleep(self.pause)

    def kubeconfig(self, cluster: Mapping[str, Any]) -> str:
        """Write the kubeconfig of the cluster's administrator; return its path. Raises AccessError."""
        content = self._ocm("get", f"{CLUSTERS}/{cluster['id']}/credentials").get("kubeconfig")
        if not content:
            raise AccessError(f"cluster {self.name}: its credentials contain no kubeconfig")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        path = self.folder / "kubeconfig"
        source = f"cluster {self.name}: the kubeconfig of the server"
        kubeconfig_document.write_received_kubeconfig(path, str(content), source)
        return str(path)

    def logs(self, bundle: Path) -> list[str]:
        """Write cluster.yml and the installation log into a folder; return the names."""
        cluster = self.find()
        bundle.mkdir(parents=True, exist_ok=True)
        if cluster:
            files.write_yaml(bundle / "cluster.yml", cluster)
            try:
                log = self._ocm("get", f"{CLUSTERS}/{cluster['id']}/logs/install")
                files.replace_text(bundle / "install.log", str(log.get("content") or ""))
            except (ProcessError, AccessError) as error:
                files.replace_text(bundle / "not_gathered.txt", f"{error}\n")
        return sorted(path.name for path in bundle.iterdir())

    def delete(self, timeout: float) -> bool:
        """Delete the cluster, its roles and its OIDC provider; return whether there was one.

        timeout: seconds until the cluster must be deleted. Raises WaitTimeout, ProcessError.
        """
        cluster = self.find()
        # By the cluster's id its roles and provider are found after its deletion, also by a call after a failed one.
        note = self.folder / "deleting.json"
        known = str(cluster["id"]) if cluster is not None else files.read_json(note)["id"] if note.exists() else ""
        if cluster is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.write_json(note, {"id": known})
            if cluster.get("state") != "uninstalling":
                if self.flavour == "rosa":
                    self._call("rosa", ["delete", "cluster", "--cluster", str(cluster["id"]), "--yes"], 600)
                else:
                    self._ocm("delete", f"{CLUSTERS}/{cluster['id']}")
            deadline = time.monotonic() + timeout
            while self.find() is not None:
                if time.monotonic() > deadline:
                    raise WaitTimeout(f"cluster {self.name} is not deleted after {timeout:g} s")
                time.sleep(self.pause)
        if known and self.flavour == "rosa":
            for what in ("operator-roles", "oidc-provider"):
                self._call("rosa", ["delete", what, "--cluster", known, "--mode", "auto", "--yes"], 600)
        shutil.rmtree(self.folder, ignore_errors=True)
        return bool(known)

    def _ocm(self, *words: str) -> dict[str, Any]:
        output = self._call("ocm", list(words), 120)
        try:
            return dict(parse_json(output)) if output.strip() else {}
        except ValueError as error:
            raise ProcessError(f"ocm {' '.join(words[:2])} printed no JSON: {output[:200]}") from error

    def _call(self, program: str, words: list[str], timeout: float) -> str:
        path = self.programs.get(program) or shutil.which(program)
        if not path:
            raise InputError(f"{program} is not in PATH: set cluster_managed_{program}")
        done = processes.run_to_completion([path, *words], timeout, environment=self.environment)
        if done.code:
            raise ProcessError(f"{program} {' '.join(words[:2])}: {done.last_line}")
        return done.output
