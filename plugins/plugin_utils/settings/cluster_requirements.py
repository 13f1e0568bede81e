# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles of a project need of a cluster (their meta/doctor.yml), rendered with the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import choose_next_point

from . import (
    project_role,
    read_workload_files,
    resolve_settings,
    secrets_inside_settings,
    setting_templates,
    settings_from_ansible,
    workload_kinds,
)
from .setting_templates import Render
from .settings_from_ansible import SettingsContext

ROLES = project_role.ROOT / "roles"
#: Roles that every project uses.
COMMON = ("cluster", "stack", "workload", "cleanup", "metrics")
#: Phases that are over when a run examines its cluster.
BEFORE = ("settings", "lease", "cluster")

Document = Mapping[str, Any]


def selected_phases_with_cluster(phases: Sequence[str], variables: Mapping[str, Any]) -> list[str]:
    """Return those of ``phases`` that --tags and --skip-tags leave, without those before there is a cluster."""
    tags = (list(variables.get(name) or []) for name in ("ansible_run_tags", "ansible_skip_tags"))
    return [
        phase for phase in settings_from_ansible.phases_selected_by_tags(list(phases), *tags) if phase not in BEFORE
    ]


@dataclass(frozen=True)
class ExaminedRun:
    """Settings of a run and of each of its points, what renders templates with them, its id and its heavy presets.

    Secrets in the settings are masked: what is written about a cluster has none.
    """

    settings: Mapping[str, Any]
    points: Mapping[str, Mapping[str, Any]]
    render: Render
    run_id: str
    heavy: Sequence[str] = ()

    @classmethod
    def resolve(
        cls, project: str, variables: Mapping[str, Any], extra: Mapping[str, Any], loader: Any, templar: Any
    ) -> ExaminedRun:
        """Resolve the settings as a run would; its id and its point are known too, for names that contain them."""
        run_id = "doctor"
        more: dict[str, Any] = {"run_id": run_id, "run_point": "001"}
        more["cluster_acquired"] = {"sutest": {"simulated_writers": []}}
        context = SettingsContext.of(project, variables, extra, loader, templar, **more)
        request = context.request()
        effective = context.effective(request)
        points = {point.name: secrets_inside_settings.mask_settings(point.settings) for point in effective.measured}
        return cls(
            secrets_inside_settings.mask_settings(effective.settings),
            points,
            context.render,
            run_id,
            resolve_settings.heavy_presets(request),
        )

    @classmethod
    def read(cls, directory: Path, variables: Mapping[str, Any], templar: Any) -> ExaminedRun:
        """Read the settings that this session has written. Names that only the run defines are templates in them."""
        read = setting_templates.load_yaml_with_unsafe
        values = read(directory / "settings.yml")
        attempts = [
            attempt.name
            for attempt in choose_next_point.read_attempts(directory)
            if attempt.status in choose_next_point.OPEN
        ]
        points = {name: read(directory / "points" / name / "settings.yml") for name in attempts}
        known = {"run_point": "001"} | {key: value for key, value in variables.items() if key not in values}
        return cls(values, points, setting_templates.create_template_renderer(templar, known), str(variables["run_id"]))


def read_doctor_files(project: str, required: bool) -> list[Document]:
    """Return the meta/doctor.yml of the common roles and of the project's role, which is the last one.

    project: name of the role, in full for one of another collection.

    Raises InputError with the nearest name if the project has none and it is ``required``.
    """
    own = project_role.find_role(project).folder
    paths = [folder / "meta" / "doctor.yml" for folder in (*(ROLES / role for role in COMMON), own)]
    if required and not paths[-1].exists():
        known = sorted({path.parents[1].name for path in ROLES.glob("*/meta/doctor.yml")} - set(COMMON))
        raise InputError(
            f"project '{project}' has no roles/{own.name}/meta/doctor.yml{suggest_similar_name(project, known)}; "
            f"there are: {', '.join(known)}"
        )
    return [files.read_yaml(path) or {} for path in paths if path.exists()]


