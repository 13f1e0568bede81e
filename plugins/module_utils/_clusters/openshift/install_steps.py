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
from .installer_commands import LOG, Installer

Given = Mapping[str, Any]
#: Steps that do not run the installer.
WITHOUT_PROGRAM = ("absent",)


def do(state: str, params: Given, say: Callable[[str], None], step: Path | None) -> dict[str, Any]:
    """Run one step; return the module's result. The log is copied into ``step`` also if the step fails."""
    path = "openshift-install" if state in WITHOUT_PROGRAM else _program(params, say)
    environment = {name: str(value) for name, value in params["environment"].items() if value not in (None, "")}
    installer = Installer(path, params["install_dir"], environment, say)
    try:
        return STEPS[state](installer, params)
    finally:
        source = installer.assets / LOG
        if step and source.exists():
            text = source.read_text(encoding="utf-8", errors="replace")
            files.replace_text(step / "installer.log", installer_log.masked(text))


def _program(params: Given, say: Callable[[str], None]) -> str:
    where = (params["mirror"], params["version"], params["checksum"], Path(params["cache_dir"]).expanduser())
    return cli_tools.find("openshift-install", params["program"], *where, say)


def _prepared(installer: Installer, params: Given) -> dict[str, Any]:
    metadata = installer.prepare(params["spot"], params["timeout"])
    cluster_metadata_store.put(params["store"], params["name"], {**params["entry"], "metadata": metadata})
    return {"changed": True, "metadata": metadata, "version": installer.version()}


def _begun(installer: Installer, params: Given) -> dict[str, Any]:
    return {"changed": installer.create()}


def _created(installer: Installer, params: Given) -> dict[str, Any]:
    installer.created(params["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _image(installer: Installer, params: Given) -> dict[str, Any]:
    cluster_metadata_store.put(params["store"], params["name"], params["entry"])
    image = installer.image(params["timeout"])
    more = {"kubeconfig": installer.kubeconfig(), "version": installer.version()}
    return {"changed": True, "image": str(image), **more}


def _bootstrapped(installer: Installer, params: Given) -> dict[str, Any]:
    installer.wait_for("bootstrap-complete", params["timeout"])
    return {"changed": False}


def _installed(installer: Installer, params: Given) -> dict[str, Any]:
    installer.wait_for("install-complete", params["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _gathered(installer: Installer, params: Given) -> dict[str, Any]:
    hosts, key = params["addresses"], params["ssh_private_key"]
    return {"changed": True, "files": installer.gather(Path(params["bundle"]), hosts, key, params["timeout"])}


def _destroyed(installer: Installer, params: Given) -> dict[str, Any]:
    done = installer.destroy(params["metadata"], params["timeout"])
    forgotten = installer.forget()
    cluster_metadata_store.drop(params["store"], params["name"])
    return {"changed": done or forgotten}


def _absent(installer: Installer, params: Given) -> dict[str, Any]:
    forgotten = installer.forget()
    cluster_metadata_store.drop(params["store"], params["name"])
    return {"changed": forgotten}


STEPS: dict[str, Callable[[Installer, Given], dict[str, Any]]] = {
    "prepared": _prepared,
    "begun": _begun,
    "created": _created,
    "image": _image,
    "bootstrapped": _bootstrapped,
    "installed": _installed,
    "gathered": _gathered,
    "destroyed": _destroyed,
    "absent": _absent,
}
