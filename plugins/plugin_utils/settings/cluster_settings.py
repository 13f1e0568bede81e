# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster settings and inventory values in their declared types, and the clusters that they select.

Checked before a run begins, and again when the clusters are acquired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_nearest_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import extra_vars_shell_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import (
    ACCESS_SETTINGS,
    AccessSettings,
    ClusterTarget,
    release_arguments,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import DEFAULT, provider_by_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_spec,
    component_versions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_selection import (
    RehearsalOptions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import parse_duration

from . import workload_kinds
from .convert_setting_values import coerce_to_declared_type
from .resolve_settings import MatrixPoint
from .settings_catalogue import Catalogue

TASKS = Path(__file__).parents[3] / "roles" / "cluster" / "tasks"
#: The rehearsal cluster that playbooks/rehearsal.yml creates. A run uses it only if ``-e`` names it.
TOOLS_INSTANCE = "default"


def is_cluster_setting(known: Catalogue, name: str) -> bool:
    """Return whether a variable is a setting of a cluster that may be recorded."""
    return clusters_of_run.is_cluster_setting(name) and name in known.settings and not known.settings[name].secret


def setting_in_declared_type(known: Catalogue, name: str, value: Any, where: str = "cluster") -> Any:
    """Return a setting in its declared type: ``-e name=value`` gives text."""
    plain = files.to_plain_types(value)
    if name == "cluster_provider" or plain in (None, ""):
        return plain  # an unknown one is refused later, with the list of the known ones
    return coerce_to_declared_type(known.settings[name], plain, where)


def cluster_settings_of_play(
    known: Catalogue, variables: Mapping[str, Any], template: Callable[[Any], Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the cluster settings of a play. variables: those of a task; extra: those of ``-e``."""
    settings = {name: template(value) for name, value in variables.items() if is_cluster_setting(known, name)}
    if settings.get("rehearsal_name") == TOOLS_INSTANCE and "rehearsal_name" not in extra:
        settings.pop("rehearsal_name")
    return settings


def create_kubeconfig_settings_lookup(
    variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any]
) -> Callable[[str], AccessSettings]:
    """Return a function that returns the kubeconfig settings of the current session for a host.

    variables: those of a task, with hostvars. extra: those of ``-e``.
    """

    def texts(values: Mapping[str, Any]) -> dict[str, str]:
        return {name: str(template(values.get(name)) or "") for name in ACCESS_SETTINGS}

    hosts = variables.get("hostvars") or {}
    run, extra_values = texts(variables), texts(extra)
    return lambda host: AccessSettings(texts(hosts[host]) if host in hosts else texts({}), run, extra_values)


def refuse_missing_inventories(sources: Iterable[Any]) -> None:
    """Raise InputError for an inventory of the command line that is not there: Ansible goes on without it."""
    from ansible import constants

    for source in sources:
        named = isinstance(source, str) and "," not in source and source not in constants.DEFAULT_HOST_LIST
        if named and not Path(source).exists():
            raise InputError(f"-i {source}: there is no such inventory{suggest_nearest_file(Path(source))}")


def inventory_values_in_request(run_dir: str) -> dict[str, Any]:
    """Return the raw values that the inventory gives to localhost too, from the run's request."""
    path = Path(run_dir) / "request.yml"
    layers = files.read_yaml(path)["layers"] if path.exists() else []
    return {name: value for layer in layers if layer["kind"] == "inventory" for name, value in layer["values"].items()}


def cluster_targets(
    known: Catalogue, values: Mapping[str, Any], hostvars: Any, everyone: Mapping[str, Any]
) -> list[ClusterTarget]:
    """Return the clusters to acquire. Raises InputError for an unknown provider.

    values: effective settings. hostvars: Ansible's, in which the inventory may have the hosts sutest and driver.
    everyone: raw values that the inventory gives to every host.
    """
    settings = {
        name: setting_in_declared_type(known, name, value)
        for name, value in values.items()
        if is_cluster_setting(known, name)
    }
    settings.setdefault("cluster_provider", DEFAULT)
    own: dict[str, dict[str, Any]] = {}
    for host in (host for host in clusters_of_run.HOSTS if host in hostvars):
        chosen = clusters_of_run.host_specific_settings(hostvars.raw_get(host), everyone)
        own[host] = {
            name: setting_in_declared_type(known, name, hostvars[host][name], host)
            for name in chosen
            if is_cluster_setting(known, name)
        }
    return clusters_of_run.clusters_to_acquire(settings, own)


def refuse_other_clusters(run_dir: Path, targets: Sequence[ClusterTarget], named: bool) -> None:
    """Raise InputError for other clusters than the run has used or still holds: its results are of those.

    named: whether some layer gives rehearsal_name. An existing cluster may have another kubeconfig by now.
    """
    records = clusters_of_run.read_cluster_records(run_dir)
    names = clusters_of_run.assign_cluster_names(targets, "")
    for target, name in zip(targets, names, strict=True):
        host = target.hosts[0]
        record = records.get(host)
        if record and record["state"] != "released" and record["provider"] != target.provider:
            raise InputError(
                f"cluster_provider is {target.provider}, and this run still holds {record['provider']} cluster"
                f" {clusters_of_run.cluster_display_name(record)} for {host}: release it first"
                f" ({release_arguments(run_dir)})"
            )
        before = record.get("name") if record and provider_by_name(record["provider"]).simulated else None
        if named and before and provider_by_name(target.provider).simulated and name != before:
            raise InputError(
                f"rehearsal_name gives cluster '{name}', and this run used rehearsal cluster '{before}': a run keeps"
                f" the name of its cluster. Give {extra_vars_shell_text({'rehearsal_name': before})}, or leave it out"
            )


def lifetime_seconds_of_new_cluster(target: ClusterTarget) -> float:
    """Return the lifetime of a cluster that is created now, in seconds; 0 means unlimited. Raises InputError."""
    return parse_duration(target.chosen.get("cluster_lifetime", "12h"), "cluster_lifetime")


def initial_cluster_records(targets: Sequence[ClusterTarget], run_id: str) -> list[dict[str, Any]]:
    """Return the record of each target before it is acquired. Raises InputError for one that can't be acquired."""
    now = time.time()
    records = []
    for target, name in zip(targets, clusters_of_run.assign_cluster_names(targets, run_id), strict=True):
        seconds = lifetime_seconds_of_new_cluster(target)
        ownership = {
            "owner": str(target.chosen.get("cluster_owner") or run_id),
            "purpose": str(target.chosen.get("cluster_purpose", "")),
            "taken": format_utc_timestamp(now),
            "expires": format_utc_timestamp(now + seconds) if seconds else None,
        }
        records.append(provider_by_name(target.provider).initial_record(target, name, ownership))
    return records


def result_of_cluster_targets(
    target: ClusterTarget, values: Mapping[str, Any], record: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a target as module cluster_targets returns it. values: its initial record; record: the one in the file."""
    return {
        "hosts": list(target.hosts),
        "settings": target.chosen,
        "steps": clusters_of_run.steps_of_provider(TASKS, target.provider),
        "acquired": provider_by_name(target.provider).creates and record.get("state") == "acquired",
        **values,
    }


def check_kubernetes_of_points(folder: Path, settings: Mapping[str, Any], points: Iterable[MatrixPoint]) -> None:
    """Raise InputError for a point with another version of Kubernetes than the cluster of the run.

    Other components are restarted before a point; the data of an API server is of its version. folder: of components.
    """
    control_plane = component_spec.load_component(folder / component_spec.CONTROL_PLANE_COMPONENT)

    def release(values: Mapping[str, Any]) -> str:
        versions = values.get(component_versions.VERSIONS)
        return component_versions.chosen_release_of_component(
            control_plane, versions if isinstance(versions, Mapping) else {}
        )

    of_run = release(settings)
    for point in points:
        if (version := release(point.settings)) != of_run:
            raise InputError(
                f"point {point.name} has {control_plane.name} {version}, and the cluster of the run {of_run}"
                " (rehearsal_versions): another version of Kubernetes needs a new cluster, so make a run for each",
                setting=component_versions.VERSIONS,
            )


#: AWX passes this variable to each of its jobs.
AWX_JOB = "awx_job_id"
#: Who sets one of these has a place for programs that outlives the job's container.
PROGRAM_PLACES = ("rehearsal_cache_dir", "rehearsal_download_url")


def check_component_programs(
    folder: Path,
    settings: Mapping[str, Any],
    given_names: Collection[str],
    job: object,
    set_by: Callable[[str], str],
    places: Sequence[Path] = (),
    of_kinds: Sequence[str] = (),
) -> None:
    """Raise InputError for an unknown component, or if programs would be built in the container of a job of AWX.

    folder: of the components. given_names: settings that some layer sets. job: id of the job, None outside of AWX.
    set_by: returns the source of a setting in brackets. places: folders with kinds of workloads of the project.
    of_kinds: components that the kinds of the workloads need.
    """
    prefix = "rehearsal_"
    values = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    if isinstance(values.get("components"), list):
        values["components"] = workload_kinds.replace_kinds_with_component_folders(
            [*values["components"], *of_kinds], folder, places
        )
    options = RehearsalOptions.of({**values, "name": "", "components_dir": str(folder)})
    components = options.select_checked(options.components)
    if job is None or any(name in given_names for name in PROGRAM_PLACES):
        return
    lacking = cached_and_user_programs.components_without_programs(components, options.program_sources)
    if lacking:
        minutes = sum(component.build.minutes for component in lacking)
        names = formats.join_with_and([component.name for component in lacking])
        raise InputError(
            f"cluster_provider is rehearsal{set_by('cluster_provider') or ' (the default)'}, and this job of AWX has"
            f" no programs for {names}: building them takes up to {minutes:.0f} min and is lost with the job's"
            " container. Set cluster_provider=existing and a credential with a kubeconfig, or rehearsal_cache_dir to a"
            " folder of a volume"
        )
