# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the settings of a project as a run would, read what its roles need, and run module doctor with that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    collect_layers,
    effective_settings,
    settings_catalogue,
    user_path,
    workload_files,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.in_place_module import InPlaceAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_request import reachable

ROOT = Path(__file__).parents[2]
#: Stands for the id that a run would have.
RUN_ID = "doctor"
#: Roles that every project goes through.
COMMON = ("cluster", "workload", "cleanup", "metrics")
#: Phases that are over when a run asks.
BEFORE = ("settings", "lease", "cluster")


class ActionModule(InPlaceAction):
    """See the documentation of module doctor."""

    ARGUMENTS = {
        **_common_options.CLUSTER,
        "project": {"type": "str", "required": True},
        "phases": {"type": "list", "elements": "str", "required": True},
        "run_dir": {"type": "path", "default": ""},
        "subject": {"type": "str", "default": ""},
        "rbac_file": {"type": "path", "default": ""},
        "order": {"type": "dict"},
    }

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; outside of a run also print its findings."""
        result = super().run(tmp, task_vars)
        given = self._task.args
        if not result.get("failed") and not given.get("run_dir"):
            for line in (
                f"What {given['project']} needs of {user_path.absolute(given['kubeconfig'])}:",
                *result["lines"],
            ):
                Display().display(line)
        return result

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Resolve the settings, and render with them what the roles need."""
        _validation, arguments = self.validate_argument_spec(self.ARGUMENTS)
        arguments |= {name: user_path.absolute(arguments[name]) for name in ("kubeconfig", "rbac_file")}
        project, directory = arguments["project"], arguments["run_dir"]
        documents = _documents(project, needed=not directory)
        phases = arguments["phases"]
        if directory:
            tags = (list(task_vars.get(name) or []) for name in ("ansible_run_tags", "ansible_skip_tags"))
            phases = [one for one in collect_layers.chosen(phases, *tags) if one not in BEFORE]
        asked = self._of_run(Path(directory), task_vars) if directory else self._resolved(project, task_vars)
        values, render = asked.settings, asked.render
        plan = _own(documents, "plan")
        # A matrix may have another kind of workload in each of its points.
        trees = list(asked.points.values()) or [values]
        order = {
            "permissions": _every(documents, "permissions", trees, render),
            "kinds": _flat(documents, "kinds", trees, render),
            "namespaces": _flat(documents, "namespaces", trees, render),
            "storage_classes": _flat(documents, "storage_classes", trees, render),
            "points": {name: self._planned(render(plan, one)[0]) for name, one in asked.points.items()} if plan else {},
            # In a run phase cluster has made them, and what it was to refuse it has refused.
            "nodes": _every(documents, "nodes", [values], render) if "cluster" in phases else [],
            "installs": render(_own(documents, "installs") or "", values)[0] if "prepare" in phases else "",
            "heavy": asked.heavy,
            "run_id": asked.run_id,
            "exclusive": bool(values.get("cluster_exclusive")),
            "others": not directory,
        }
        given = {key: value for key, value in arguments.items() if key != "run_dir"}
        return {**given, "phases": phases, "order": collect_layers.raw(order)}

    def _planned(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Return a plan with what the file of a trace holds."""
        return {**plan, "arrival": workload_files.arrival(plan.get("arrival"), self._find_needle)}

    def _resolved(self, project: str, task_vars: dict[str, Any]) -> _Asked:
        """Resolve the settings as a run would."""
        catalogue = settings_catalogue.load(ROOT)
        base = collect_layers.defaults(self._loader, ROOT, catalogue)
        # What only a run knows, so that names made from it are known too.
        run = {"run_id": RUN_ID, "run_point": "001", "cluster_acquired": {"sutest": {"simulated_writers": []}}}
        variables = {key: value for key, value in task_vars.items() if key not in base} | run
        render = collect_layers.renderer(self._templar, variables)
        extra = load_extra_vars(self._loader)
        catalogue.check_names(extra, project, "-e")
        request = collect_layers.request(project, task_vars, extra, base, catalogue)
        found = effective_settings.effective(request, catalogue, base, render)
        definitions = request.definitions()
        heavy = [one for one in reachable(definitions, request.names()) if definitions[one].get("heavy")]
        points = {point.name: point.settings for point in found.points}
        return _Asked(found.settings, points, render, RUN_ID, heavy)

    def _of_run(self, directory: Path, task_vars: dict[str, Any]) -> _Asked:
        """Take the settings that a run has written."""
        values = self._settings(directory / "settings.yml")
        paths = sorted(directory.glob("points/*/settings.yml"))
        points = {path.parent.name: self._settings(path) for path in paths}
        variables = {"run_point": "001"} | {key: value for key, value in task_vars.items() if key not in values}
        return _Asked(values, points, collect_layers.renderer(self._templar, variables), str(task_vars["run_id"]))

    def _settings(self, path: Path) -> Mapping[str, Any]:
        """Return settings as a run wrote them: names that only the run defines are still templates."""
        return collect_layers.raw(self._loader.load_from_file(str(path), trusted_as_template=True))


@dataclass(frozen=True)
class _Asked:
    """Settings of a run and of its points, what renders expressions over them, the run's id and its heavy presets."""

    settings: Mapping[str, Any]
    points: Mapping[str, Mapping[str, Any]]
    render: Any
    run_id: str
    heavy: Sequence[str] = ()


def _documents(project: str, needed: bool) -> list[dict[str, Any]]:
    """Return what the roles of a project need, the project's own last.

    Raises InputError for a project that does not say it, if it is ``needed``.
    """
    needs = {role: ROOT / "roles" / role / "meta" / "doctor.yml" for role in (*COMMON, project)}
    if needed and not needs[project].exists():
        known = sorted(path.parents[1].name for path in (ROOT / "roles").glob("*/meta/doctor.yml"))
        known = [name for name in known if name not in COMMON]
        raise InputError(
            f"project '{project}' has no roles/{project}/meta/doctor.yml{nearest(project, known)}; "
            f"there are: {', '.join(known)}"
        )
    return [_files.read_yaml(path) or {} for path in needs.values() if path.exists()]


def _own(documents: Sequence[Mapping[str, Any]], key: str) -> Any:
    return documents[-1].get(key) or {}


def _every(
    documents: Sequence[Mapping[str, Any]], key: str, trees: Sequence[Mapping[str, Any]], render: Any
) -> list[Any]:
    """Return the entries of all documents whose ``when`` holds, rendered with each of these settings, each once."""
    found: list[Any] = []
    for values in trees:
        for one in (entry for document in documents for entry in document.get(key) or ()):
            when = one.get("when", True)
            if when is not True and render("{{ (" + str(when) + ") | bool }}", values)[0] is not True:
                continue
            entry = {name: render(value, values)[0] for name, value in one.items() if name != "when"}
            if entry not in found:
                found.append(entry)
    return found


def _flat(
    documents: Sequence[Mapping[str, Any]], key: str, trees: Sequence[Mapping[str, Any]], render: Any
) -> list[str]:
    """Return a list of texts that all documents give together; an expression may give a list."""
    found: list[str] = []
    for values in trees:
        for document in documents:
            value = render(document.get(key) or [], values)[0]
            found += [str(one) for one in value if str(one) not in found]
    return found
