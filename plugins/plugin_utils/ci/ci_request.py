# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CI job is to run: project, presets, overrides and phases, from its own settings and from directives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import github
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    point_loads,
    presets_from_variables,
    project_role,
    repeat_and_bisect_keywords,
    settings_allowed_in_pull_requests,
    settings_catalogue,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.presets_from_variables import Values
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_allowed_in_pull_requests import (
    OutsideSettings,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    parse_preset_names,
    presets_with_extended,
    suggest_preset,
)

from . import ci_engines, pull_request_directives
from .ci_engines import CiJob
from .pull_request_directives import Directives, PullRequest, Requesters

#: Phases that /skip and /only can name. What a run creates is always removed, what it acquires is always released, and
#: what it measured always reported: others use the cluster too.
STEPS = ("prepare", "test")
ALWAYS = ("cleanup", "release")
#: Most attempts at points of a run that is not heavy.
MOST_ATTEMPTS = 100


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
    for although they are heavy or do what only the lab decides. clusters: name -> presets that choose it.
    project: that of the job, to which permitted presets without a project belong; empty if it has none.
    """

    projects: Sequence[str]
    presets: Callable[[str], Mapping[str, Values]]
    outside: OutsideSettings
    catalogue: Catalogue
    permitted: Sequence[str] = ()
    clusters: Mapping[str, Any] = field(default_factory=dict)
    project: str = ""

    def permits(self, preset: str, project: str) -> bool:
        """Return whether the lab permits a preset: a preset of the same name of another project does something else."""
        plain = self.project in ("", project) and preset in self.permitted
        return plain or f"{project}/{preset}" in self.permitted


def projects_with_playbook(playbooks: Path) -> list[str]:
    """Return the projects that have a playbook."""
    paths = sorted(playbooks.glob("*.yml"))
    return [
        path.stem
        for path in paths
        if project_role.variables_passed_to_phases_playbook(path).get("run_project") == path.stem
    ]


def requested_run(asked: Directives, own: CiRequest, offer: CiOffer) -> CiRequest:
    """Return the request of a job: its own, changed by directives. Raises InputError for what may not be asked for."""
    project, arguments = _project_and_test_arguments(asked, own, offer)
    where = asked.origins.get("test", "/test")
    wanted = parse_preset_names(arguments)
    # The presets of the job belong to the project of the job: in another project, the same names do something else.
    for name in wanted or (own.presets if project != own.project else []):
        _check_preset(name, project, offer, where if wanted else asked.origins.get("project", where))
    clusters = _presets_selecting_cluster(asked, offer)
    for name in clusters if project != own.project and own.project else []:
        if offer.presets(project).get(name) != offer.presets(own.project).get(name):
            _check_preset(name, project, offer, asked.origins["cluster"])
    presets = [*(wanted or own.presets), *clusters]
    for step, runs in asked.steps.items():
        if step not in STEPS and not (runs and step in ALWAYS):
            what = (
                f"step '{step}' gives back what the run took, so it can't be left out"
                if step in ALWAYS
                else f"unknown step '{step}'{suggest_similar_name(step, STEPS)}"
            )
            raise InputError(f"{asked.origins[step]}: {what}; steps: {', '.join(STEPS)}")
    offer.outside.check(asked.variables, asked.origins, offer.catalogue)
    return CiRequest(project, presets, {**own.overrides, **asked.variables}, asked.left_out(STEPS))


def refuse_heavy_load(asked: Directives, request: CiRequest, offer: CiOffer, context: SettingsContext) -> None:
    """Raise InputError for a load that others would notice, unless the lab permits one of its heavy presets by name.

    The load decides and not the name of a preset: a directive can also make a light one heavy.
    """
    known = offer.presets(request.project)
    permitted = [name for name in request.presets if name in known and offer.permits(name, request.project)]
    if any((known[name] or {}).get("heavy") for name in permitted):
        return
    effective = context.effective(context.request())
    attempts = repeat_and_bisect_keywords.most_attempts(effective)
    why = f"{attempts} attempts at points" if attempts > MOST_ATTEMPTS else ""
    if why := why or point_loads.first_heavy_load(context.role.folder, effective.measured, context.render, attempts):
        where = asked.origins.get("test") or next(iter(asked.origins.values()))
        raise InputError(
            f"{where}: the run would be heavy: {why}; ask for less, or for a heavy preset that ci_presets names"
        )


def _project_and_test_arguments(asked: Directives, own: CiRequest, offer: CiOffer) -> tuple[str, list[str]]:
    """Return the project, and the arguments of /test without it: the first one may name it."""
    first, rest = (asked.arguments[:1] or [""])[0], asked.arguments[1:]
    if first in offer.projects and asked.project in ("", first):
        repeated = [argument for argument in rest if argument != first]
        other = next((argument for argument in repeated if argument in offer.projects), "")
        if other:
            raise InputError(f"{asked.origins['test']}: {first} and {other} are two projects; one run has one")
        return first, repeated
    chosen = asked.project or own.project
    where = asked.origins.get("project") or ("ci_project" if own.project else asked.origins.get("test", "ci_project"))
    if chosen not in offer.projects:
        wrong = chosen or first
        known = ", ".join(offer.projects)
        what = (
            f"unknown project '{wrong}'{suggest_similar_name(wrong, offer.projects)}"
            if wrong
            else "no project is named"
        )
        raise InputError(f"{where}: {what}; there are {known}")
    return chosen, asked.arguments


def _check_preset(name: str, project: str, offer: CiOffer, where: str) -> None:
    """Raise InputError for a preset that is unknown, heavy by its own word, or does what only the lab decides."""
    known = offer.presets(project)
    if name not in known:
        offered = ", ".join(_offered_presets(project, offer)) or "none"
        hint = suggest_preset(name, known)
        raise InputError(f"{where}: unknown preset '{name}' of {project}{hint}; presets: {offered}")
    if offer.permits(name, project):
        return
    entry = name if offer.project in ("", project) else f"{project}/{name}"
    for preset in presets_with_extended(known, [name]):
        through = f"{name} extends {preset}, which" if preset != name else name
        if (known[preset] or {}).get("heavy"):
            raise InputError(f"{where}: {through} is heavy; ci_presets must name {entry} to permit it")
    if why := offer.outside.why_preset_refused(name, known, offer.catalogue):
        raise InputError(f"{where}: {why}; ci_presets must name {entry} to permit it")


def _presets_selecting_cluster(asked: Directives, offer: CiOffer) -> list[str]:
    """Return the presets that choose the cluster that is asked for."""
    if not asked.cluster:
        return []
    if asked.cluster not in offer.clusters:
        known = ", ".join(offer.clusters) or "none"
        near = suggest_similar_name(asked.cluster, offer.clusters)
        raise InputError(
            f"{asked.origins['cluster']}: there is no cluster '{asked.cluster}'{near}; ci_clusters names: {known}"
        )
    return parse_preset_names(offer.clusters[asked.cluster])


def help_text(offer: CiOffer, own: CiRequest, test: str) -> str:
    """Return the answer to /help, in Markdown."""
    name = test or "PROJECT"
    lines = [
        "Directives, each at the beginning of a line:",
        "",
        f"- `/test {name} {'[PROJECT] ' if test else ''}PRESET…` in a comment: run these presets",
        "- `/var SETTING: VALUE`: set a setting; a dotted key sets a value inside it",
        f"- `/skip STEP…`, `/only STEP…`: leave out steps; steps: {', '.join(f'`{step}`' for step in STEPS)}",
        "- `/project NAME`, `/cluster NAME`",
        "",
        f"Projects: {', '.join(f'`{project}`' for project in offer.projects)}."
        f" Clusters: {', '.join(f'`{project}`' for project in offer.clusters) or 'the default project'}.",
    ]
    for project in [own.project] if own.project in offer.projects else []:
        names = _offered_presets(project, offer)
        lines += ["", f"Presets of {project}: {', '.join(f'`{preset}`' for preset in names)}."]
    lines += [
        "",
        f"Settings: {', '.join(f'`{pattern}`' for pattern in sorted(offer.outside.patterns))}, `matrix` of these.",
    ]
    return "\n".join(lines)


def _offered_presets(project: str, offer: CiOffer) -> list[str]:
    return [preset for preset in offer.presets(project) if _is_preset_offered(preset, project, offer)]


def _is_preset_offered(name: str, project: str, offer: CiOffer) -> bool:
    try:
        _check_preset(name, project, offer, "")
    except InputError:
        return False
    return name != presets_from_variables.LIST


ROOT = project_role.ROOT
ENGINES = ROOT / "roles" / "ci" / "files" / "engines"


#: (project, variables that its request sets) -> what Ansible knows of the settings.
FindContext = Callable[[str, Mapping[str, Any]], SettingsContext]


def read_request(
    params: Mapping[str, Any], variables: Mapping[str, Any], environ: Mapping[str, str], find_context: FindContext
) -> dict[str, Any]:
    """Return the result of module ci_request for its options. variables: those of the task. Raises InputError."""
    job, pull = _job_and_pull_request(params, environ)
    texts: list[pull_request_directives.TextWithDirectives] = []
    notes: list[str] = []
    if pull:
        texts, notes = pull_request_directives.texts_of_permitted_authors(
            pull, Requesters(params["associations"], params["users"]), job.test
        )
    asked = pull_request_directives.parse_directives(texts, job.test)
    offer = _allowed_requests_from_params(params, variables)
    own = CiRequest(params["project"], parse_preset_names(params["presets"]))
    if asked.help and pull and pull.trigger:
        return {**_format_module_result(job, own, notes, help_text(offer, own, job.test), params), "help": True}
    if pull and pull.trigger and not texts:
        hint = "/help lists what it can" if pull.number else "it is not on a pull request"
        answer = f"The comment asks for no run of {job.test or 'this job'}: {hint}."
        return _format_module_result(job, own, notes, answer, params)
    request = requested_run(asked, own, offer)
    words = {"preset": request.presets, "overrides": request.overrides}
    if asked.arguments or asked.variables or request.project != own.project:
        of_request = find_context(request.project, {name: value for name, value in words.items() if value})
        refuse_heavy_load(asked, request, offer, of_request)
    return _format_module_result(job, request, notes, "", params)


def _job_and_pull_request(params: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[CiJob, PullRequest | None]:
    """Return the job and its pull request, None if it runs for none. An event knows more than the environment."""
    engines = ci_engines.load_engine_definitions(ENGINES)
    known = {
        "event": params["event_file"] or "",
        "test": params["test"],
        "started": format_utc_timestamp().replace(":", ""),
    }
    job = ci_engines.read_current_job(engines, params["engine"], environ, known)
    pull = pull_request_directives.pull_request_from_event(_read_event_file(Path(job.event))) if job.event else None
    if pull:
        more = {"pull_request": pull.number, "repository": pull.repository}
        job = ci_engines.read_current_job(engines, params["engine"], environ, {**known, **more})
        # For a comment, GitHub Actions runs on the default branch and gives its commit.
        job = dataclasses.replace(job, revision=pull.revision)
    elif params["read_pull_request"] and job.pull_request:
        pull = _fetch_pull_request(params["github"], job)
    return job, pull


def _fetch_pull_request(options: Mapping[str, Any], job: CiJob) -> PullRequest:
    """Read the pull request of a job from GitHub. Raises AccessError."""
    target = github.GitHubTarget(job.repository, job.pull_request)
    api = github.api_client_from_options(options, target.repository, str(options.get("ca_file") or ""))
    described = github.read_pull_request(api, target)
    comments = list(github.list_pull_request_comments(api, target))
    with expect_documented_form(f"GitHub: pull request {target.pull_request} of {target.repository}", described):
        return pull_request_directives.pull_request_from_api(described, comments)


def _read_event_file(path: Path) -> Any:
    try:
        return files.read_json(path)
    except (OSError, DataError) as error:
        raise InputError(f"the event of the job can't be read from {path}: {error}") from error


def _allowed_requests_from_params(params: Mapping[str, Any], variables: Mapping[str, Any]) -> CiOffer:
    catalogue = settings_catalogue.load_catalogue(ROOT)
    return CiOffer(
        projects_with_playbook(ROOT / "playbooks"),
        lambda project: presets_from_variables.usable_presets(variables, project),
        settings_allowed_in_pull_requests.load_role_declarations(ROOT).permitting(params["variables"], catalogue),
        catalogue,
        params["permitted_presets"],
        params["clusters"],
        params["project"],
    )


def _format_module_result(
    job: CiJob, request: CiRequest, notes: list[str], answer: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    export = f"{params['export_url'].rstrip('/')}/{job.path}" if params["export_url"] else ""
    facts = {"run": not answer, "help": False, "answer": answer, "notes": notes, "export_url": export}
    return {**dataclasses.asdict(request), **facts, "job": dataclasses.asdict(job)}
