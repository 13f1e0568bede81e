# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the processes of an instance need: ports, certificates, kubeconfigs, files, command lines."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig as kubeconfigs

from . import component_manifests, component_versions, instance_dir, instance_processes, pki
from .cached_and_user_programs import ComponentPrograms
from .component_selection import processes_of_components
from .component_spec import CertificateSpec, ProcessSpec, RehearsalComponent, replace_placeholders
from .instance_dir import InstancePaths, hold_file_lock
from .instance_processes import HttpProbe

#: The port of the API server among the instance's ports.
API_PORT = "kube-apiserver.https"

#: A placeholder that may have no value.
_OPTIONAL = re.compile(r"@\{\?([^{}\s]*)\}")

#: Seconds that the kernel may take to close the sockets of a killed process.
LINGER = 3.0

SIMULATED_LOG = "2026-01-01T00:00:00.000000000Z stdout F simulated: no container ran in this pod\n"


@dataclass(frozen=True)
class ProcessCommand:
    """The command line of one process. ``recipe``: a digest of everything that the process reads at its start."""

    process: ProcessSpec
    program: Path
    arguments: list[str]
    environment: dict[str, str]
    recipe: str


def port_names(wanted: Iterable[ProcessSpec]) -> list[str]:
    """Return the names of all ports, ``<process>.<port>``."""
    return [f"{process.name}.{port}" for process in wanted for port in process.ports]


def load_or_choose_ports(instance: InstancePaths, wanted: list[ProcessSpec], alive: set[str]) -> dict[str, int]:
    """Return the instance's ports; choose missing ones.

    A port that another program took while its process was down is replaced. Processes that use it get another recipe
    and are restarted.
    """
    with hold_file_lock(instance.root / ".ports.lock", 60, "the choice of ports"):
        have = read_ports(instance)
        kept = {name: port for name, port in have.items() if name.split(".")[0] in alive or _comes_free(port)}
        chosen = instance_processes.choose_ports(port_names(wanted), kept, instance.others_ports())
        if chosen != have:
            files.write_json(instance.ports_file, chosen)
    return chosen


def _comes_free(port: int) -> bool:
    """Return whether a port is free, after up to LINGER seconds for a process that was just killed."""
    deadline = time.monotonic() + LINGER
    while not instance_processes.is_port_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def read_ports(instance: InstancePaths) -> dict[str, int]:
    """Return the ports chosen so far."""
    try:
        return {str(name): int(port) for name, port in files.read_json(instance.ports_file).items()}
    except DataError:
        return {}


def placeholder_values(
    instance: InstancePaths,
    components: list[RehearsalComponent],
    chosen: Mapping[str, int],
    programs: Mapping[str, Path] = MappingProxyType({}),
    images: Mapping[str, Path] = MappingProxyType({}),
    crds: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, object]:
    """Return the values of all placeholders."""
    values: dict[str, object] = {
        "data": instance.path,
        "pki": instance.pki,
        "config": instance.config,
        "played_logs": instance.played_logs,
        "group": instance_dir.control_group_name(instance.path),
        "versions": json.dumps(component_versions.components_in_other_version(components), sort_keys=True),
    }
    values.update({f"port.{name}": port for name, port in chosen.items()})
    values.update(
        {
            f"kubeconfig.{user.name}": instance.kubeconfig_of(user.name)
            for user in cluster_users_of_components(components)
        }
    )
    values.update({f"program.{name}": path for name, path in programs.items()})
    values.update({f"image.{name}": path for name, path in images.items()})
    values.update({f"crds.{component}": path for component, path in crds.items()})
    return values


def cluster_users_of_components(components: Iterable[RehearsalComponent]) -> list[CertificateSpec]:
    """Return the users of all components."""
    return [user for component in components for user in component.users]


def write_missing_certificates(instance: InstancePaths, components: list[RehearsalComponent]) -> list[str]:
    """Create the missing certificates; return their names."""
    wanted = [
        *(certificate for component in components for certificate in component.certificates),
        *cluster_users_of_components(components),
    ]
    return pki.create_missing_certificates(instance.pki, wanted)


def write_kubeconfigs(instance: InstancePaths, components: list[RehearsalComponent], port: int) -> None:
    """Write a kubeconfig for every user."""
    for user in cluster_users_of_components(components):
        _write_file_if_changed(
            instance.kubeconfig_of(user.name), render_user_kubeconfig(instance, user.name, port), 0o600
        )


