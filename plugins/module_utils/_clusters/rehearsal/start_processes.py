# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting the processes of an instance in order: missing ones, and those whose configuration has changed."""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import (
    build_real_node_images,
    cached_and_user_programs,
    component_manifests,
    instance_processes,
    process_launch_plan,
)
from .cached_and_user_programs import ComponentPrograms
from .component_selection import process_start_levels
from .component_selection import processes_of_components as processes_of
from .component_spec import ProcessSpec, RehearsalComponent
from .instance_dir import InstancePaths
from .process_launch_plan import API_PORT, ProcessCommand

#: Seconds between SIGTERM and SIGKILL. Nothing in the processes' memory is needed afterwards.
GRACE = 5.0

#: How often ports are chosen: another program may take a port before it is used.
PORT_ATTEMPTS = 3


class PortTaken(ProcessError):
    """Another program listens on a port of one of our processes."""


class EndedMeanwhile(ProcessError):
    """A process that was found running ended before it was ready: it was dying when it was found."""


class InstanceProcessStarter:
    """One pass over all processes of an instance, with the lock held."""

    def __init__(
        self,
        timeout: float,
        instance: InstancePaths,
        components: list[RehearsalComponent],
        programs: dict[str, ComponentPrograms],
        images: dict[str, Path],
        say: Say,
    ) -> None:
        self.timeout, self.instance, self.say = timeout, instance, say
        self.components, self.programs, self.images = components, programs, images
        self.changes: list[str] = []
        self.started: set[str] = set()
        self.alive = _one_each(instance)
        self.values: dict[str, object] = {}
        self.client: Client | None = None

    def run(self) -> list[str]:
        """Start the processes in order; return the changes.

        Raises PortTaken if each choice of ports failed, EndedMeanwhile, ProcessError, WaitTimeout.
        """
        for left in range(PORT_ATTEMPTS - 1, -1, -1):
            try:
                self._bring_up()
                break
            except PortTaken as error:
                if not left:
                    raise
                self.say(f"{error}: choosing another port")
            except EndedMeanwhile as error:
                if not left:
                    raise
                self.say(str(error))
            self.alive, self.client = _one_each(self.instance), None
        return list(dict.fromkeys(self.changes))

    def _bring_up(self) -> None:
        wanted = processes_of(self.components)
        self.instance.create_directories()
        chosen = process_launch_plan.load_or_choose_ports(self.instance, wanted, set(self.alive))
        paths = cached_and_user_programs.program_paths_by_name(self.programs)
        crds = {name: program.crds for name, program in self.programs.items() if program.crds is not None}
        self.values = process_launch_plan.placeholder_values(
            self.instance, self.components, chosen, paths, self.images, crds
        )
        process_launch_plan.write_missing_certificates(self.instance, self.components)
        process_launch_plan.write_kubeconfigs(self.instance, self.components, chosen[API_PORT])
        process_launch_plan.write_files_of_processes(self.instance, self.components, self.values)
        commands = {
            process.name: process_launch_plan.process_command_line(self.instance, process, self.programs, self.values)
            for process in wanted
        }
        due = [name for name, command in commands.items() if not self._is_current(command)]
        started = [commands[name].process for name in due]
        names = {name for process in started for name in (process.binary, *process.programs)}
        cached_and_user_programs.verify_cached_program_checksums(self.programs, names)
        if any("@{image." in argument for process in started for argument in process.arguments):
            build_real_node_images.verify_node_image_checksums(self.components, self.images)
        _raise_file_limit()
        for level in process_start_levels(wanted):
            self._start_level([commands[process.name] for process in level])
            if any(process.name == "kube-apiserver" for process in level):
                self._prepare_api()

    def _is_current(self, command: ProcessCommand) -> bool:
        """Return whether the process runs and was started by exactly this command."""
        running = self.alive.get(command.process.name)
        record = instance_processes.read_process_record(self.instance.records, command.process.name)
        if running is None or record is None:
            return False
        return instance_processes.is_recorded_process(running, record) and record.recipe == command.recipe

    def _start_level(self, commands: list[ProcessCommand]) -> None:
        pids: dict[str, int] = {}
        due = [command.process.name for command in commands if not self._is_current(command)]
        if due:
            self.say(f"starting {', '.join(due)}")
        for command in commands:
            name = command.process.name
            running = self.alive.get(name)
            if running is not None and self._is_current(command):
                pids[name] = running.pid
                continue
            self.started.add(name)
            if running is not None:
                instance_processes.stop_instance_processes(self.instance.path, [running], GRACE)
            child = instance_processes.start_instance_process(
                self.instance.path,
                self.instance.records,
                name,
                [str(command.program), *command.arguments],
                command.environment,
                self.instance.log_of(name),
                command.recipe,
            )
            pids[name] = child.pid
            self.changes.append(f"{'restarted' if running else 'started'} {name}")
        with ThreadPool(max_workers=len(commands)) as pool:
            list(pool.map(lambda launched: self._await_ready(launched.process, pids[launched.process.name]), commands))

    def _await_ready(self, process: ProcessSpec, pid: int) -> None:
        log = self.instance.log_of(process.name)
        for probe, path in process_launch_plan.process_readiness_probes(process, self.values):
            if probe is not None:
                what, send_probe = (
                    probe.url,
                    partial(instance_processes.probe_process_readiness, probe, self.instance.pki),
                )
            else:
                what, send_probe = path, partial(self._ask_api, path)
            try:
                instance_processes.await_process_ready(process.name, send_probe, pid, log, self.timeout, what)
            except ProcessError as error:
                if process.name not in self.started:
                    raise EndedMeanwhile(f"{process.name} was ending when it was found, its log is {log}") from error
                self._look_for_listener(process)
                raise error

    def _look_for_listener(self, process: ProcessSpec) -> None:
        """Raise PortTaken if a port of a process that has ended is in use."""
        for port in (int(str(self.values[f"port.{process.name}.{port}"])) for port in process.ports):
            if not instance_processes.is_port_free(port):
                user = instance_processes.port_listener(port)
                raise PortTaken(f"{process.name}: port {port} of {instance_processes.LOOPBACK} is in use by {user}")

    def _ask_api(self, path: str) -> str:
        try:
            self._api().request("GET", path)
        except SeatrialError as error:
            return str(error)
        return ""

    def _api(self) -> Client:
        if self.client is None:
            self.client = Client.from_kubeconfig(self.instance.kubeconfig_of("bootstrap"))
        return self.client

    def _prepare_api(self) -> None:
        values = {**self.values, "ca": process_launch_plan.ca_certificate_base64(self.instance)}
        wanted = component_manifests.component_objects(self.components, self.programs, values)
        self.changes += [
            f"applied {change}"
            for change in component_manifests.apply_component_objects(self._api(), wanted, self.timeout)
        ]
        component_manifests.await_kinds_of_kwok_described(self._api(), self.components, self.timeout)


def _one_each(instance: InstancePaths) -> dict[str, instance_processes.RunningProcess]:
    """Return the running processes by name. Processes that share a name are ended."""
    running = instance_processes.list_running_processes(instance.path)
    counts = Counter(process.name for process in running)
    instance_processes.stop_instance_processes(
        instance.path, [process for process in running if counts[process.name] > 1], GRACE
    )
    return {process.name: process for process in running if counts[process.name] == 1}


def _raise_file_limit() -> None:
    """Raise the limit of open files, which children inherit: an API server under load holds thousands."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
