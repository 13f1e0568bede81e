# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session that resolves the settings of a run: it opens a run, continues one, or applies cluster profiles."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import extra_vars_shell_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import PlannedPoint
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import setting_file_checksums
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    cluster_settings,
    presets_from_variables,
    repeat_and_bisect_keywords,
    resolve_settings,
    roles_read_by_project,
    secrets_inside_settings,
    setting_templates,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import RESERVED
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsLayer,
    parse_preset_names,
)

from . import (
    files_named_by_foreign_runs,
    foreign_kubeconfigs,
    give_back_on_exit,
    held_resources,
    point_attempts,
    point_states,
    received_run_directories,
    resumed_extra_vars,
    run_directory,
    run_record,
    servers_named_by_foreign_runs,
    settings_files,
    settings_from_run_directory,
)
from .session_inputs import SessionInputs
from .settings_display import show_points, show_settings


class SettingsSession(SessionInputs):
    """One call of module open_run."""

    def begin(self) -> dict[str, Any]:
        """Open a new run or continue an earlier one. Every error in the input is found before a file is written."""
        try:
            return self._begin()
        except InputError as error:
            masked = secrets_inside_settings.error_without_secrets(error, self.context)
            if masked is error:
                raise
            raise masked from None

    def _begin(self) -> dict[str, Any]:
        extra, run_dir = self.context.extra, self.context.variables.get("run_dir")
        self.context.check_names()
        if shown := self.context.preset_list():
            self.say("\n".join(shown))
            return {"only_settings": True, "run_dir": None}
        chosen = self.chosen_phases()
        if not set(chosen) <= give_back_on_exit.GIVING_BACK:
            cluster_settings.refuse_missing_inventories(self.cliargs.get("inventory") or ())
        if self.cliargs.get("check") and not self.predicts and chosen != ["settings"]:
            raise InputError("--check can't predict a run; --tags settings shows what it would do, and changes nothing")
        if "redo" in extra and not run_dir:
            raise InputError(
                f"-e redo={extra['redo']} measures points of an earlier run again: name it, -e run_dir=<directory>"
            )
        if "run_dir" in extra and not extra["run_dir"]:
            raise InputError("-e run_dir= is empty; give the directory of an earlier run, or leave it out")
        if run_dir:
            return self._continue(str(self.templar.template(run_dir)), chosen)
        name = self.templar.template(self.context.variables.get("run_name"))
        return self._open(chosen) if name in (None, "") else self._open_or_continue_named(str(name), chosen)

    def apply_profiles(self, cluster: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the cluster profiles that match this cluster: by API host, node name or kind."""
        variables = self.context.variables
        directory = Path(str(self.templar.template(variables["run_dir"])))
        request = self.read_request(directory, self.chosen_phases())
        profiles = self.templar.template(variables.get("cluster_profiles") or {})
        matching = presets_from_variables.matching_profiles(profiles, cluster)
        if not matching:
            for line in presets_from_variables.describe_cluster_without_profile(profiles, cluster):
                self.say(line)
            return self._result(directory, self.context.effective(request), request)
        layers = [SettingsLayer("profile", key, {"presets": presets}) for key, presets in matching.items()]
        wanted = [name for presets in matching.values() for name in presets]
        presets = self.context.preset_layers(wanted)
        changed = request.with_layers(*presets, *layers)
        effective = self.context.effective(changed)
        resolve_settings.refuse_heavy_presets(changed, effective.settings)
        self.read_secrets(effective, [], False)
        point_attempts.refuse_changed_points(directory, effective.matrix_values())
        own_files = {path for layer in presets for path in setting_file_checksums.paths_in_value(layer.values)}
        self._write(directory, effective, changed, own_files)
        run_record.update_record(directory, lambda record: record.update(points=list(effective.matrix_values())))
        self.say(f"Cluster profile {', '.join(matching)}: presets {', '.join(wanted)}")
        show_settings(self.context, effective, changed, self.given_secrets(), self.say)
        return {**self._result(directory, effective, changed), "changed": changed != request}

    def _open_or_continue_named(self, name: str, chosen: list[str]) -> dict[str, Any]:
        """Open the run of a name that is known beforehand, or continue it in a session that only reports or gives back.

        A caller of such a session knows only the name, so it may not know whether the run was ever opened.
        """
        directory = run_directory.given_name(self.context.project, name)
        settings = self.context.settings_to_find_run(set(chosen) <= give_back_on_exit.GIVING_BACK)
        parent = Path(settings["run_artifacts_dir"])
        there = (parent / directory / "request.yml").exists()
        if chosen == ["settings"] or not set(chosen) <= resumed_extra_vars.QUIET:
            if there and chosen != ["settings"]:
                arguments = extra_vars_shell_text({"run_dir": str(parent / directory)})
                raise InputError(
                    f"run_name={name}: this run exists, {parent / directory}: "
                    f"continue it with {arguments}, or give another name"
                )
            return self._open(chosen, directory)
        if there:
            return self._continue(str(parent / directory), chosen)
        self.context.request()  # refuses a preset that was left out: it may have set another folder
        if not parent.is_dir():
            raise InputError(f"run_name={name}: {parent} (run_artifacts_dir) does not exist, so the run can't be found")
        why = f"There is no run {directory} in {parent}: it was never opened, so it holds nothing."
        job, workflow = (self.context.variables.get(key) for key in (cluster_settings.AWX_JOB, "awx_workflow_job_id"))
        if job is not None and name != str(workflow):
            # In a workflow, both nodes have its number, and the run may never have been opened.
            what = "is the number of this job itself" if name == str(job) else "is the number of no run"
            raise InputError(
                f"run_name '{name}' {what}: {parent} has no run {directory}. Answer run_name with the number of the"
                " workflow job, or of the job if it was launched alone, whose run is to be given back, or run_dir with"
                " its run directory"
            )
        if settings.get("run_repeat_failure"):
            raise InputError(f"{why} The job that was to open it shows why.")
        self.say(why)
        return {"only_settings": True, "run_dir": None}

    def _open(self, chosen: list[str], given_name: str = "") -> dict[str, Any]:
        project = self.context.project
        request = resumed_extra_vars.request_of_new_run(self.context.request(), self.context.extra)
        effective = self.context.effective(request)
        checked = self.check(request, effective, chosen, None)
        show_settings(self.context, effective, request, self.given_secrets(), self.say)
        names = self.context.describe_misnamed_extra_vars()
        for line in [*names, *self.context.replaced(request), *checked.warnings_of_unused_settings()]:
            self.say(f"  warning: {line}")
        if chosen == ["settings"]:
            show_points(self.context, effective, self.say)
            return self._result(None, effective, request, only_settings=True)
        run_id, presets = run_directory.new_id(), list(request.presets)
        name = given_name or run_directory.generated_directory_name(project, presets, run_id)
        parent = Path(effective.settings["run_artifacts_dir"])
        command = self.command()
        repeated = settings_from_run_directory.extra_vars_to_repeat(request, effective.settings)

        def fill(directory: Path) -> None:
            self._write(directory, effective, request)
            record = run_record.new_record(
                run_id, self.context.role, presets, [point.name for point in effective.points], command
            )
            record["roles"] = roles_read_by_project.roles_read_and_others(self.context.role, self.context.catalogue)
            record.update(recorded_path_and_inode(directory, parent / name))
            record["give_back"] = command.give_back(parent / name, project, self._tags_giving_back(), repeated)
            record["sessions"].append(self.new_session(record, record["started"], command, chosen))
            run_record.write_record(directory, record)
            files.replace_text(directory / "GIVE_BACK", record["give_back"] + "\n")

        directory = run_directory.create_run_directory(parent, name, fill)
        self.say(f"Run {run_id} in {directory}")
        self.say(f"  interrupted? {directory / 'GIVE_BACK'} holds the command that gives back")
        return self._result(directory, effective, request)

    def _continue(self, path: str, chosen: list[str]) -> dict[str, Any]:
        context = self.context
        directory = run_directory.check_existing_directory(path)
        received_run_directories.refuse_untrusted_directory(directory, context.extra, chosen)
        request = self.read_request(directory, chosen)
        asked = parse_preset_names(context.variables.get("preset"))
        settings_from_run_directory.refuse_other_project_or_presets(
            path, directory.name, request, context.project, asked
        )
        if self.is_beside(directory, chosen):
            return self._beside(directory, request)
        run_record.refuse_while_running(directory)
        words = {word: context.extra[word] for word in RESERVED if word in context.extra}
        if "bisect" in words:  # a later session may change a part of it, such as the budget
            words["bisect"] = {**repeat_and_bisect_keywords.bisect_keyword_of_request(request), **words["bisect"]}
        more = settings_from_ansible.extra_layer(context.extra, context.catalogue, words)
        earlier = run_record.read_record(directory)
        interrupted = point_states.point_when_interrupted(directory, earlier)
        request, dropped = resumed_extra_vars.continued_request_and_dropped_names(
            request, more, earlier.get("sessions", []), chosen
        )
        gives_back = set(chosen) <= give_back_on_exit.GIVING_BACK
        effective, left_out = context.effective_of_known(request) if gives_back else (context.effective(request), [])
        foreign_kubeconfigs.refuse_foreign_kubeconfigs(directory, context, effective, chosen)
        self.check(request, effective, chosen, directory)
        for line in left_out:
            self.say(f"  warning: {line}")
        if not left_out:
            point_attempts.refuse_changed_points(directory, effective.matrix_values())
        redone = self._redo(directory, effective, chosen)
        if chosen == ["settings"]:
            show_settings(self.context, effective, request, self.given_secrets(), self.say)
            show_points(self.context, effective, self.say, directory, redone)
            return self._result(directory, effective, request, only_settings=True)
        command = self.command()
        repeated = settings_from_run_directory.extra_vars_to_repeat(request, effective.settings)
        give_back = self._give_back_of(directory, earlier, command, repeated)
        held_resources.refuse_release_of_kept_cluster(directory, effective.settings, self.tags()[0], give_back)
        if left_out:  # the points and the request stay as they are
            settings_files.write_settings_file(
                directory / settings_from_run_directory.SETTINGS, effective.settings, context.catalogue.secrets
            )
        else:
            self._write(directory, effective, request)
        for point in redone:
            settings_files.create_further_attempt(directory, point, effective, context.catalogue.secrets)

        def edit(record: dict[str, Any]) -> None:
            run_record.refuse_while_running(directory)  # again: another session may have begun meanwhile
            for phase in record["phases"].values():
                if phase["status"] == "running":
                    phase["status"] = "interrupted"
            record["status"] = "running"
            record["give_back"] = give_back
            if not left_out:
                record["points"] = list(effective.matrix_values())
            session = self.new_session(record, run_record.format_utc_timestamp(), command, chosen)
            record["sessions"] = [*record.get("sessions", []), session]

        run_record.update_record(directory, edit)
        files.replace_text(directory / "GIVE_BACK", give_back + "\n")
        (directory / "FINISHED").unlink(missing_ok=True)
        if give_back_on_exit.TAKING & set(chosen):
            with contextlib.suppress(OSError):
                disk_reserve.reserve_space(directory)
        if dropped:
            self.say(f"Not taken over from the session that failed: -e {', '.join(dropped)}")
        return {**self._result(directory, effective, request), "interrupted": interrupted}

    def _tags_giving_back(self) -> list[str]:
        return [phase for phase in ("cleanup", "release") if phase in self.phases]

    def _give_back_of(
        self, directory: Path, record: Mapping[str, Any], command: run_record.CommandLine, repeated: Mapping[str, Any]
    ) -> str:
        """Return the command that gives back what a continued run holds.

        The first session knew inventories and files of secrets, but the command of a foreign directory is a stranger's.
        """
        if foreign_kubeconfigs.is_own_uncopied_directory(directory):
            return str(record["give_back"])
        repeated = {  # the other words of its request, and its overrides, are a stranger's
            **{name: value for name, value in repeated.items() if name in self.context.extra and name != "overrides"},
            **servers_named_by_foreign_runs.extra_vars_naming_external_resources(self.context.extra),
            **({received_run_directories.TRUST: True} if received_run_directories.TRUST in self.context.extra else {}),
        }
        return command.give_back(directory, self.context.project, self._tags_giving_back(), repeated)

    def _redo(self, directory: Path, effective: EffectiveSettings, chosen: list[str]) -> list[PlannedPoint]:
        """Return the further attempts that ``-e redo`` demands."""
        if "redo" not in self.context.extra:
            return []
        if "test" not in chosen and chosen != ["settings"]:
            raise InputError(f"-e redo= needs phase test, and --tags {','.join(chosen)} leaves it out")
        wanted = point_states.attempts_to_redo(directory, self.context.extra["redo"], list(effective.matrix_values()))
        if not wanted:
            self.say(f"redo={self.context.extra['redo']}: no point is to be measured again")
        return wanted

    def _beside(self, directory: Path, request: RequestedSettings) -> dict[str, Any]:
        """Report on a run while another session works on it, without changing that session's record."""
        if settings_from_ansible.extra_layer(self.context.extra, self.context.catalogue, {}).values:
            raise InputError(
                f"run {directory.name} is still being worked on: a report beside it takes no settings by -e"
            )
        settings = directory / settings_from_run_directory.SETTINGS
        known = self.context
        settings_from_run_directory.refuse_foreign_values(settings, known.catalogue.settings, known.templates(), None)
        run_id = run_record.read_record(directory)["id"]
        self.say(f"Run {run_id} is still running; this is the report of the results so far.")
        effective = known.effective(request)
        before = setting_templates.load_yaml_with_unsafe(settings)
        files_named_by_foreign_runs.refuse_foreign_machine_use(
            directory, known, [before], ["report"], [effective.settings]
        )
        foreign_kubeconfigs.refuse_foreign_kubeconfigs(directory, known, effective, ["report"])
        self.read_secrets(effective, ["report"], False, directory)
        return {**self._result(directory, effective, request), "beside": True}

    def _write(
        self,
        directory: Path,
        effective: EffectiveSettings,
        request: RequestedSettings,
        own_files: Collection[str] = frozenset(),
    ) -> None:
        settings_files.write_all_settings_files(
            directory, effective, request, self.context.catalogue.secrets, self.given_secrets(), own_files
        )

    def _result(
        self,
        directory: Path | None,
        effective: EffectiveSettings,
        request: RequestedSettings,
        only_settings: bool = False,
    ) -> dict[str, Any]:
        return {
            "only_settings": only_settings,
            "beside": False,
            "run_dir": str(directory) if directory else None,
            "run_id": run_record.read_record(directory)["id"] if directory else None,
            "points": [point.name for point in effective.points],
            "repeat": effective.repeat,
            "bisect": effective.bisect,
            "most_points": repeat_and_bisect_keywords.most_point_loop_rounds(directory, effective),
            "presets": list(request.presets),
            "late": list(effective.late),
            "pre_cleanup": effective.pre_cleanup,
            "gives_back": give_back_on_exit.phases_that_release_resources(
                self.chosen_phases(), self.phases, effective.settings
            ),
            "keep_failed": bool(effective.settings.get("cluster_keep_failed")),
            "interrupted": None,
        }