def ca_certificate_base64(instance: InstancePaths) -> str:
    """Return the certificate of the instance's authority in base64, as webhook configurations need it."""
    return base64.b64encode((instance.pki / "ca.crt").read_bytes()).decode("ascii")


def render_user_kubeconfig(instance: InstancePaths, user: str, port: int) -> str:
    """Return a kubeconfig with embedded certificates, which works wherever it is copied."""

    def data(name: str) -> str:
        return base64.b64encode((instance.pki / name).read_bytes()).decode("ascii")

    name = f"rehearsal-{instance.name}"
    cluster = {
        "server": f"https://{instance_processes.LOOPBACK}:{port}",
        "certificate-authority-data": ca_certificate_base64(instance),
    }
    identity = {"client-certificate-data": data(f"{user}.crt"), "client-key-data": data(f"{user}.key")}
    import yaml

    return yaml.safe_dump(
        kubeconfigs.single_context_kubeconfig(name, cluster, identity, user_name=user), sort_keys=False
    )


def write_files_of_processes(
    instance: InstancePaths, components: list[RehearsalComponent], values: Mapping[str, object]
) -> None:
    """Render the files of all processes; the stages of all components go into the file ``stages_into``."""
    stages = [component.folder / component.stages for component in components if component.stages]
    for process in processes_of_components(components):
        for name in process.files:
            text = replace_placeholders(
                (process.folder / name).read_text(encoding="utf-8"), values, str(process.folder / name)
            )
            if name == process.stages_into:
                text += "".join(
                    component_manifests.yaml_list_to_documents(path.read_text(encoding="utf-8")) for path in stages
                )
            _write_file_if_changed(instance.config / name, text, 0o600)
    if not instance.played_logs.exists():
        files.replace_text(instance.played_logs, SIMULATED_LOG)


def _write_file_if_changed(path: Path, text: str, mode: int) -> None:
    """Write a file unless it has this content."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.replace_text(path, text, mode=mode)


def process_command_line(
    instance: InstancePaths,
    process: ProcessSpec,
    programs: Mapping[str, ComponentPrograms],
    values: Mapping[str, object],
) -> ProcessCommand:
    """Return the command of ``process``. Call after its certificates, kubeconfigs and files were written."""
    where = f"process {process.name}"
    program = programs[process.component].paths[process.binary]
    arguments = render_process_arguments(process, values)
    environment = {name: replace_placeholders(str(text), values, where) for name, text in process.environment.items()}
    state = os.stat(program)
    digest = hashlib.sha256()
    digest.update(json.dumps([str(program), state.st_size, state.st_mtime_ns, arguments, environment]).encode())
    for path in sorted(_files_named(instance, [*arguments, *environment.values()])):
        digest.update(path.read_bytes())
    return ProcessCommand(process, program, arguments, environment, digest.hexdigest()[:16])


def render_process_arguments(process: ProcessSpec, values: Mapping[str, object]) -> list[str]:
    """Return the arguments of a process; one with ``@{image.*}`` is repeated for each image of the instance.

    One with ``@{?port.…}`` is left out if the instance has no such port: the component is not asked for.
    """
    images = [f"@{{{name}}}" for name in values if name.startswith("image.")]
    each = [
        argument.replace("@{image.*}", image)
        for argument in process.arguments
        if values.keys() >= set(_OPTIONAL.findall(argument))
        for image in (images if "@{image.*}" in argument else [""])
    ]
    return [replace_placeholders(argument.replace("@{?", "@{"), values, f"process {process.name}") for argument in each]


def _files_named(instance: InstancePaths, texts: Iterable[str]) -> set[Path]:
    """Return those of the instance's certificates, kubeconfigs and configuration files that ``texts`` name."""
    paths: set[Path] = set()
    for text in texts:
        for match in re.findall(re.escape(str(instance.path)) + r"/[^\s,=:]+", text):
            path = Path(match)
            if path.parent in (instance.pki, instance.config, instance.path / "kubeconfigs") and path.is_file():
                paths.add(path)
    return paths


def process_readiness_probes(process: ProcessSpec, values: Mapping[str, object]) -> list[tuple[HttpProbe | None, str]]:
    """Return the probes of a process: a request over HTTP, or None and a path of the API server."""
    where = f"process {process.name}: ready"
    probes: list[tuple[HttpProbe | None, str]] = []
    for sign in process.ready:
        if sign.url:
            probes.append(
                (HttpProbe(replace_placeholders(sign.url, values, where), sign.authority, sign.certificate), "")
            )
        else:
            probes.append((None, replace_placeholders(sign.api, values, where)))
    return probes
