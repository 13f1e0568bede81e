# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of workloads. Each is a folder with a kind.yml, which docs/kinds.md describes; settings name the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_spec

from . import project_role

FILE = "kind.yml"
TEMPLATE = "template.yaml.j2"
PREPARE = "prepare.yaml.j2"
#: The kinds of this collection.
SHIPPED = project_role.ROOT / "roles" / "workload" / "files" / "kinds"
#: Finds a file by (folder, name), as ansible.builtin.template does. Raises AnsibleError.
Find = Callable[[str, str], str]


@dataclass(frozen=True)
class WorkloadKind:
    """A kind of workload, or of objects that belong to one.

    definition: what the sampler reads: api_version, kind, stages and so on. resource: the plural in the API's paths.
    parts: kinds that are watched with it, as entries of workload_stages. wraps: the kind of the object in it. endless:
    it does not end by itself. operator: what to install where it is missing. component: of a rehearsal cluster that
    has it. log: label selector (pods) and container of the log of a training. permissions: as in a meta/doctor.yml,
    beside those that follow from resource and parts. ready: what a load waits for, of the objects that are shared.
    conflicts: fields of a server that do not go together, if the kind "with" is watched.
    """

    folder: Path
    definition: dict[str, Any]
    resource: str = ""
    parts: list[Any] = field(default_factory=list)
    wraps: str = ""
    endless: bool = False
    operator: str = ""
    component: str = ""
    log: dict[str, str] = field(default_factory=dict)
    permissions: list[dict[str, Any]] = field(default_factory=list)
    ready: list[dict[str, Any]] = field(default_factory=list)
    conflicts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of its objects."""
        return str(self.definition.get("kind"))

    @property
    def name(self) -> str:
        """The name in settings. Two groups may have a kind of the same name; then one of the folders has another."""
        return self.kind if self.kind.lower() == self.folder.name.lower() else self.folder.name

    @property
    def references(self) -> list[str]:
        """Each version as <group>/<version>/<kind>, the preferred one first."""
        versions = self.definition.get("api_version")
        return [f"{version}/{self.kind}" for version in (versions if isinstance(versions, list) else [versions])]

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.references[0].rpartition("/")[0].rpartition("/")[0]

    @property
    def install(self) -> str:
        """What to do where a cluster lacks the kind."""
        hint = f"""-e '{{"rehearsal_components": ["{self.component}"]}}'""" if self.component else ""
        texts = (self.operator, f"on a rehearsal cluster: {hint}" if hint else "")
        return "; ".join(text for text in texts if text) or f"what provides {self.kind}"

    def template(self, wrapped: WorkloadKind | None = None) -> str:
        """Return the text of the template, with that of the wrapped kind as macro wrapped(). Raises InputError."""
        path = self.folder / TEMPLATE
        if not path.is_file():
            raise InputError(f"kind {self.name} has no template: {path} does not exist")
        text = path.read_text(encoding="utf-8")
        if wrapped is None:
            return text
        # The wrapped object is neither queued nor suspended itself. Only the wrapper gets its name from the load.
        macro = '{%- macro wrapped(metadata={"name": name, "labels": labels}, suspend=false) -%}\n'
        return f"{macro}{wrapped.template()}\n{{%- endmacro -%}}\n{text}"

    def prepare(self, wrapped: WorkloadKind | None = None) -> str:
        """Return the text of the template of shared objects, and of those of the wrapped kind; empty without any."""
        paths = [kind.folder / PREPARE for kind in (self, wrapped) if kind is not None]
        return "\n---\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())

    def watched(self, wrapped: WorkloadKind | None = None) -> list[Any]:
        """Return the entries of workload_stages for workloads of this kind: itself, and its parts."""
        inner = [{"use": wrapped.name, "select": "owners"}, *wrapped.parts] if wrapped else []
        return [self.name, *self.parts, *inner]

    def variables(self, wrapped: WorkloadKind | None = None) -> dict[str, Any]:
        """Return what a role uses."""
        names = ("name", "kind", "group", "resource", "references", "install", "endless", "component", "definition")
        return {
            **{name: getattr(self, name) for name in names},
            "log": (wrapped or self).log,
            "stages": self.watched(wrapped),
        }


_KEYS = {
    attribute.name: attribute.type
    for attribute in fields(WorkloadKind)
    if attribute.name not in ("folder", "definition")
}
_TYPES = {"str": str, "bool": bool, "list[Any]": list, "list[dict[str, Any]]": list, "dict[str, str]": dict}


def read_kind_file(path: Path) -> WorkloadKind:
    """Read a kind.yml, or a file with stages only. Raises DataError."""
    document = files.read_yaml(path)
    if not isinstance(document, dict):
        raise DataError(f"{path}: a stage definition must be a dictionary")
    keys = {key: value for key, value in document.items() if key in _KEYS}
    for key, value in keys.items():
        if not isinstance(value, _TYPES[str(_KEYS[key])]):
            raise DataError(f"{path}: '{key}' must be {_KEYS[key]}, got {value!r}")
    if "component" not in keys and (path.parent / component_spec.FILE).is_file():
        keys["component"] = path.parent.name
    return WorkloadKind(path.parent, {key: value for key, value in document.items() if key not in keys}, **keys)


def kind_folders_of_project(role: str) -> list[Path]:
    """Return the folders that have kinds of a project, beside those of this collection. role: as find_role."""
    return [project_role.find_role(role).folder / "files" / "kinds"]


def kind_folders_of_task(variables: Mapping[str, Any], template: Callable[[Any], Any]) -> list[Path]:
    """Return the folders that have kinds of the roles of a task, and of the project.

    Args:
        variables: of the task.
        template: renders a value with them, because the name of the project's role may be a template.
    """
    paths = [*variables.get("ansible_parent_role_paths", ()), variables.get("role_path")]
    project = kind_folders_of_project(str(template(variables["run_role"]))) if variables.get("run_role") else []
    return [*project, *(Path(str(path)) / "files" / "kinds" for path in paths if path)]


def _kind_folders_by_name(places: Sequence[Path]) -> dict[str, Path]:
    """Return the folders of all kinds by their names in lower case. Those of ``places`` precede shipped ones."""
    # In a task of role workload, one of the places is that of the shipped kinds.
    own = [place for place in places if place.resolve() != SHIPPED.resolve()]
    return {path.parent.name.lower(): path.parent for place in (SHIPPED, *own) for path in place.glob(f"*/{FILE}")}


def all_kind_names(places: Sequence[Path] = ()) -> list[str]:
    """Return the names of all kinds."""
    return sorted(read_kind_file(folder / FILE).name for folder in _kind_folders_by_name(places).values())


def load_kind_by_name_or_path(name: str, places: Sequence[Path] = ()) -> WorkloadKind:
    """Read a kind by its name in any case, or by the path of its folder.

    Args:
        name: such as TrainJob, or a path, which contains a "/".
        places: folders with kinds, searched before those of this collection.

    Raises:
        InputError: there is no such kind; names the nearest one.
        DataError: its kind.yml is wrong.
    """
    folder = Path(name).expanduser() if "/" in name else _kind_folders_by_name(places).get(name.lower())
    if folder is None or not (folder / FILE).is_file():
        known = all_kind_names(places)
        raise InputError(
            f"unknown kind of workload '{name}'{suggest_similar_name(name, known)}; there are {', '.join(known)}. "
            f"For another one, write a folder with a {FILE} (docs/kinds.md)"
        )
    return read_kind_file(folder / FILE)


def find_wrapped_kind(kind: WorkloadKind, wraps: str = "", places: Sequence[Path] = ()) -> WorkloadKind | None:
    """Return the kind of the object in a wrapper, None if the kind wraps nothing. Raises InputError."""
    if wraps and not kind.wraps:
        raise InputError(f"kind {kind.name} does not wrap another object, so it cannot wrap {wraps}")
    return load_kind_by_name_or_path(wraps or kind.wraps, places) if kind.wraps else None


# Stage definitions


def resolve_stage_definitions(entries: Any, find: Find, places: Sequence[Path] = ()) -> Any:
    """Return workload_stages with names of kinds, and of files, replaced by the definitions."""
    return (
        [_resolve_stage_definition(entry, find, places) for entry in entries] if isinstance(entries, list) else entries
    )


def _resolve_stage_definition(entry: Any, find: Find, places: Sequence[Path]) -> Any:
    """Return the definition of a name, or that of ``use`` in a dictionary with the other keys replaced."""
    if isinstance(entry, dict) and "use" not in entry:
        return entry
    changes = {"use": entry} if isinstance(entry, str) else dict(entry)
    name, ends_at = str(changes.pop("use")), changes.pop("ends_at", None)
    kind = (
        read_kind_file(Path(find("files", name)))
        if name.endswith((".yml", ".yaml"))
        else load_kind_by_name_or_path(name, places)
    )
    definition = kind.definition if ends_at is None else _definition_succeeding_at_stage(kind.definition, str(ends_at))
    return {**definition, **changes}


def _definition_succeeding_at_stage(definition: dict[str, Any], stage: str) -> dict[str, Any]:
    """Return a definition whose workloads have succeeded when they reach ``stage``. Raises InputError."""
    known = [entry["name"] for entry in definition["stages"]]
    if stage not in known:
        raise InputError(
            f"ends_at: {definition['kind']} has no stage '{stage}'{suggest_similar_name(stage, known)};"
            f" there are {', '.join(known)}"
        )
    stages = [{**entry, "ends": "succeeded"} if entry["name"] == stage else entry for entry in definition["stages"]]
    return {**definition, "stages": stages}


# Rights


def kinds_required_on_cluster(workloads: Sequence[str], watches: Sequence[Any], places: Sequence[Path]) -> list[str]:
    """Return the kinds that a cluster must have for a load, as in a meta/doctor.yml.

    The arguments are those of permissions_required_by_load().
    """
    kinds = [load_kind_by_name_or_path(name, places) for name in workloads]
    # Every cluster has the kinds whose group is no domain.
    kinds += [
        kind
        for kind, _entry in _known_required_kinds(_watch_only_stage_entries(workloads, watches, places), places)
        if "." in kind.group
    ]
    return [" or ".join(kind.references) for kind in kinds]


def conflicts_of_load(workloads: Sequence[str], watches: Sequence[Any], places: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the conflicts of the kinds of a load that apply to it: it watches the other kind too.

    The arguments are those of permissions_required_by_load().
    """
    kinds = [load_kind_by_name_or_path(name, places) for name in workloads]
    kinds += [wrapped for kind in kinds if (wrapped := find_wrapped_kind(kind, places=places))]
    entries = _watch_only_stage_entries(workloads, watches, places)
    watched = {str(entry.get("use") if isinstance(entry, dict) else entry) for entry in entries}
    return [conflict for kind in kinds for conflict in kind.conflicts if conflict["with"] in watched]


