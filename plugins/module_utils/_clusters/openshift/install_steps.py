# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of module openshift_install."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

from . import cli_tools, cluster_metadata_store, installer_log
from .installer_commands import LOG, OpenshiftInstaller

Given = Mapping[str, Any]
#: Steps that do not run the installer.
WITHOUT_PROGRAM = ("absent",)


def run_install_step(state: str, params: Given, say: Callable[[str], None], step: Path | None) -> dict[str, Any]:
    """Run one step; return the module's result. The log is copied into ``step`` also if the step fails."""
    path = "openshift-install" if state in WITHOUT_PROGRAM else _find_installer_program(params, say)
    environment = {name: str(value) for name, value in params["environment"].items() if value not in (None, "")}
    installer = OpenshiftInstaller(path, params["install_dir"], environment, say)
    try:
        return STEPS[state](installer, params)
    finally:
        source = installer.assets / LOG
        if step and source.exists():
            text = source.read_text(encoding="utf-8", errors="replace")
            files.replace_text(step / "installer.log", installer_log.mask_passwords(text))


def _find_installer_program(params: Given, say: Callable[[str], None]) -> str:
    where = (params["mirror"], params["version"], params["checksum"], Path(params["cache_dir"]).expanduser())
    return cli_tools.find_or_download_program("openshift-install", params["program"], *where, say)


def _prepare_installation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    metadata = installer.prepare(params["spot"], params["timeout"])
    cluster_metadata_store.write_cluster_entry(
        params["store"], params["name"], {**params["entry"], "metadata": metadata}
    )
    return {"changed": True, "metadata": metadata, "version": installer.version()}


def _start_cluster_creation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    return {"changed": installer.create()}


def _wait_for_cluster_creation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    installer.created(params["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _create_boot_image(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    cluster_metadata_store.write_cluster_entry(params["store"], params["name"], params["entry"])
    image = installer.image(params["timeout"])
    more = {"kubeconfig": installer.kubeconfig(), "version": installer.version()}
    return {"changed": True, "image": str(image), **more}


def _wait_for_bootstrap(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    installer.wait_for("bootstrap-complete", params["timeout"])
    return {"changed": False}


def _wait_for_installation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    installer.wait_for("install-complete", params["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _gather_debug_files(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    hosts, key = params["addresses"], params["ssh_private_key"]
    return {"changed": True, "files": installer.gather(Path(params["bundle"]), hosts, key, params["timeout"])}


def _destroy_cluster(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    done = installer.destroy(params["metadata"], params["timeout"])
    forgotten = installer.forget()
    cluster_metadata_store.delete_cluster_entry(params["store"], params["name"])
    return {"changed": done or forgotten}


def _absent(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    forgotten = installer.forget()
    cluster_metadata_store.delete_cluster_entry(params["store"], params["name"])
    return {"changed": forgotten}


STEPS: dict[str, Callable[[OpenshiftInstaller, Given], dict[str, Any]]] = {
    "prepared": _prepare_installation,
    "begun": _start_cluster_creation,
    "created": _wait_for_cluster_creation,
    "image": _create_boot_image,
    "bootstrapped": _wait_for_bootstrap,
    "installed": _wait_for_installation,
    "gathered": _gather_debug_files,
    "destroyed": _destroy_cluster,
    "absent": _absent,
}
