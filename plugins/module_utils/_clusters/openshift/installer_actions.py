# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of module openshift_install: the installer itself, the configuration, and what is done with both."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_archives
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import http_client

from .. import providers
from . import agent_config, cluster_metadata_store, install_config, installer_commands, installer_folder_owner
from .installer_commands import LOG, OpenshiftInstaller

#: Where Red Hat publishes clients, and what the archive of each program is called there.
ARCHIVES = {"openshift-install": "openshift-install-linux.tar.gz", "oc": "openshift-client-linux.tar.gz"}


def find_or_download_program(
    name: str, program: str, mirror: str, version: str, checksum: str, cache: Path, say: Callable[[str], None]
) -> str:
    """Return the path of a program. Raises InputError if there is none, ProcessError if the download fails.

    program: its path. mirror: URL of a folder with one folder per version; it requires version and checksum (SHA-256 of
    the archive), so that exactly the tested program runs.
    """
    if program:
        path = Path(program).expanduser().absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{name}: there is no program {path}")
        return str(path)
    if mirror:
        return _download_program(name, mirror, version, checksum, cache, say)
    location = shutil.which(name)
    if not location:
        raise InputError(
            f"{name} is not in PATH: set its path, or cluster_installer_mirror, cluster_version and "
            "cluster_installer_checksum to download it"
        )
    return location


def _download_program(
    name: str, mirror: str, version: str, checksum: str, cache: Path, say: Callable[[str], None]
) -> str:
    digest = checksum.lower().removeprefix("sha256:")
    if not version or len(digest) != 64:
        raise InputError(
            f"{name} is downloaded from {mirror} only with cluster_version and with cluster_installer_checksum, the "
            "SHA-256 of its archive in the mirror's sha256sum.txt"
        )
    path = cache / f"{name}-{version}-{digest[:12]}"
    if path.exists():
        return str(path)
    if name not in ARCHIVES or platform.system() != "Linux":
        raise InputError(f"{name} can't be downloaded for {platform.system()}: set its path")
    url = f"{mirror.rstrip('/')}/{version}/{ARCHIVES[name]}"
    say(f"downloading {url}")
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        archive = Path(folder) / ARCHIVES[name]
        actual_digest = http_client.download_url_to_file(url, archive)
        if actual_digest != digest:
            raise ProcessError(f"{url} has the SHA-256 {actual_digest}, expected {digest}: nothing was kept")
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        untrusted_archives.extract_program_from_archive(archive, name, part, url)
    part.chmod(0o755)
    part.replace(path)
    return str(path)


Given = Mapping[str, Any]
#: Steps that do not run the installer.
WITHOUT_PROGRAM = ("absent",)
#: Steps that end what there is. What belongs to another run stays.
REMOVING = ("destroyed", "absent")