def permissions_required_by_load(
    workloads: Sequence[str], watches: Sequence[Any], places: Sequence[Path]
) -> list[dict[str, Any]]:
    """Return the permissions that a load needs, as in a meta/doctor.yml.

    Args:
        workloads: kinds of its workloads, which it creates and deletes.
        watches: entries of workload_stages that are only watched.
        places: folders with kinds.

    Raises:
        InputError: there is no such kind.
        DataError: the resource of a kind is missing.
    """
    rules: list[dict[str, Any]] = []
    for name in workloads:
        kind = load_kind_by_name_or_path(name, places)
        rules.append(_permission_entry(kind, ["test"], ["create", "get", "list", "watch"]))
        rules.append(_permission_entry(kind, ["test", "cleanup"], ["list", "delete", "deletecollection"]))
        rules += kind.permissions
    for kind, entry in _known_required_kinds(_watch_only_stage_entries(workloads, watches, places), places):
        rules.append(_permission_entry(kind, ["test"], ["get", "list", "watch"]))
        if workloads and entry.get("select", kind.definition.get("select")) != "owners":  # those with our labels
            rules.append(_permission_entry(kind, ["cleanup"], ["list", "delete", "deletecollection"]))
    return rules


def _watch_only_stage_entries(workloads: Sequence[str], watches: Sequence[Any], places: Sequence[Path]) -> list[Any]:
    """Return the entries of workload_stages that are only watched: those given, and the parts of the workloads."""
    kinds = [load_kind_by_name_or_path(name, places) for name in workloads]
    return [*watches, *(part for kind in kinds for part in kind.watched(find_wrapped_kind(kind, places=places))[1:])]


