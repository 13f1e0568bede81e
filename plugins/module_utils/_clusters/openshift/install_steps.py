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


def do(state: str, given: Given, say: Callable[[str], None], step: Path | None) -> dict[str, Any]:
    """Run one step; return the module's result. The log is copied into ``step`` also if the step fails."""
    path = "openshift-install" if state in WITHOUT_PROGRAM else _program(given, say)
    environment = {name: str(value) for name, value in given["environment"].items() if value not in (None, "")}
    installer = Installer(path, given["install_dir"], environment, say)
    try:
        return STEPS[state](installer, given)
    finally:
        source = installer.assets / LOG
        if step and source.exists():
            text = source.read_text(encoding="utf-8", errors="replace")
            files.replace_text(step / "installer.log", installer_log.masked(text))


def _program(given: Given, say: Callable[[str], None]) -> str:
    where = (given["mirror"], given["version"], given["checksum"], Path(given["cache_dir"]).expanduser())
    return cli_tools.find("openshift-install", given["program"], *where, say)


def _prepared(installer: Installer, given: Given) -> dict[str, Any]:
    metadata = installer.prepare(given["spot"], given["timeout"])
    cluster_metadata_store.put(given["store"], given["name"], {**given["entry"], "metadata": metadata})
    return {"changed": True, "metadata": metadata, "version": installer.version()}


def _begun(installer: Installer, given: Given) -> dict[str, Any]:
    return {"changed": installer.create()}


def _created(installer: Installer, given: Given) -> dict[str, Any]:
    installer.created(given["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _image(installer: Installer, given: Given) -> dict[str, Any]:
    cluster_metadata_store.put(given["store"], given["name"], given["entry"])
    image = installer.image(given["timeout"])
    more = {"kubeconfig": installer.kubeconfig(), "version": installer.version()}
    return {"changed": True, "image": str(image), **more}


def _bootstrapped(installer: Installer, given: Given) -> dict[str, Any]:
    installer.wait_for("bootstrap-complete", given["timeout"])
    return {"changed": False}


def _installed(installer: Installer, given: Given) -> dict[str, Any]:
    installer.wait_for("install-complete", given["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _gathered(installer: Installer, given: Given) -> dict[str, Any]:
    hosts, key = given["addresses"], given["ssh_private_key"]
    return {"changed": True, "files": installer.gather(Path(given["bundle"]), hosts, key, given["timeout"])}


def _destroyed(installer: Installer, given: Given) -> dict[str, Any]:
    done = installer.destroy(given["metadata"], given["timeout"])
    forgotten = installer.forget()
    cluster_metadata_store.drop(given["store"], given["name"])
    return {"changed": done or forgotten}


def _absent(installer: Installer, given: Given) -> dict[str, Any]:
    forgotten = installer.forget()
    cluster_metadata_store.drop(given["store"], given["name"])
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