def render_installer_documents(params: Given) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the documents by file name, and the module's results. Raises InputError."""
    try:
        auths = parse_json(params["pull_secret"])["auths"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("cluster_pull_secret is not a pull secret: JSON with a dictionary 'auths'") from error
    if not isinstance(auths, dict):
        raise InputError("cluster_pull_secret is not a pull secret: JSON with a dictionary 'auths'")
    settings = {**params["settings"], "cluster_provider": params["provider"]}
    results: dict[str, Any] = {"machines": [], "rendezvous": ""}
    documents: dict[str, dict[str, Any]] = {}
    if not providers.PROVIDERS[params["provider"]].bare_metal:
        tags = install_config.cloud_resource_tags(settings, params["expires"], params["owner"])
        config = install_config.cloud_install_config(settings, params["name"], tags)
    else:
        machines = [
            agent_config.read_host_from_inventory(machine["name"], machine["role"], machine["vars"], settings)
            for machine in params["machines"]
        ]
        config = install_config.bare_metal_install_config(
            settings, params["name"], *agent_config.valid_master_and_worker_counts(machines)
        )
        agent = agent_config.build_agent_config(machines, settings, params["name"])
        documents["agent-config.yaml"] = agent
        addresses = agent_config.addresses_by_machine(machines, settings)
        results["rendezvous"] = agent["rendezvousIP"]
        results["machines"] = [
            {
                "name": machine.name,
                "role": machine.role,
                "ip": addresses[machine.name],
                "address": machine.bmc_address,
                "user": machine.bmc_user,
                "system": machine.bmc_system,
            }
            for machine in machines
        ]
        unreachable = [
            machine["name"] for machine in results["machines"] if not machine["address"] or not machine["user"]
        ]
        if unreachable:
            raise InputError(f"{unreachable[0]}: bmc_address or bmc_user is missing in the inventory")
    documents["install-config.yaml"] = install_config.add_secrets(config, params["pull_secret"], params["ssh_key"])
    return documents, results


def configure_installer(params: Given, step: StepDirectory, check_mode: bool) -> dict[str, Any]:
    """Write the installer's configuration, and copies without secrets to ``step``; return the module's result."""
    documents, results = render_installer_documents(params)
    installer_folder_owner.refuse_folder_of_another_run(params["install_dir"], params["run_id"])
    cluster_metadata_store.refuse_entry_of_another_run(params["store"], params["name"], params["run_id"])
    installer = OpenshiftInstaller("openshift-install", params["install_dir"], {})
    before = installer.configure(documents, check_mode)
    if not check_mode:
        installer_folder_owner.claim_folder(params["install_dir"], params["run_id"])
    after = {name: files.to_plain_types(document) for name, document in documents.items()}
    diff = {
        "before": {name: install_config.hide_secrets(document) for name, document in before.items()},
        "after": {name: install_config.hide_secrets(document) for name, document in after.items()},
    }
    for name, document in diff["after"].items():
        step.manifest(name.removesuffix(".yaml"), [document])
    step.log(f"{', '.join(documents)} for {params['name']}")
    return {"changed": before != after, **results, "diff": diff}


def run_install_step(state: str, params: Given, say: Callable[[str], None], step: Path | None) -> dict[str, Any]:
    """Run one step; return the module's result. The log is copied into ``step`` also if the step fails."""
    folder, run = params["install_dir"], params["run_id"]
    if state in REMOVING and not params["metadata"] and installer_folder_owner.is_folder_of_another_run(folder, run):
        say(f"{folder} belongs to run {installer_folder_owner.run_of_folder(folder)} and stays")
        return {"changed": False}
    installer_folder_owner.refuse_folder_of_another_run(folder, run)
    path = "openshift-install" if state in WITHOUT_PROGRAM else _find_installer_program(params, say)
    environment = {name: str(value) for name, value in params["environment"].items() if value not in (None, "")}
    installer = OpenshiftInstaller(path, params["install_dir"], environment, say)
    try:
        return STEPS[state](installer, params)
    finally:
        source = installer.assets / LOG
        if step and source.exists():
            text = source.read_text(encoding="utf-8", errors="replace")
            files.replace_text(step / "installer.log", installer_commands.mask_passwords(text))


def _find_installer_program(params: Given, say: Callable[[str], None]) -> str:
    where = (params["mirror"], params["version"], params["checksum"], Path(params["cache_dir"]).expanduser())
    return find_or_download_program("openshift-install", params["program"], *where, say)


def _prepare_installation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    metadata = installer.prepare(params["spot"], params["timeout"])
    entry = {**params["entry"], "metadata": metadata, "run": params["run_id"]}
    cluster_metadata_store.write_cluster_entry(params["store"], params["name"], entry)
    return {"changed": True, "metadata": metadata, "version": installer.version()}


def _start_cluster_creation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    return {"changed": installer.create()}


def _wait_for_cluster_creation(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    installer.created(params["timeout"])
    return {"changed": False, "kubeconfig": installer.kubeconfig()}


def _create_boot_image(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    entry = {**params["entry"], "run": params["run_id"]}
    cluster_metadata_store.write_cluster_entry(params["store"], params["name"], entry)
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
    cluster_metadata_store.delete_cluster_entry(params["store"], params["name"], params["run_id"])
    return {"changed": done or forgotten}


def _absent(installer: OpenshiftInstaller, params: Given) -> dict[str, Any]:
    forgotten = installer.forget()
    cluster_metadata_store.delete_cluster_entry(params["store"], params["name"], params["run_id"])
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
