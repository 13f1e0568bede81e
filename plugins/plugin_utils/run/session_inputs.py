# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a session is asked for and reads: its phases, the request of an earlier run, secrets; and its checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import secret_names
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    phase_preconditions,
    read_secret_settings,
    resolve_settings,
    secrets_inside_settings,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import (
    SettingsContext,
    raw_variable_value,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
)

from . import (
    files_named_by_foreign_runs,
    foreign_kubeconfigs,
    resumed_extra_vars,
    run_record,
    servers_named_by_foreign_runs,
    settings_from_run_directory,
)


@dataclass
class SessionInputs:
    """What a session of ansible-playbook is asked for: by module open_run, and by the command line.

    phases: all phases of the playbook. loader, templar: Ansible's. argv, cliargs: the command line, as typed and as
    Ansible parsed it. say: prints a line. predicts: whether the playbook supports --check. skip: phases that are left
    out although the tags select them.
    """

    context: SettingsContext
    phases: list[str]
    loader: Any
    templar: Any
    argv: list[str]
    cliargs: Mapping[str, Any]
    say: Callable[[str], None]
    predicts: bool = False
    skip: Sequence[str] = ()
    #: Secret setting -> its value, None where none is given.
    secrets: dict[str, str | None] = field(default_factory=dict)
    #: Setting -> the secrets inside it.
    entries: dict[str, dict[str, str]] = field(default_factory=dict)

    def read_request(self, directory: Path, chosen: list[str]) -> RequestedSettings:
        """Return the request of an earlier run, with a warning for each template of it that is not used."""
        creates = not set(chosen) <= resumed_extra_vars.QUIET
        programs = None if self.is_beside(directory, chosen) else self.context.programs()
        request, notes = settings_from_run_directory.read_recorded_request(
            directory, self.context.templates(), programs, self.context.extra, creates
        )
        for line in notes:
            self.say(f"  warning: {line}")
        recorded = [layer.values for layer in request.layers]
        files_named_by_foreign_runs.refuse_foreign_machine_use(directory, self.context, recorded, chosen)
        return request

    def is_beside(self, directory: Path, chosen: list[str]) -> bool:
        """Return whether this session only reports on a run that another one works on.

        What a stranger's record says of a running session is not believed: the report beside one uses settings.yml as
        it is.
        """
        own = foreign_kubeconfigs.is_own_uncopied_directory(directory)
        return own and chosen == ["report"] and run_record.find_running_session(directory) is not None

    def check(
        self, request: RequestedSettings, effective: EffectiveSettings, chosen: list[str], run_dir: Path | None
    ) -> phase_preconditions.PreflightInput:
        """Check everything that the phases need before one of them runs. run_dir: of an earlier run."""
        self.read_secrets(effective, chosen, not {"prepare", "test"}.isdisjoint(chosen), run_dir)
        if "test" in chosen:
            resolve_settings.refuse_heavy_presets(request, effective.settings)
        known = self.context
        context = (known.catalogue, known.render, chosen, known.variables)
        checked = phase_preconditions.PreflightInput(request, effective, *context, self.phases)
        checked.check(run_dir)
        return checked

    def read_secrets(
        self, effective: EffectiveSettings, chosen: list[str], used: bool, run_dir: Path | None = None
    ) -> None:
        """Read secret settings, and the secrets inside others, for the roles. used: if a phase needs the latter."""
        context = self.context
        self.secrets = read_secret_settings.read_all_secrets(
            context.catalogue, context.variables, effective.settings, chosen, context.render, self.templar.template
        )
        self.entries = secrets_inside_settings.secrets_in_settings(
            context.catalogue, effective.settings, [point.settings for point in effective.points], used
        )
        secrets_inside_settings.keep_secret_entries(self.entries)
        servers_named_by_foreign_runs.refuse_foreign_addresses(run_dir, context, effective, chosen, self.secrets)

    def tags(self) -> tuple[list[str], list[str]]:
        """Return ``--tags`` and ``--skip-tags``."""
        variables = self.context.variables
        return list(variables.get("ansible_run_tags") or []), list(variables.get("ansible_skip_tags") or [])

    def chosen_phases(self) -> list[str]:
        """Return the phases that the tags select."""
        run, skip = self.tags()
        return settings_from_ansible.phases_selected_by_tags(self.phases, run, [*skip, *self.skip])

    def command(self) -> run_record.CommandLine:
        """Return the command line, in which secrets are known."""
        inside = secrets_inside_settings.known_secrets_by_dotted_key(self.entries)
        extra = raw_variable_value(self.context.extra)
        typed = secrets_inside_settings.texts_with_secrets(extra)
        # Those of Ansible, such as ansible_become_password, and of inventories.
        others = {name: value for name, value in extra.items() if name not in self.context.catalogue.settings}
        typed += [text for _path, text in secret_names.secret_entries(others)]
        inside |= {f"-e, text {number}": text for number, text in enumerate(typed)}
        return run_record.CommandLine.of(self.argv, self.cliargs, self.loader, {**self.secrets, **inside})

    def new_session(
        self, record: Mapping[str, Any], started: str, command: run_record.CommandLine, chosen: list[str]
    ) -> dict[str, Any]:
        """Return the record of this session, with what the run held before it."""
        # An action runs in a worker of ansible-playbook.
        session = run_record.new_session_record(started, command, self.tags()[0], os.getppid())
        return {**session, **resumed_extra_vars.resources_held_before(record, chosen)}

    def given_secrets(self) -> list[str]:
        """Return the names of the secrets that have a value."""
        return [name for name, value in self.secrets.items() if value]
