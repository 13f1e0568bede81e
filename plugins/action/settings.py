# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the settings of a run and open its directory."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    carried_extra_vars,
    collect_layers,
    effective_settings,
    estimates,
    held_by_run,
    interrupted_run,
    preflight,
    run_directory,
    run_record,
    secret_settings,
    settings_catalogue,
    settings_display,
    source_location,
    temp_folder,
    yaml_templates,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_layers import SettingsError, names_of
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_request import SettingsLayer, SettingsRequest

ROOT = Path(__file__).parents[2]
SETTINGS_HEAD = "---\n# The settings of this run. What ran is what stands here; who set it stands in provenance.yml.\n"


class ActionModule(SeatrialAction):
    """See the documentation of module settings."""

    ARGUMENTS = {
        "project": {"type": "str", "required": True},
        "phases": {"type": "list", "elements": "str", "required": True},
        "cluster": {"type": "dict"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Open a new run, go on with an earlier one, or apply the profiles of a cluster that is now known."""
        self.project = arguments["project"]
        self.phases = arguments["phases"]
        self.variables = task_vars
        self.extra = load_extra_vars(self._loader)
        self.catalogue = settings_catalogue.load(ROOT)
        self.base = collect_layers.defaults(self._loader, ROOT, self.catalogue)
        self.render = collect_layers.renderer(self._templar, {k: v for k, v in task_vars.items() if k not in self.base})
        if arguments["cluster"]:
            return self._profile(arguments["cluster"])
        try:
            return self._begin()
        except InputError as error:
            raise InputError(f"{source_location.placed(error)}\nNothing was created or changed.") from error

    def _begin(self) -> dict[str, Any]:
        """Open a new run or go on with an earlier one; whatever is wrong is found before a file is written."""
        task_vars = self.variables
        self.catalogue.check_names(self.extra, self.project, "-e")
        chosen = collect_layers.chosen(self.phases, *self._tags())
        if "run_dir" in self.extra and not self.extra["run_dir"]:
            raise InputError("-e run_dir= is empty; give the directory of an earlier run, or leave it out")
        self.remote_tmp = self._remote_tmp()
        if task_vars.get("run_dir"):
            return self._continue(str(self._templar.template(task_vars["run_dir"])), chosen)
        return self._open(chosen)

    def _tags(self) -> tuple[list[str], list[str]]:
        return list(self.variables.get("ansible_run_tags") or []), list(self.variables.get("ansible_skip_tags") or [])

    def _open(self, chosen: list[str]) -> dict[str, Any]:
        request = collect_layers.request(self.project, self.variables, self.extra, self.base, self.catalogue)
        request = carried_extra_vars.opened(request, self.extra)
        found = self._checked(request, chosen, None)
        self._show(found, request)
        if chosen == ["settings"]:
            self._show_points(found)
            return self._result(None, found, request, only_settings=True)
        run_id = run_directory.new_id()
        name = run_directory.name_of(self.project, list(request.presets), run_id)
        parent = Path(found.settings["run_artifacts_dir"])
        command = self._command()

        def fill(directory: Path) -> None:
            points = [point.name for point in found.points]
            self._write(directory, found, request)
            record = run_record.new(run_id, self.project, list(request.presets), points, ROOT, command)
            record["give_back"] = command.give_back(parent / name, self.project, self._give_back_tags())
            record["sessions"].append(
                {**self._session(record["started"], command), **carried_extra_vars.held(record, chosen)}
            )
            run_record.write(directory, record)
            _files.replace_text(directory / "GIVE_BACK", record["give_back"] + "\n")

        directory = run_directory.create(parent, name, fill)
        self._say(
            [
                f"Run {run_id} in {directory}",
                f"  interrupted? {directory / 'GIVE_BACK'} holds the command that gives back",
            ]
        )
        return self._result(directory, found, request)

    def _continue(self, path: str, chosen: list[str]) -> dict[str, Any]:
        directory = run_directory.existing(path)
        where = directory / "request.yml"
        request = self._read(where)
        if request.project != self.project:
            raise InputError(
                f"-e run_dir={path}: that is a run of {request.project}, this playbook runs {self.project}"
            )
        asked = names_of(self.variables.get("preset"))
        if asked and asked != list(request.presets):
            had = ", ".join(request.presets) or "no preset"
            raise InputError(f"-e preset={','.join(asked)}: {directory.name} ran with {had}; a run keeps its presets")
        if chosen == ["report"] and run_record.at_work(directory) is not None:
            return self._beside(directory, request)
        run_record.refuse_while_running(directory)
        words = {word: self.extra[word] for word in ("matrix", "pre_cleanup") if word in self.extra}
        more = collect_layers.extra_layer(self.extra, self.catalogue, words)
        earlier = run_record.read(directory)
        request, dropped = carried_extra_vars.continued(request, more, earlier.get("sessions", []), chosen)
        found = self._checked(request, chosen, directory)
        if chosen == ["settings"]:
            self._show(found, request)
            self._show_points(found)
            return self._result(directory, found, request, only_settings=True)
        held_by_run.refuse_release(directory, found.settings, self._tags()[0], earlier["give_back"])
        command = self._command()
        self._write(directory, found, request)

        def edit(record: dict[str, Any]) -> None:
            for phase in record["phases"].values():
                if phase["status"] == "running":
                    phase["status"] = "interrupted"
            record["status"] = "running"
            session = {**self._session(run_record.stamp(), command), **carried_extra_vars.held(record, chosen)}
            record["sessions"] = [*record.get("sessions", []), session]

        run_record.change(directory, edit)
        (directory / "FINISHED").unlink(missing_ok=True)
        if dropped:
            self._say([f"Not taken over from the session that failed: -e {', '.join(dropped)}"])
        return self._result(directory, found, request)

    def _beside(self, directory: Path, request: SettingsRequest) -> dict[str, Any]:
        """Report on a run while another session works on it: what that one records stays as it is."""
        if collect_layers.extra_layer(self.extra, self.catalogue, {}).values:
            raise InputError(
                f"run {directory.name} is still being worked on: a report beside it takes no settings by -e"
            )
        self._say([f"Run {run_record.read(directory)['id']} goes on; this is the report of what there is so far."])
        return {**self._result(directory, self._effective(request), request), "beside": True}

    def _profile(self, cluster: dict[str, Any]) -> dict[str, Any]:
        """Apply the cluster profiles that fit this cluster: by API host, node name or kind."""
        directory = Path(str(self._templar.template(self.variables["run_dir"])))
        request = self._read(directory / "request.yml")
        profiles = self._templar.template(self.variables.get("cluster_profiles") or {})
        names = {cluster.get("api_host"), cluster.get("kind"), *(cluster.get("node_names") or [])}
        fitting = {key: names_of(value) for key, value in profiles.items() if key in names}
        if not fitting:
            return self._result(directory, self._effective(request), request)
        known = collect_layers.presets(self.variables, self.project, self.catalogue)
        layers = [SettingsLayer("profile", key, {"presets": presets}) for key, presets in fitting.items()]
        wanted = [name for presets in fitting.values() for name in presets]
        changed = request.with_layers(*collect_layers.preset_layers(wanted, known, self.catalogue), *layers)
        found = self._effective(changed)
        effective_settings.refuse_heavy(changed, found.settings)
        self._write(directory, found, changed)
        self._say([f"Cluster profile {', '.join(fitting)}: presets {', '.join(wanted)}"])
        self._show(found, changed)
        return {**self._result(directory, found, changed), "changed": changed != request}

    def _read(self, path: Path) -> SettingsRequest:
        document = self._loader.load_from_file(str(path), trusted_as_template=True, cache="none")
        return SettingsRequest.read(collect_layers.raw(document), str(path))

    def _effective(self, request: SettingsRequest) -> effective_settings.EffectiveSettings:
        try:
            return effective_settings.effective(request, self.catalogue, self.base, self.render)
        except SettingsError as error:
            raise SettingsError(source_location.placed(error, request.where(error.source, error.at))) from error

    def _checked(
        self, request: SettingsRequest, chosen: list[str], run_dir: Path | None
    ) -> effective_settings.EffectiveSettings:
        """Resolve a request and check everything that its phases need before one of them runs."""
        found = self._effective(request)
        self._need_secrets(found, chosen)
        if "test" in chosen:
            effective_settings.refuse_heavy(request, found.settings)
        preflight.Preflight(request, found, self.catalogue, self.render, chosen, self.variables).check(run_dir)
        return found

    def _need_secrets(self, found: effective_settings.EffectiveSettings, chosen: list[str]) -> None:
        """Refuse to begin without a secret that a chosen phase needs; keep the values for masking."""
        self.secret_values = {}
        for name in self.catalogue.secrets:
            value = secret_settings.read(
                name,
                {**self.variables, f"{name}_file": found.settings.get(f"{name}_file")},
                os.environ,
                self._templar.template,
            )
            self.secret_values[name] = value
            need = self.catalogue.needs.get(name) or {}
            phases = [phase for phase in need.get("phases", []) if phase in chosen]
            if value or not phases:
                continue
            condition = "{{ (" + str(need.get("when", True)) + ") | bool }}"
            if self.render(condition, found.settings)[0] is True:
                raise secret_settings.missing(name, f"by phase {phases[0]}")

    def _command(self) -> run_record.CommandLine:
        files = [one[1:] for one in context.CLIARGS.get("extra_vars") or () if one.startswith("@")]
        secret = [one for one in files if set(self._loader.load_from_file(one) or ()) & set(self.catalogue.secrets)]
        return run_record.CommandLine(sys.argv, context.CLIARGS, self.secret_values.values(), secret)

    def _give_back_tags(self) -> list[str]:
        return [phase for phase in ("cleanup", "release") if phase in self.phases]

    def _session(self, started: str, command: run_record.CommandLine) -> dict[str, Any]:
        pid = os.getppid()  # of ansible-playbook: an action runs in a worker
        began = round(run_record.started_of_process(pid), 2)
        return {"started": started, "command": command.text(), "tags": self._tags()[0], "pid": pid, "began": began}

    def _write(self, directory: Path, found: effective_settings.EffectiveSettings, request: SettingsRequest) -> None:
        document = request.document()
        _files.check("request/1", document)
        _files.check("settings/1", found.settings)
        _files.replace_text(directory / "request.yml", "---\n" + yaml_templates.dump(document))
        public = self._public(found.settings)
        _files.replace_text(directory / "settings.yml", SETTINGS_HEAD + yaml_templates.dump(public))
        _files.write_yaml(
            directory / "provenance.yml",
            settings_display.provenance(found, request, self._secrets_given()),
            "provenance/1",
        )
        for point in found.points:
            place = directory / "points" / point.name
            place.mkdir(parents=True, exist_ok=True)
            _files.replace_text(
                place / "settings.yml", SETTINGS_HEAD + yaml_templates.dump(self._public(point.settings))
            )
            if not (place / "point.yml").exists():
                record = {"schema": "point/1", "point": point.name, "uuid": str(uuid.uuid4()), "status": "planned"}
                _files.write_yaml(place / "point.yml", {**record, "settings": point.values}, "point/1")

    def _public(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in self.catalogue.secrets}

    def _secrets_given(self) -> list[str]:
        return [name for name, value in getattr(self, "secret_values", {}).items() if value]

    def _show(self, found: effective_settings.EffectiveSettings, request: SettingsRequest) -> None:
        document = settings_display.provenance(found, request, self._secrets_given())
        base = {name: self.render(value, self.base)[0] for name, value in self.base.items()}
        self._say(
            settings_display.table(settings_display.rows(document, base), list(request.presets), len(found.points))
        )

    def _show_points(self, found: effective_settings.EffectiveSettings) -> None:
        self._say(settings_display.points(found, estimates.estimates(self.project, found.points, self.render)))

    def _remote_tmp(self) -> str | None:
        """Return the folder for ansible_remote_tmp where the one that is set can't be used, None where it can."""
        if self._connection.transport != "local":
            return None
        asked = self.get_shell_option("remote_tmp", default="~/.ansible/tmp")
        why = temp_folder.trouble(self._remote_expand_user(asked, sudoable=False))
        if not why:
            return None
        if "ansible_remote_tmp" in self.extra:
            raise InputError(f"-e ansible_remote_tmp={asked}: no folder can be made there: {why}")
        self._say([f"No folder can be made in {asked} ({why}): modules use {constants.DEFAULT_LOCAL_TMP}"])
        return str(constants.DEFAULT_LOCAL_TMP)

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            Display().display(line)

    def _result(
        self,
        directory: Path | None,
        found: effective_settings.EffectiveSettings,
        request: SettingsRequest,
        only_settings: bool = False,
    ) -> dict[str, Any]:
        return {
            "only_settings": only_settings,
            "beside": False,
            "run_dir": str(directory) if directory else None,
            "run_id": run_record.read(directory)["id"] if directory else None,
            "points": [point.name for point in found.points],
            "presets": list(request.presets),
            "late": list(found.late),
            "pre_cleanup": found.pre_cleanup,
            "remote_tmp": getattr(self, "remote_tmp", None),
            "gives_back": interrupted_run.phases(
                collect_layers.chosen(self.phases, *self._tags()), self.phases, found.settings
            ),
            "keep_failed": bool(found.settings.get("cluster_keep_failed")),
        }
