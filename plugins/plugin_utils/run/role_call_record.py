# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One role call in its numbered directory: its arguments without secrets, how to run it again, and its failure."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    project_role,
    read_secret_settings,
    secrets_inside_settings,
    setting_templates,
    settings_from_ansible,
)

from . import (
    files_named_by_foreign_runs,
    foreign_kubeconfigs,
    received_run_directories,
    run_directory,
    run_record,
    servers_named_by_foreign_runs,
    settings_from_run_directory,
)

ARGUMENTS, COMMAND, FAILURE = "arguments.yml", "COMMAND", "FAILURE"


def entry_point_options(role_path: Path, entry: str) -> dict[str, dict[str, Any]]:
    """Return the options of a role's entry point; empty without argument_specs."""
    path = role_path / "meta" / "argument_specs.yml"
    if not path.exists():
        return {}
    entries = (files.read_yaml(path) or {}).get("argument_specs") or {}
    return (entries.get(entry) or entries.get("main") or {}).get("options") or {}


def write_call_record(
    step: Path,
    role: Any,
    task_vars: Mapping[str, Any],
    template: Callable[[Any], Any],
    argv: list[str],
    loader: Any,
) -> None:
    """Write the arguments of a call of ``role`` (Ansible's object) and the command that runs it again.

    loader: Ansible's, which reads files of ``-e @file``. Nothing is raised: the call matters more than its record.
    """
    name, entry = role.get_name(), str((role._from_files or {}).get("tasks") or "main").removesuffix(".yml")
    try:
        declared = entry_point_options(Path(role._role_path), entry)
        arguments, secrets = _option_values_and_secrets(declared, task_vars, template)
    except (DataError, OSError, AttributeError) as error:
        files.replace_text(step / ARGUMENTS, f"# The arguments are unknown: {error}\n")
        return
    head = f"# The arguments of entry point {entry} of role {name}. COMMAND runs this call again.\n"
    if secrets:
        head += f"# Left out, as secrets: {', '.join(secrets)}. Give them as in a run.\n"
    of_run = {key: str(template(task_vars[key])) for key in ("run_id", "run_point") if task_vars.get(key)}
    call = {"step_role": name, "step_entry": entry, **of_run}
    marked = setting_templates.mark_unsafe({**call, **arguments}, lambda _text: False)
    files.replace_text(step / ARGUMENTS, head + setting_templates.dump_yaml_with_unsafe(marked))
    files.replace_text(step / COMMAND, command_to_repeat_call(step, argv, loader, secrets) + "\n")


def _option_values_and_secrets(
    declared: Mapping[str, Mapping[str, Any]], task_vars: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the options that have one, and the names of the secrets."""
    secrets = [name for name, spec in declared.items() if spec.get("no_log")]
    known = {}
    for name in secrets:
        try:
            value = read_secret_settings.read_secret_if_given(name, task_vars, os.environ, template)
        except (AnsibleError, InputError):
            continue
        if value:
            known[name] = value
    gate = SecretScanner(known)
    arguments = {}
    for name in sorted(declared.keys() - set(secrets)):
        if name not in task_vars:
            continue
        try:
            arguments[name] = secrets_inside_settings.mask_setting(
                name, files.to_plain_types(template(task_vars[name])), gate.masked
            )
        except AnsibleError:
            continue  # it refers to what does not exist yet
    return arguments, secrets


def command_to_repeat_call(step: Path, argv: list[str], loader: Any, secrets: Iterable[str]) -> str:
    """Return the command that runs the call again, with the files of ``-e @file`` that hold one of ``secrets``."""
    from ansible import context

    try:
        words = run_record.CommandLine.of(argv, context.CLIARGS, loader, dict.fromkeys(secrets))
    except AnsibleError:  # a file of -e @file that is gone
        words = run_record.CommandLine(argv, context.CLIARGS, [])
    return words.role_call(project_role.ROOT / "playbooks" / "step.yml", step)


_ENTRY = re.compile(r"\w+")


def check_recorded_call(step: Path, context: settings_from_ansible.SettingsContext) -> dict[str, str]:
    """Check the files that playbooks/step.yml loads as variables, and return the role and the entry point to call.

    Variables and role must be those of a call that this collection recorded: what else a file sets could run code.
    context: of the project of the run. Raises InputError.
    """
    run_dir = step.parent
    # Never one of the phases that need no trust: whoever made the directory has chosen the name of this folder, too.
    received_run_directories.refuse_untrusted_directory(run_dir, context.extra, [f"call {step.name}"])
    call = setting_templates.load_yaml_with_unsafe(step / ARGUMENTS)
    role, entry = (str(call.get(name) or "") for name in ("step_role", "step_entry"))
    if "." not in role:
        raise InputError(f"{step / ARGUMENTS}: step_role is '{role}', not the full name of a role")
    folder = project_role.find_role(role).folder
    if not _ENTRY.fullmatch(entry) or not (folder / "tasks" / f"{entry}.yml").is_file():
        raise InputError(f"{step / ARGUMENTS}: role {role} has no entry point '{entry}'")
    for name in ("run_id", "run_point"):
        run_directory.refuse_unusable_name(step / ARGUMENTS, name, call.get(name))
    options = {"step_role", "step_entry", "run_id", "run_point", *entry_point_options(folder, entry)}
    programs = context.trusted_programs()
    settings_from_run_directory.refuse_foreign_values(step / ARGUMENTS, options, {}, programs)
    loaded = [call]
    if (run_dir / settings_from_run_directory.SETTINGS).is_file():
        settings_from_run_directory.refuse_foreign_values(
            run_dir / settings_from_run_directory.SETTINGS, context.catalogue.settings, context.templates(), programs
        )
        loaded.append(setting_templates.load_yaml_with_unsafe(run_dir / settings_from_run_directory.SETTINGS))
    foreign_kubeconfigs.refuse_foreign_kubeconfigs_of_call(step, context, loaded, role, entry)
    servers_named_by_foreign_runs.refuse_foreign_addresses_of_call(step, context, loaded)
    files_named_by_foreign_runs.refuse_foreign_machine_use(
        run_dir, context, loaded, None, [context.effective(context.request()).settings]
    )
    return {"role": role, "entry": entry}


class FailedCalls:
    """Writes FAILURE into the directory of the role call whose task failed. For a callback plugin."""

    def __init__(self) -> None:
        self._steps: dict[int, Path] = {}

    def opened(self, role: Any, path: str) -> None:
        """Record the directory of a call of ``role``, Ansible's object of it."""
        self._steps[id(role)] = Path(path)

    def failed(self, role: Any, task: str, message: str) -> None:
        """Add a failure to the directory of the call, if the role has opened one."""
        step = self._steps.get(id(role))
        if role is not None and step is not None and step.is_dir():
            add_line_to_failure_file(step, f"{task}: {message}")


def add_line_to_failure_file(step: Path, text: str) -> None:
    """Add a line to FAILURE in the directory of a role call."""
    with contextlib.suppress(OSError), open(step / FAILURE, "a", encoding="utf-8") as stream:
        stream.write(f"{text}\n")