def requirements_to_check(
    documents: Sequence[Document],
    run: ExaminedRun,
    phases: Sequence[str],
    find: workload_kinds.Find,
    project: str,
) -> dict[str, Any]:
    """Return the requirements that module doctor checks in ``phases``.

    Args:
        documents: the meta/doctor.yml of the roles, that of the project last.
        run: its settings.
        phases: names of phases.
        find: finds the file of a trace.
        project: name of its role, which may have kinds of workloads of its own.
    """
    values, render = run.settings, run.render
    own = documents[-1] if documents else {}
    # Each point of a matrix may have another kind of workload.
    trees = list(run.points.values()) or [values]

    def planned(settings: Mapping[str, Any]) -> dict[str, Any]:
        plan = render(own["plan"], settings)[0]
        return {
            **plan,
            "arrival": read_workload_files.arrival_with_trace(
                plan.get("arrival"), read_workload_files.with_working_directory_fallback(find)
            ),
        }

    places = workload_kinds.kind_folders_of_project(project)
    kinds, permissions, conflicts = _requirements_of_workloads(documents, trees, render, places)
    return {
        "permissions": _each_once(_render_applicable_entries(documents, "permissions", trees, render) + permissions),
        "kinds": _each_once(_render_unique_texts(documents, "kinds", trees, render) + kinds),
        "conflicts": _each_once(conflicts),
        "alternatives": _alternative_kinds(own, trees, render, places),
        "namespaces": _render_unique_texts(documents, "namespaces", trees, render),
        "storage_classes": _render_unique_texts(documents, "storage_classes", trees, render),
        "points": {name: planned(settings) for name, settings in run.points.items()} if own.get("plan") else {},
        # Within a run, phase cluster has created its nodes already.
        "nodes": [
            entry
            for entry in _render_applicable_entries(documents, "nodes", [values], render)
            if _are_nodes_created_in(entry, phases)
        ],
        "installs": ", ".join(_software_installed_by_roles(documents, values, render)) if "prepare" in phases else "",
        "heavy": list(run.heavy),
        "run_id": run.run_id,
        "exclusive": bool(values.get("cluster_exclusive")),
    }


def _requirements_of_workloads(
    documents: Sequence[Document], trees: Sequence[Mapping[str, Any]], render: Render, places: Sequence[Path]
) -> tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return kinds, permissions and conflicts of the kinds of workloads that the documents name."""
    kinds: list[str] = []
    permissions: list[dict[str, Any]] = []
    conflicts: list[dict[str, Any]] = []
    for settings in trees:
        for document in documents:
            created, watched = (render(document.get(key) or [], settings)[0] for key in ("workloads", "watches"))
            kinds += workload_kinds.kinds_required_on_cluster(created, watched, places)
            permissions += workload_kinds.permissions_required_by_load(created, watched, places)
            conflicts += workload_kinds.conflicts_of_load(created, watched, places)
    return kinds, permissions, conflicts


def _alternative_kinds(
    document: Document, trees: Sequence[Mapping[str, Any]], render: Render, places: Sequence[Path]
) -> list[dict[str, Any]]:
    """Return settings whose values are names of kinds: the values that are set, and the kinds of those that may be."""
    entries: list[dict[str, Any]] = []
    for name, values in (document.get("alternatives") or {}).items():
        names = _each_once([value for settings in trees for value in render(values, settings)[0]])
        kinds = {value: workload_kinds.load_kind_by_name_or_path(value, places) for value in names}
        entries.append(
            {
                "setting": name,
                "used": _each_once([tree[name] for tree in trees]),
                "kinds": {value: " or ".join(kind.references) for value, kind in kinds.items()},
                "required": {value: workload_kinds.kinds_required_on_cluster([value], [], places) for value in names},
                "install": {value: kind.install or kind.kind for value, kind in kinds.items()},
            }
        )
    return entries


def _each_once(values: list[Any]) -> list[Any]:
    return [value for number, value in enumerate(values) if value not in values[:number]]


def _are_nodes_created_in(entry: dict[str, Any], phases: Sequence[str]) -> bool:
    """Return whether one of the phases creates the nodes of an entry; removes the name of the phase from it."""
    return entry.pop("phase", "cluster") in phases


def _software_installed_by_roles(documents: Sequence[Document], values: Mapping[str, Any], render: Render) -> list[str]:
    """Return what the roles install, each role a text; roles that install nothing are left out."""
    texts = [render(document["installs"], values)[0] for document in documents if document.get("installs")]
    return [str(text) for text in texts if text]


def _render_applicable_entries(
    documents: Sequence[Document], key: str, trees: Sequence[Mapping[str, Any]], render: Render
) -> list[dict[str, Any]]:
    """Return the entries of all documents whose ``when`` holds, rendered with each of these settings, each once."""
    entries: list[dict[str, Any]] = []
    for values in trees:
        for template in (entry for document in documents for entry in document.get(key) or ()):
            when = template.get("when", True)
            if when is not True and render("{{ (" + str(when) + ") | bool }}", values)[0] is not True:
                continue
            entry = {name: render(value, values)[0] for name, value in template.items() if name != "when"}
            if entry not in entries:
                entries.append(entry)
    return entries


def _render_unique_texts(
    documents: Sequence[Document], key: str, trees: Sequence[Mapping[str, Any]], render: Render
) -> list[str]:
    """Return the texts of all documents, each once; an expression may give a list."""
    texts: list[str] = []
    for values in trees:
        for document in documents:
            value = render(document.get(key) or [], values)[0]
            texts += [str(text) for text in value if str(text) not in texts]
    return texts
