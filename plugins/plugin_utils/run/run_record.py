# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""run.yml: the record of a run. Every function reads it, changes it and replaces it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import extra_vars_arguments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.read_secret_settings import mask_secret_values
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.setting_templates import UnsafeText

from .run_directory import read_document_if_exists

#: Variables of the environment that the give-back command takes along.
_NEEDED = ("ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_VAULT_PASSWORD_FILE", "XDG_STATE_HOME")

#: Phases that create objects on the cluster.
CREATING = ("prepare", "test")

HEAD = "The record of this run. give_back is the command that returns whatever it still holds."


def read_record(run_dir: Path) -> dict[str, Any]:
    """Return the record. Raises DataError if there is none."""
    return files.read_yaml(run_dir / "run.yml")


def write_record(run_dir: Path, record: Mapping[str, Any]) -> None:
    """Replace the record."""
    files.write_yaml(run_dir / "run.yml", record, "run/1", HEAD)


def update_record(run_dir: Path, edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Apply ``edit`` to the record and return it. Processes that do so at the same time do it one after the other."""
    with files.hold_folder_lock(run_dir):
        record = read_record(run_dir)
        edit(record)
        write_record(run_dir, record)
    return record


def new_record(
    run_id: str, role: project_role.ProjectRole, presets: list[str], points: list[str], arguments: CommandLine
) -> dict[str, Any]:
    """Return the record of a new run. The caller fills in ``give_back``, which needs the name of the directory."""
    return {
        "schema": "run/1",
        "id": run_id,
        "project": role.project,
        "role": role.name,
        "presets": presets,
        "status": "running",
        "started": format_utc_timestamp(),
        "ended": None,
        "command": arguments.text(),
        "give_back": "",
        "git": git_revision_and_changes(role.root),
        "versions": software_versions(role),
        "environment": anonymous_machine_properties(),
        "phases": {},
        "clusters": {},
        "points": points,
        "held": [],
        "sessions": [],
    }


def start_phase(run_dir: Path, name: str) -> dict[str, Any]:
    """Record that a phase begins, which ends the running one as passed, and return the record."""
    if name in CREATING:
        clusters_of_run.update_host_records(run_dir, clusters_of_run.read_cluster_records(run_dir), {"objects": True})

    def edit(record: dict[str, Any]) -> None:
        phases = record["phases"]
        end_running_phases(phases, "passed")
        phases.pop(name, None)  # phases are in the order in which they last ran
        phases[name] = {
            "status": "running",
            "started": format_utc_timestamp(),
            "ended": None,
            "seconds": None,
            "error": None,
        }

    return update_record(run_dir, edit)


def end_phase(
    run_dir: Path, status: str, error: str | None = None, cause: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Record that the running phase ends, and return the record.

    cause: class of the error. name: the phase, which ends only if it is running.
    """

    def edit(record: dict[str, Any]) -> None:
        phases = record["phases"]
        if name is None:
            end_running_phases(phases, status, error, cause)
        elif phases.get(name, {}).get("status") == "running":
            mark_phase_ended(phases[name], status, error, cause)

    return update_record(run_dir, edit)


def end_running_phases(
    phases: dict[str, dict[str, Any]], status: str, error: str | None = None, cause: str | None = None
) -> list[str]:
    """End every running phase with ``status``; return their names."""
    names = [name for name, phase in phases.items() if phase["status"] == "running"]
    for name in names:
        mark_phase_ended(phases[name], status, error, cause)
    return names


def mark_phase_ended(phase: dict[str, Any], status: str, error: str | None = None, cause: str | None = None) -> None:
    """End one phase now. cause: class of the error."""
    phase.update(status=status, ended=format_utc_timestamp(), error=error, **({"cause": cause} if cause else {}))
    phase["seconds"] = round(_timestamp_from_iso(phase["ended"]) - _timestamp_from_iso(phase["started"]), 3)


def _timestamp_from_iso(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def new_session_record(started: str, command: CommandLine, tags: list[str], pid: int) -> dict[str, Any]:
    """Return the record of a session. pid: its ansible-playbook process."""
    began = round(started_of_process(pid), 2)
    return {"started": started, "command": command.text(), "tags": tags, "pid": pid, "began": began}


class CommandLine:
    """The ansible-playbook command of this process, from ``context.CLIARGS`` and sys.argv."""

    @classmethod
    def of(cls, argv: list[str], cli: Mapping[str, Any], loader: Any, secrets: Mapping[str, str | None]) -> CommandLine:
        """Read with Ansible's ``loader`` which files of ``-e @file`` hold secrets. secrets: setting -> value."""
        files = [argument[1:] for argument in cli.get("extra_vars") or () if argument.startswith("@")]
        hold = [path for path in files if set(loader.load_from_file(path) or ()) & set(secrets)]
        return cls(argv, cli, secrets.values(), hold)

    def __init__(
        self,
        argv: list[str],
        cli: Mapping[str, Any],
        secret_values: Iterable[str | None],
        secret_files: Iterable[str] = (),
    ) -> None:
        """secret_files: files of variables (``-e @file``) that contain secrets; no file of the run contains those."""
        self.argv = list(argv)
        self.cli = cli
        self.secret_values = [value for value in secret_values if value]
        self.secret_files = list(secret_files)

    def text(self) -> str:
        """Return the command as typed, without secrets."""
        return mask_secret_values(shlex.join([Path(self.argv[0]).name, *self.argv[1:]]), self.secret_values)

    def program(self) -> str:
        """Return the absolute path of ansible-playbook, or its name if the path is unknown."""
        path = self.argv[0] if "/" in self.argv[0] else shutil.which(self.argv[0])
        return os.path.abspath(path) if path else self.argv[0]

    def give_back(
        self, run_dir: Path, project: str, tags: Sequence[str], repeated: Mapping[str, Any] | None = None
    ) -> str:
        """Return the command that gives back what the run holds, kept or not, from any shell and working directory.

        repeated: values of ``-e`` that it gives again, because a template in a run directory is not executed. An
        UnsafeText in them is no template.
        """
        words = self._program_and_files(project) + self._secrets()
        words += extra_vars_arguments(repeated, lambda text: isinstance(text, UnsafeText)) if repeated else []
        return _command_with_environment(
            [*words, "--tags", ",".join(tags), *_run_dir_arguments(run_dir, cluster_keep=False)]
        )

    def role_call(self, playbook: Path, step: Path) -> str:
        """Return the command that runs a role call again with ``playbook``, from any shell and working directory."""
        words = [self.program(), str(playbook), *self._inventory_and_vault(), *self._secrets()]
        return _command_with_environment([*words, *extra_vars_arguments({"step_dir": str(step.resolve())})])

    def again(self, run_dir: Path, project: str, tags: list[str]) -> list[str]:
        """Return the argument list of this command for some phases of the run, with all its ``-e``."""
        words = [word for argument in self.cli.get("extra_vars") or () for word in ("-e", argument)]
        tail = ["--tags", ",".join(tags), *_run_dir_arguments(run_dir)]
        return [*self._program_and_files(project), *words, *tail]

    def _program_and_files(self, project: str) -> list[str]:
        playbooks = list(self.cli.get("args") or ())
        mine = [
            playbook for playbook in playbooks if Path(playbook).stem == project or playbook.endswith(f".{project}")
        ]
        words = [
            self.program(),
            _absolute_if_existing(next(iter([*mine, *playbooks]), f"perfscale.seatrial.{project}")),
        ]
        return words + self._inventory_and_vault()

    def _secrets(self) -> list[str]:
        return [word for path in self.secret_files for word in ("-e", f"@{_absolute_if_existing(path)}")]

    def _inventory_and_vault(self) -> list[str]:
        """Return the options that name the inventories and the passwords of vaults."""
        words = []
        for source in self.cli.get("inventory") or ():
            # Ansible also lists its default inventory, which most machines do not have. "host," is a list of hosts.
            if isinstance(source, str) and ("," in source or Path(source).exists()):
                words += ["-i", _absolute_if_existing(source)]
        return words + self._vault()

    def _vault(self) -> list[str]:
        words = []
        for path in self.cli.get("vault_password_files") or ():
            words += ["--vault-password-file", _absolute_if_existing(path)]
        for vault_id in self.cli.get("vault_ids") or ():
            label, at, path = vault_id.rpartition("@")
            words += ["--vault-id", f"{label}{at}{_absolute_if_existing(path)}"]
        return words + (["--ask-vault-password"] if self.cli.get("ask_vault_pass") else [])


def _run_dir_arguments(run_dir: Path, **more: bool) -> list[str]:
    return extra_vars_arguments({"run_dir": str(run_dir.resolve()), **more})


def _absolute_if_existing(path: str) -> str:
    """Return an existing path as an absolute path, any other argument unchanged."""
    return str(Path(path).resolve()) if Path(path).exists() else path


def _command_with_environment(words: list[str]) -> str:
    """Return a command with the environment variables that it needs in another shell."""
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in _variables_for_command().items()), shlex.join(words)]
    )


