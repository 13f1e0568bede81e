# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CI job is to run: project, presets, overrides and phases, from its own settings and from directives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import preset_definitions, project_role
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.apply_settings_layers import preset_names
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.outside_settings import OutsideSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.preset_definitions import Values
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.requested_settings import reachable
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue

from .directives import Directives

#: Phases that /skip and /only can name. What a run acquires is always released, and what it measured always reported.
STEPS = ("prepare", "test", "cleanup")


@dataclass(frozen=True)
class CiRequest:
    """What a job runs. skip: phases that are left out."""

    project: str
    presets: list[str] = field(default_factory=list)
    overrides: dict[str, Any] = field(default_factory=dict)
    skip: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CiOffer:
    """What may be asked for.

    projects: names. presets: project -> its presets. permitted: presets that may be asked
    for although they are heavy or reserved. clusters: name -> presets that choose it.
    """

    projects: Sequence[str]
    presets: Callable[[str], Mapping[str, Values]]
    outside: OutsideSettings
    catalogue: Catalogue
    permitted: Sequence[str] = ()
    clusters: Mapping[str, Any] = field(default_factory=dict)


def projects(playbooks: Path) -> list[str]:
    """Return the projects that have a playbook."""
    paths = sorted(playbooks.glob("*.yml"))
    return [path.stem for path in paths if project_role.of_playbook(path).get("run_project") == path.stem]


def of(asked: Directives, own: CiRequest, offer: CiOffer) -> CiRequest:
    """Return the request of a job: its own, changed by directives. Raises InputError for what may not be asked for."""
    project, arguments = _project(asked, own, offer)
    where = asked.origins.get("test", "/test")
    wanted = preset_names(arguments)
    for name in wanted:
        _check_preset(name, project, offer, where)
    presets = [*(wanted or own.presets), *_of_cluster(asked, offer)]
    for step in asked.steps:
        if step not in STEPS:
            near = nearest(step, STEPS)
            raise InputError(f"{asked.origins[step]}: '{step}' is no step{near}; steps: {', '.join(STEPS)}")
    offer.outside.check(asked.variables, asked.origins, offer.catalogue)
    return CiRequest(project, presets, {**own.overrides, **asked.variables}, asked.left_out(STEPS))


def _project(asked: Directives, own: CiRequest, offer: CiOffer) -> tuple[str, list[str]]:
    """Return the project, and the arguments of /test without it: the first one may name it."""
    first, rest = (asked.arguments[:1] or [""])[0], asked.arguments[1:]
    if first in offer.projects and asked.project in ("", first):
        repeated = [one for one in rest if one != first]
        other = next((one for one in repeated if one in offer.projects), "")
        if other:
            raise InputError(f"{asked.origins['test']}: {first} and {other} are two projects; one run has one")
        return first, repeated
    chosen = asked.project or own.project
    where = asked.origins.get("project") or ("ci_project" if own.project else asked.origins.get("test", "ci_project"))
    if chosen not in offer.projects:
        wrong = chosen or first
        known = ", ".join(offer.projects)
        what = f"'{wrong}' is no project{nearest(wrong, offer.projects)}" if wrong else "no project is named"
        raise InputError(f"{where}: {what}; there are {known}")
    return chosen, asked.arguments


def _check_preset(name: str, project: str, offer: CiOffer, where: str) -> None:
    """Raise InputError for a preset that is unknown, heavy, or sets what only the lab decides."""
    known = offer.presets(project)
    if name not in known:
        raise InputError(f"{where}: '{name}' is no preset of {project}{nearest(name, known)}")
    if name in offer.permitted:
        return
    for one in reachable(known, [name]):
        through = f"{name} extends {one}, which" if one != name else name
        if (known[one] or {}).get("heavy"):
            raise InputError(f"{where}: {through} is heavy; ci_presets must name {name} to permit it")
        for key in known[one] or {}:
            role = offer.catalogue.role_of(str(key))
            if role in offer.outside.reserved:
                raise InputError(f"{where}: {through} sets {key}; ci_presets must name {name} to permit it")


def _of_cluster(asked: Directives, offer: CiOffer) -> list[str]:
    """Return the presets that choose the cluster that is asked for."""
    if not asked.cluster:
        return []
    if asked.cluster not in offer.clusters:
        known = ", ".join(offer.clusters) or "none"
        near = nearest(asked.cluster, offer.clusters)
        raise InputError(
            f"{asked.origins['cluster']}: there is no cluster '{asked.cluster}'{near}; ci_clusters names: {known}"
        )
    return preset_names(offer.clusters[asked.cluster])


def help_text(offer: CiOffer, own: CiRequest, test: str) -> str:
    """Return the answer to /help, in Markdown."""
    name = test or "PROJECT"
    lines = [
        "Directives, each at the beginning of a line:",
        "",
        f"- `/test {name} {'[PROJECT] ' if test else ''}PRESET…` in a comment: run these presets",
        "- `/var SETTING: VALUE`: set a setting; a dotted key sets a value inside it",
        f"- `/skip STEP…`, `/only STEP…`: leave out steps; steps: {', '.join(f'`{one}`' for one in STEPS)}",
        "- `/project NAME`, `/cluster NAME`",
        "",
        f"Projects: {', '.join(f'`{one}`' for one in offer.projects)}."
        f" Clusters: {', '.join(f'`{one}`' for one in offer.clusters) or 'the default one'}.",
    ]
    for project in [own.project] if own.project in offer.projects else []:
        known = [one for one in offer.presets(project) if _offered(one, project, offer)]
        lines += ["", f"Presets of {project}: {', '.join(f'`{one}`' for one in known)}."]
    lines += ["", f"Settings: {', '.join(f'`{one}`' for one in sorted(offer.outside.patterns))}, `matrix` of these."]
    return "\n".join(lines)


def _offered(name: str, project: str, offer: CiOffer) -> bool:
    try:
        _check_preset(name, project, offer, "")
    except InputError:
        return False
    return name != preset_definitions.LIST
