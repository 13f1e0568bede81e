# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks before a run directory is created: phases that can't run, missing files and clusters, checks of roles."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    suggest_nearest_file,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import ClusterTarget
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import PROVIDERS, provider_by_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_dir
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import http_transport, opensearch_connection, s3

from . import (
    cluster_settings,
    point_loads,
    project_role,
    repeat_and_bisect_keywords,
    verdict_setting_checks,
    workload_template_checks,
)
from .checks_declared_by_roles import first_refused_setting, read_checks
from .resolve_settings import EffectiveSettings
from .setting_templates import Render
from .settings_catalogue import Catalogue
from .settings_layers import RequestedSettings

#: Settings of the export, and what raises InputError for a value to which nothing can be exported.
_EXPORT_CHECKS: dict[str, Callable[[str], object]] = {
    "export_s3_url": s3.parse_s3_url,
    "export_opensearch_url": opensearch_connection.OpenSearchServer,
    "export_opensearch_index_prefix": opensearch_connection.check_index_prefix,
    "export_mlflow_url": lambda url: http_transport.check_url_usable_and_secure("MLflow", url, https_only=True),
    "export_otlp_url": lambda url: http_transport.check_url_usable_and_secure(
        "the OTLP receiver", url, https_only=True
    ),
}


ROOT = project_role.ROOT
#: Roles that every run uses: their meta/checks.yml hold for all projects.
OF_EVERY_RUN = ("cluster", "fake_gpu", "metrics", "node_scaling", "rhoai", "workload")
#: The role that leases machines. Its checks hold for runs that lease some.
LEASE_ROLE = "quads_lease"
#: Phases that use a cluster, and those that acquire one.
ON_CLUSTER = ("prepare", "test")
TAKING = ("cluster", "acquire")
#: Phases for which all checks hold. Of them, phase cluster alone needs those of the settings of these roles.
CHECKED = ("install", "prepare", "test")
CLUSTER_ROLES = ("cluster", "fake_gpu", "node_scaling", "rehearsal")
#: Phases that need the results of earlier ones, and settings that name such results without a run directory.
AFTERWARDS = ("report", "cleanup", "release", "export", "wait", "inventory")
NAMED_OTHERWISE = ("cluster_release_named", "quads_lease_id", "quads_lease_adopt")

#: Free bytes that a small run needs: its directory, and its rehearsal cluster (etcd reserves 128 MB for its log).
RUN_SPACE, CLUSTER_SPACE = 20_000_000, 300_000_000

#: The name of a namespace (RFC 1123).
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _why_unusable(path: Path, needed: int) -> str:
    """Return why files of ``needed`` bytes can't be created in a folder that may not exist; empty if they can."""
    there = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    if not there.is_dir():
        return f"{there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} can't be written to by this user"
    free = shutil.disk_usage(there).free
    if free < needed:
        return f"{free / 1e6:.0f} MB are free there, and at least {needed / 1e6:.0f} MB are needed"
    return ""