def _variables_for_command() -> dict[str, str]:
    """Return the environment variables that the command needs in another shell."""
    settings = {name: os.environ[name] for name in _NEEDED if os.environ.get(name)}
    if os.environ.get("ANSIBLE_STDOUT_CALLBACK", "").startswith("perfscale.seatrial."):
        # Any other one is for the program that started this process, as AWX's is.
        settings["ANSIBLE_STDOUT_CALLBACK"] = os.environ["ANSIBLE_STDOUT_CALLBACK"]
    if constants.CONFIG_FILE:
        settings["ANSIBLE_CONFIG"] = str(constants.CONFIG_FILE)
    return {
        name: os.pathsep.join(_absolute_if_existing(path) for path in value.split(os.pathsep))
        for name, value in sorted(settings.items())
    }


def started_of_process(pid: int) -> float:
    """Return when process ``pid`` started, in seconds since the epoch; the current time if that is unknown."""
    import time

    if processes.start_ticks_of(pid) is None:
        return time.time()
    try:
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - uptime + processes.process_start_since_boot(pid)


def find_running_session(run_dir: Path) -> dict[str, Any] | None:
    """Return the session whose ansible-playbook process still works on this run, if any.

    One that started us does not count: it was interrupted, and we give back what it holds.
    """
    above = process_and_ancestor_ids(os.getpid())
    for session in read_document_if_exists(run_dir / "run.yml").get("sessions", []):
        pid = session.get("pid")
        if isinstance(pid, int) and pid not in above and _is_running(session):
            return session
    return None


