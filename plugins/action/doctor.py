# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the settings of a project as a run would, read what its roles need, and run module doctor with that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _options
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import catalogue as catalogues
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import effective as effectives
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import gather, user_path
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.request import reachable

ROOT = Path(__file__).parents[2]
#: Stands for the id that a run would have.
RUN_ID = "doctor"
#: Roles that every project goes through.
COMMON = ("cluster", "workload", "cleanup", "metrics")


class ActionModule(SeatrialAction):
    """See the documentation of module doctor."""

    ARGUMENTS = {
        **_options.CLUSTER,
        "project": {"type": "str", "required": True},
        "phases": {"type": "list", "elements": "str", "required": True},
        "subject": {"type": "str", "default": ""},
        "rbac_file": {"type": "path", "default": ""},
        "order": {"type": "dict"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return what the module returns."""
        arguments |= {name: user_path.absolute(arguments[name]) for name in ("kubeconfig", "rbac_file")}
        project = arguments["project"]
        needs = {role: ROOT / "roles" / role / "meta" / "doctor.yml" for role in (*COMMON, project)}
        if not needs[project].exists():
            known = sorted(path.parents[1].name for path in (ROOT / "roles").glob("*/meta/doctor.yml"))
            known = [name for name in known if name not in COMMON]
            raise InputError(
                f"project '{project}' has no roles/{project}/meta/doctor.yml{nearest(project, known)}; "
                f"there are: {', '.join(known)}"
            )
        catalogue = catalogues.load(ROOT)
        base = gather.defaults(self._loader, ROOT, catalogue)
        # What only a run knows, so that names made from it are known too.
        run = {"run_id": RUN_ID, "run_point": "001", "cluster_acquired": {"sutest": {"simulated_writers": []}}}
        variables = {key: value for key, value in task_vars.items() if key not in base} | run
        render = gather.renderer(self._templar, variables)
        extra = load_extra_vars(self._loader)
        catalogue.check_names(extra, project, "-e")
        request, _written = gather.request(project, task_vars, extra, base, catalogue)
        found = effectives.effective(request, catalogue, base, render)
        documents = [_files.read_yaml(path) or {} for path in needs.values() if path.exists()]
        definitions = request.definitions()
        heavy = [one for one in reachable(definitions, request.names()) if definitions[one].get("heavy")]
        order = {
            "permissions": _every(documents, "permissions", found.settings, render),
            "kinds": _flat(documents, "kinds", found.settings, render),
            "namespaces": _flat(documents, "namespaces", found.settings, render),
            "storage_classes": _flat(documents, "storage_classes", found.settings, render),
            "points": {point.name: render(_own(documents, "plan"), point.settings)[0] for point in found.points},
            "heavy": heavy,
            "run_id": RUN_ID,
            "exclusive": bool(found.settings.get("cluster_exclusive")),
        }
        result = self._execute_module(
            module_name="perfscale.seatrial.doctor",
            module_args={**arguments, "order": gather.raw(order)},
            task_vars=task_vars,
        )
        if not result.get("failed"):
            rbac = [] if arguments["rbac_file"] else ["The least RBAC:", *result["rbac_text"].splitlines()]
            for line in [*rbac, f"What {project} needs of {arguments['kubeconfig']}:", *result["lines"]]:
                Display().display(line)
        return result


def _own(documents: list[Mapping[str, Any]], key: str) -> Any:
    return documents[-1].get(key) or {}


def _every(documents: list[Mapping[str, Any]], key: str, values: Mapping[str, Any], render: Any) -> list[Any]:
    """Return the entries of all documents whose ``when`` holds, rendered."""
    found = []
    for one in (entry for document in documents for entry in document.get(key) or ()):
        when = one.get("when", True)
        if when is not True and render("{{ (" + str(when) + ") | bool }}", values)[0] is not True:
            continue
        found.append({name: render(value, values)[0] for name, value in one.items() if name != "when"})
    return found


def _flat(documents: list[Mapping[str, Any]], key: str, values: Mapping[str, Any], render: Any) -> list[str]:
    """Return a list of texts that all documents give together; an expression may give a list."""
    found: list[str] = []
    for document in documents:
        value = render(document.get(key) or [], values)[0]
        found += [str(one) for one in value if str(one) not in found]
    return found