@dataclass(frozen=True)
class PreflightInput:
    """A request with its effective settings, the phases that will run, and all phases of the playbook."""

    request: RequestedSettings
    found: EffectiveSettings
    catalogue: Catalogue
    render: Render
    chosen: list[str]
    variables: Mapping[str, Any]
    phases: Sequence[str] = ()

    def check(self, run_dir: Path | None) -> None:
        """Raise InputError for the first problem that would stop a phase. run_dir: that of the run to continue."""
        if run_dir is None:
            self._refuse_without_run()
        self._refuse_without_cluster(run_dir)
        self._refuse_unknown_host()
        if run_dir is None:
            self._refuse_unusable_folder("run_artifacts_dir", "run directory", RUN_SPACE, "ARTIFACT_DIR")
        # With --tags settings, the input of the whole run is checked.
        planned = self.phases if self.chosen == ["settings"] and run_dir is None else self.chosen
        self._refuse_missing_files(planned)
        self._refuse_wrong_namespaces()
        self._refuse_wrong_export_targets()
        if "report" in self.chosen or self.chosen == ["settings"]:
            self._refuse_wrong_verdict()
            verdict_setting_checks.check_history_settings(self.found, self._set_by)
        self._refuse_what_roles_refuse(self.phases if self.chosen == ["settings"] else self.chosen)
        if "test" in self.chosen or self.chosen == ["settings"]:
            self._refuse_points_with_other_nodes()
        if "test" in self.chosen:
            self._refuse_impossible_load()
        repeat_and_bisect_keywords.check_schedule_keywords(self.request.project, self.found, self.catalogue.roles)
        if run_dir is not None and any(phase in planned for phase in (*TAKING, *ON_CLUSTER)):
            cluster_settings.refuse_other_clusters(run_dir, self._targets(), "rehearsal_name" in self._given())
        if any(phase in planned for phase in TAKING):
            self._refuse_wrong_cluster()

    def _refuse_wrong_export_targets(self) -> None:
        """Refuse addresses and names of indexes to which a run could not be exported after its load."""
        for name, check in _EXPORT_CHECKS.items():
            value = str(self.found.settings.get(name) or "")
            if name in self.found.late or not (value or name.endswith("_prefix")):  # an empty address: no export
                continue
            try:
                check(value)
            except InputError as error:
                raise InputError(f"{name}: {error}{self._set_by(name)}") from error

    def _refuse_wrong_verdict(self) -> None:
        try:
            verdict_setting_checks.check_verdict_settings(self.request, self.found, self.catalogue.roles)
        except InputError as error:
            raise InputError(f"{error}{self._set_by(error.setting)}") from error

    def _refuse_without_run(self) -> None:
        phases = [phase for phase in self.chosen if phase != "settings"]
        if not phases or any(phase not in AFTERWARDS for phase in phases):
            return
        if self._given() & set(NAMED_OTHERWISE):
            return
        how = "give its directory, -e run_dir=<directory>"
        if cluster_settings.AWX_JOB in self.variables:
            how = "answer run_name with the number of its job or workflow job, or run_dir with its run directory"
        raise InputError(f"--tags {','.join(phases)} works on what an earlier run left, and no run is named: {how}")

    def _refuse_without_cluster(self, run_dir: Path | None) -> None:
        asked = [phase for phase in ON_CLUSTER if phase in self.chosen]
        if not asked or "cluster" in self.chosen:
            return
        states = (
            {record["state"]: record for record in clusters_of_run.read_cluster_records(run_dir).values()}
            if run_dir
            else {}
        )
        if states and set(states) == {"acquired"}:
            return
        why = "this run has none"
        if "failed" in states:
            why = f"the one of this run failed ({states['failed'].get('failure', 'no message')})"
        elif "released" in states:
            why = "this run has given its own back"
        elif "acquiring" in states:
            why = "the one of this run was never ready"
        tags = ",".join(["cluster", *ON_CLUSTER[: ON_CLUSTER.index(asked[-1]) + 1]])
        other = "" if run_dir else ", or go on with a run that has one, -e run_dir=<directory>"
        raise InputError(f"phase {asked[0]} needs a cluster, and {why}: take one first, --tags {tags}{other}")

    def _refuse_unusable_folder(self, name: str, what: str, needed: int, variable: str) -> None:
        """Refuse a folder in which ``what`` can't be created. variable: of the environment, sets the default.

        Nothing is created here: a folder that can't be created for another reason is found when it is.
        """
        path = Path(self.found.settings[name]).expanduser()
        if why := _why_unusable(path, needed):
            by = self._set_by(name) or (
                f" (set by the environment variable {variable})" if os.environ.get(variable) else ""
            )
            raise InputError(f"{name}: no {what} can be created in {path}{by}: {why}")

    def _refuse_unknown_host(self) -> None:
        """Only the inventory knows on which hosts the load can run."""
        known = ["controller", "driver_pod", *(self.variables.get("groups") or {}).get("all", [])]
        for settings in [point.settings for point in self.found.measured]:
            host = settings.get("workload_run_on", "controller")
            if "test" in self.chosen and "workload_run_on" not in self.found.late and host not in known:
                raise InputError(
                    f"workload_run_on is '{host}'{self._set_by('workload_run_on')}, and the inventory has no such host"
                    f"{suggest_similar_name(host, known)}; there are {', '.join(known)}"
                )

    def _refuse_missing_files(self, phases: Sequence[str]) -> None:
        for name, where, settings in self._files(phases):
            path = Path(where)
            if not path.exists():
                raise InputError(f"{name}: there is no {path}{suggest_nearest_file(path)}{self._set_by(name)}")
            if name.endswith("_workload_template"):
                self._refuse_broken_template(name, path, settings)

    def _refuse_broken_template(self, name: str, path: Path, settings: Mapping[str, Any]) -> None:
        about = self._needed()[name]
        setting = f"{name.removesuffix('workload_template')}stages"
        places = [folder / "files" / "kinds" for folder in self.catalogue.roles.values()]
        try:
            stages = workload_template_checks.stage_definitions_of_load(about, settings, self.render, places)
            workload_template_checks.check_workload_template(path, about.get("variables") or (), stages, setting)
        except InputError as error:
            raise InputError(f"{name}: {error}{self._set_by(name)}") from error

    def _files(self, phases: Sequence[str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield (setting, path, settings) of the files that these phases read, for each point."""
        for name, when in self._needed().items():
            if name in self.found.late or not any(phase in phases for phase in when["phases"]):
                continue
            for point in self.found.measured:
                condition = "{{ (" + str(when.get("when", True)) + ") | bool }}"
                if self.render(condition, point.settings)[0] is not True:
                    continue
                value = point.settings.get(name)
                for path in value if isinstance(value, list) else [value]:
                    if path:
                        yield name, str(path), point.settings

    def _needed(self) -> dict[str, dict[str, Any]]:
        """Return the settings of meta/files.yml, and the kubeconfigs that were set for single roles."""
        roles = {
            name: {"phases": ON_CLUSTER}
            for name in self._given()
            if name.endswith("_kubeconfig") and not name.startswith(("cluster_", "doctor_"))
        }
        return {**roles, **self.catalogue.files}

    def _refuse_wrong_namespaces(self) -> None:
        """An API server would refuse such a name, but only when the cluster is there."""
        names = {name for name in self._given() - set(self.found.late) if name.endswith("_namespace")}
        for name, point in ((name, point) for name in sorted(names) for point in self.found.measured):
            value = point.settings.get(name)
            if value and not _NAMESPACE.fullmatch(str(value)):
                raise InputError(
                    f"{name}: '{value}' can't be the name of a namespace"
                    f" (lower-case letters, digits and dashes, at most 63){self._set_by(name)}"
                )

    def _refuse_what_roles_refuse(self, phases: Sequence[str]) -> None:
        checks = [*self._checks_of_phases(phases), *(self._checks_of(LEASE_ROLE) if self._leases(phases) else ())]
        for point in self.found.measured:
            if problem := first_refused_setting(checks, point.settings, self.render):
                name, why = problem
                where = f"point {point.name}: " if len(self.found.measured) > 1 else ""
                raise InputError(f"{where}{why}{self._set_by(name)}")

    def _checks_of_phases(self, phases: Sequence[str]) -> list[dict[str, Any]]:
        """Return the checks that concern these phases, without those of a lease."""
        checks = [check for role in (self.request.project, *OF_EVERY_RUN) for check in self._checks_of(role)]
        if any(phase in phases for phase in CHECKED):
            return checks
        if "cluster" not in phases:
            return []
        return [check for check in checks if self.catalogue.role_of(check.get("setting", "")) in CLUSTER_ROLES]

    def _leases(self, phases: Sequence[str]) -> bool:
        """Return whether one of these phases leases machines."""
        if self.request.project == "lease":
            return "acquire" in phases
        return "lease" in phases and self.found.settings.get("cluster_machines") != "none"

    def _checks_of(self, role: str) -> list[dict[str, Any]]:
        folder = self.catalogue.roles.get(role)
        return read_checks(folder / "meta" / "checks.yml") if folder else []

    def _refuse_points_with_other_nodes(self) -> None:
        """At a point, number and size of nodes may be others; what they are is decided when the cluster is acquired."""
        simulated = any(provider_by_name(target.provider).simulated for target in self._targets())
        if simulated:
            cluster_settings.check_kubernetes_of_points(project_role.COMPONENTS, self._known(), self.found.measured)
        for point in self.found.measured:
            for name in (name for name in point.values if name.startswith(point_loads.NODE_PREFIXES)):
                if name.partition(".")[0] not in point_loads.NODE_SETTINGS:
                    raise InputError(
                        f"point {point.name} sets {name}, which is decided before the first point: make a run for each"
                        f" value. At points, the cluster can have another {', '.join(point_loads.NODE_SETTINGS)}"
                    )
                if name.startswith("rehearsal_") and not simulated:
                    raise InputError(
                        f"point {point.name} sets {name}, and cluster_provider"
                        f" {self.found.settings.get('cluster_provider')} does not run components"
                    )
                added = simulated or point.settings.get("fake_gpu_real_cluster")
                if name.startswith("fake_gpu_") and not added:
                    raise InputError(
                        f"point {point.name} sets {name}, and cluster_provider"
                        f" {self.found.settings.get('cluster_provider')} has no simulated nodes:"
                        " set node_scaling_count, or fake_gpu_real_cluster"
                    )

    def _refuse_impossible_load(self) -> None:
        """Raise InputError for an invalid load, and for one that can't run on the nodes that the run will create."""
        folder = self.catalogue.roles.get(self.request.project)
        unfit = point_loads.first_point_that_cannot_run(folder, self.found.measured, self.render) if folder else ""
        asks = self.found.settings.get("doctor_fail", True)
        # A named rehearsal cluster may have more nodes.
        if unfit and asks and "cluster" in self.chosen and "rehearsal_name" not in self._given():
            names = ("fake_gpu_nodes", "fake_gpu_gpus_per_node")
            nodes = " or ".join(f"{name} ({self.found.settings[name]})" for name in names)
            raise InputError(f"{unfit}; ask for less, or change {nodes}; doctor_fail=false runs it anyway")

    def _refuse_wrong_cluster(self) -> None:
        try:
            targets = self._targets()
            cluster_names = clusters_of_run.assign_cluster_names(targets, "")
            for target, name in zip(targets, cluster_names, strict=True):
                cluster_settings.lifetime_seconds_of_new_cluster(target)
                if "cluster_kubeconfig" not in self.found.late:
                    provider_by_name(target.provider).check(target)
                if provider_by_name(target.provider).simulated:
                    if "rehearsal_data_dir" not in self.found.late:
                        self._refuse_unusable_folder(
                            "rehearsal_data_dir", "rehearsal cluster", CLUSTER_SPACE, "XDG_STATE_HOME"
                        )
                    if target.chosen.get("rehearsal_name"):
                        instance_dir.InstancePaths(".", name)
            if any(provider_by_name(target.provider).simulated for target in targets):
                self._refuse_missing_programs()
        except InputError as error:
            raise InputError(f"{error}{self._set_by(error.setting)}") from error

    def _refuse_missing_programs(self) -> None:
        """Raise InputError for components, of any point, whose programs the rehearsal cluster can't get."""
        job = self.variables.get(cluster_settings.AWX_JOB)
        role = self.catalogue.roles.get(self.request.project)
        places = [role / "files" / "kinds"] if role else []
        trees = [point.settings for point in self.found.measured]
        of_kinds = point_loads.components_of_kinds(role, trees, self.render) if role else []
        for settings in self._with_versions_of_points():
            cluster_settings.check_component_programs(
                project_role.COMPONENTS, settings, self._given(), job, self._set_by, places, of_kinds
            )

    def _known(self) -> dict[str, Any]:
        """Return the settings whose values are known before the run."""
        return {name: value for name, value in self.found.settings.items() if name not in self.found.late}

    def _with_versions_of_points(self) -> list[dict[str, Any]]:
        """Return the settings that are known before the run, once for each choice of versions of components."""
        known = self._known()
        choices = [known]
        for point in self.found.measured:
            versions = {name: point.settings.get(name) for name in point_loads.VERSION_SETTINGS}
            choice = {**known, **versions}
            if any(versions.values()) and choice not in choices:
                choices.append(choice)
        return choices

    def _targets(self) -> list[ClusterTarget]:
        """Return the clusters to acquire. Raises InputError for an unknown provider."""
        everyone = {
            name: value for layer in self.request.layers_of_kind("inventory") for name, value in layer.values.items()
        }
        hostvars = self.variables.get("hostvars") or {}
        return cluster_settings.cluster_targets(self.catalogue, self._known(), hostvars, everyone)

    def warnings_of_unused_settings(self) -> list[str]:
        """Return a warning for each setting by ``-e`` that only another provider of clusters uses."""
        if self.chosen != ["settings"] and not any(phase in self.chosen for phase in TAKING):
            return []
        targets = self._targets()
        used_by = [provider_by_name(target.provider) for target in targets]
        chosen = " and ".join(dict.fromkeys(target.provider for target in targets))
        warnings = []
        for name in (
            name for layer in self.request.layers_of_kind("extra") for name, value in layer.values.items() if value
        ):
            others = [provider.name for provider in PROVIDERS.values() if provider.uses(name)]
            if others and not any(provider.uses(name) for provider in used_by):
                warnings.append(
                    f"{name} (set by -e) has no effect on which cluster is used: it is for cluster_provider="
                    f"{'|'.join(others)}, and the provider is {chosen}"
                )
        return warnings

    def _given(self) -> set[str]:
        """Return the settings that some layer sets."""
        return {str(change.path[0]) for change in self.found.resolved.changes}

    def _set_by(self, name: str) -> str:
        """Return the source of a value in brackets; an empty string for a default."""
        changes = [change for change in self.found.resolved.changes if change.path[0] == name]
        if not changes:
            return ""
        where = self.request.where(changes[-1].source, changes[-1].key)
        return f" (set by {changes[-1].source}{f', {where}' if where and not where.startswith('<') else ''})"