def _is_running(session: Mapping[str, Any]) -> bool:
    pid = session["pid"]
    return Path(f"/proc/{pid}").exists() and abs(started_of_process(pid) - session["began"]) < 2.0


def session_start_time(run_dir: Path, pid: int) -> float:
    """Return when the session of process ``pid`` began, in seconds since the epoch.

    An interrupted session that has started it, to give back what the run holds, counts with it.
    """
    above = process_and_ancestor_ids(pid)
    sessions = read_document_if_exists(run_dir / "run.yml").get("sessions", [])
    known = [record["began"] for record in sessions if record.get("pid") in above and _is_running(record)]
    return min([started_of_process(pid), *known])


def process_and_ancestor_ids(pid: int) -> set[int]:
    """Return the ids of the process and of all its ancestors."""
    pids: set[int] = set()
    while pid and pid not in pids:
        pids.add(pid)
        pid = processes.parent_pid_of(pid) or 0
    return pids


def refuse_while_running(run_dir: Path) -> None:
    """Raise InputError when the ansible-playbook process of an earlier session still works on this run."""
    session = find_running_session(run_dir)
    if session is not None:
        raise InputError(
            f"run {run_dir.name} is still being worked on by process {session['pid']} ({session['command']}): "
            "wait for its end, or stop it first; only --tags report goes beside it"
        )


def git_revision_and_changes(root: Path) -> dict[str, Any]:
    """Return the revision of the checkout at ``root`` and whether files differ from it; null outside a checkout.

    A job of AWX has a copy of its project without .git in the working directory, and the revision in PROJECT_REVISION.
    """
    try:
        top = _git_output(root, "rev-parse", "HEAD")
        return {"revision": top.strip() or None, "dirty": bool(_git_output(root, "status", "--porcelain").strip())}
    except (OSError, subprocess.SubprocessError):
        copied = root.resolve().is_relative_to(Path.cwd())
        return {"revision": os.environ.get("PROJECT_REVISION") or None if copied else None, "dirty": None}


def _git_output(root: Path, *words: str) -> str:
    if not (root.resolve() / ".git").exists():
        raise OSError("not a checkout")
    done = subprocess.run(
        ["git", "-C", str(root.resolve()), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout


def software_versions(role: project_role.ProjectRole) -> dict[str, str]:
    """Return the versions of all software that results may depend on."""
    from importlib import metadata

    from ansible.release import __version__ as core

    version_by_name = {
        "python": platform.python_version(),
        "ansible-core": core,
        "perfscale.seatrial": _collection_version(project_role.ROOT),
    }
    for name in ("kubernetes", "Jinja2", "jmespath", "msgspec", "numpy", "matplotlib", "cryptography", "PyYAML"):
        try:
            version_by_name[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            version_by_name[name] = "not installed"
    for name in dict.fromkeys(["kubernetes.core", role.collection]):
        folder = project_role.collection_folder(name)
        version_by_name.setdefault(name, _collection_version(folder) if folder else "not installed")
    return version_by_name


def _collection_version(root: Path) -> str:
    if (root / "galaxy.yml").exists():
        return str(files.read_yaml(root / "galaxy.yml")["version"])
    manifest = root / "MANIFEST.json"
    return str(files.read_json(manifest)["collection_info"]["version"]) if manifest.exists() else "unknown"


def anonymous_machine_properties() -> dict[str, Any]:
    """Return properties of the machine, without names of hosts or users, which must not appear in a report."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count() or 0,
        "memory_gib": round(memory / 2**30, 1),
        "ci": bool(os.environ.get("CI")),
        "interpreter": sys.executable,
    }