def _known_required_kinds(
    entries: Sequence[Any], places: Sequence[Path]
) -> Iterator[tuple[WorkloadKind, dict[str, Any]]]:
    """Yield the kinds of those entries whose resource is known and that a cluster must have."""
    for entry in entries:
        values = {"use": entry} if isinstance(entry, str) else entry
        name = str(values.get("use") or "")
        if name and not name.endswith((".yml", ".yaml")) and not values.get("optional"):
            yield load_kind_by_name_or_path(name, places), values


def _permission_entry(kind: WorkloadKind, phases: list[str], verbs: list[str]) -> dict[str, Any]:
    if not kind.resource:
        raise DataError(f"{kind.folder / FILE}: resource is missing, the plural of the kind in paths of the API")
    group = {"group": kind.group} if kind.group else {}
    return {"phases": phases, **group, "resources": [kind.resource], "verbs": verbs}


# Components of a rehearsal cluster


def components_of_load(workloads: Sequence[str], watches: Sequence[Any], places: Sequence[Path]) -> list[str]:
    """Return the components that have the kinds of a load. Arguments as of permissions_required_by_load()."""
    kinds = [load_kind_by_name_or_path(name, places) for name in workloads]
    kinds += [
        kind for kind, _entry in _known_required_kinds(_watch_only_stage_entries(workloads, watches, places), places)
    ]
    own = (kind.folder if (kind.folder / component_spec.FILE).is_file() else kind.component for kind in kinds)
    return list(dict.fromkeys(str(component) for component in own if component))


def replace_kinds_with_component_folders(names_: Sequence[Any], known: Path, places: Sequence[Path] = ()) -> list[Any]:
    """Return rehearsal_components with each name of a kind that has a component.yml replaced by its folder, each once.

    known: the folder of the components, whose names are left alone, as are unknown ones.
    """
    folders = _kind_folders_by_name(places)

    def replaced(name: Any) -> Any:
        folder = folders.get(str(name).lower())
        own = folder is not None and (folder / component_spec.FILE).is_file() and not (known / str(name)).is_dir()
        name = str(folder) if own else name
        return str(Path(name).expanduser()) if "/" in str(name) else name

    return list(dict.fromkeys(replaced(name) for name in names_))
