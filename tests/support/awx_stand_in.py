"""A stand-in for AWX on loopback, with what awx.awx asks for, and the rules that a real AWX was seen to apply.

It keeps objects and runs nothing. A launch returns the extra variables that AWX would give to the job.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import awx_survey_rules
from scripted_server import Asked

ROOT = "/api/v2/"
TYPES = {
    "organizations": "organization",
    "projects": "project",
    "project_updates": "project_update",
    "execution_environments": "execution_environment",
    "credential_types": "credential_type",
    "credentials": "credential",
    "inventories": "inventory",
    "inventory_sources": "inventory_source",
    "instance_groups": "instance_group",
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node",
    "schedules": "schedule",
}
UNIFIED = ("projects", "inventory_sources", "job_templates", "workflow_job_templates")
#: Fields that AWX fills in, and returns in its own form.
LAUNCHED = {"extra_vars": "", "survey_enabled": False, "ask_variables_on_launch": False, "description": ""}
DEFAULTS: dict[str, dict[str, Any]] = {
    "projects": {"scm_revision": "", "status": "pending"},
    "job_templates": {**LAUNCHED, "job_tags": "", "timeout": 0, "job_slice_count": 1, "allow_simultaneous": False},
    "workflow_job_templates": {**LAUNCHED, "allow_simultaneous": False},
    "inventories": {"kind": "", "host_filter": None, "variables": ""},
    "schedules": {"extra_data": {}, "enabled": True},
    "workflow_job_template_nodes": {"extra_data": {}, "all_parents_must_converge": False},
}
#: Objects that AWX deletes with another one: endpoint -> (endpoint, field).
DELETED_TOO = {
    "job_templates": [("schedules", "unified_job_template"), ("workflow_job_template_nodes", "unified_job_template")],
    "workflow_job_templates": [
        ("schedules", "unified_job_template"),
        ("workflow_job_template_nodes", "workflow_job_template"),
    ],
    "inventories": [("inventory_sources", "inventory")],
}
Answer = tuple[int, Any]


@dataclass
class AwxStandIn:
    """playbooks: those of the repository. repositories: whose sync succeeds."""

    playbooks: set[str]
    repositories: set[str]
    token: str = "t0ken-of-tests"
    revision: str = "c0ffee"
    objects: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: {one: {} for one in TYPES})
    surveys: dict[int, dict[str, Any]] = field(default_factory=dict)
    links: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    last: int = 0

    def __post_init__(self) -> None:
        self.create("organizations", {"name": "Default"})

    def named(self, endpoint: str, name: str) -> dict[str, Any]:
        """The object of this name."""
        return next(one for one in self.objects[endpoint].values() if one["name"] == name)

    def names(self) -> dict[str, list[str]]:
        """The names of all objects that this project could have made."""
        found = {
            kind: sorted(one.get("name") or one["identifier"] for one in all_of.values())
            for kind, all_of in self.objects.items()
            if kind not in ("organizations", "project_updates")
        }
        return {kind: names for kind, names in found.items() if names}

    def answer(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"detail": "Authentication credentials were not provided."}
        parts = urlsplit(asked.path)
        body = json.loads(asked.body) if asked.body else {}
        words = parts.path.removeprefix(ROOT).strip("/").split("/")
        if len(words) == 1:
            if asked.method == "POST":
                return self._post(words[0], body)
            return self._list(words[0], dict(parse_qsl(parts.query)))
        endpoint, number = words[0], int(words[1])
        one = self.objects[endpoint].get(number)
        if one is None:
            return 404, {"detail": "Not found."}
        if len(words) == 3:
            return self._related(asked.method, endpoint, one, words[2], body)
        if asked.method == "DELETE":
            return self._delete(endpoint, one)
        if asked.method == "PATCH":
            if why := self._refused(endpoint, {**one, **body}):
                return 400, why
            one.update(self._stored(endpoint, body))
        return 200, self._shown(endpoint, one)

    def create(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
        """Add an object."""
        self.last += 1
        own = {"id": self.last, "url": f"{ROOT}{endpoint}/{self.last}/", "type": TYPES[endpoint], "description": ""}
        one = {**own, **DEFAULTS.get(endpoint, {}), **self._stored(endpoint, body)}
        self.objects[endpoint][self.last] = one
        return one

    def launch(self, endpoint: str, name: str, given: dict[str, Any]) -> Answer:
        """What AWX answers to a launch."""
        return self._launch(endpoint, self.named(endpoint, name), {"extra_vars": given})

    def _list(self, endpoint: str, query: dict[str, str]) -> Answer:
        if endpoint == "unified_job_templates":
            found = [(kind, one) for kind in UNIFIED for one in self.objects[kind].values()]
        elif endpoint in TYPES:
            found = [(endpoint, one) for one in self.objects[endpoint].values()]
        else:
            return 404, {"detail": "Not found."}
        matching = [
            self._shown(kind, one)
            for kind, one in found
            if all(self._matches(one, key, value) for key, value in query.items())
        ]
        return 200, {"count": len(matching), "next": None, "previous": None, "results": matching}

    def _matches(self, one: dict[str, Any], key: str, value: str) -> bool:
        name, _, how = key.partition("__")
        return str(one.get(name)).startswith(value) if how == "startswith" else str(one.get(key)) == value

    def _post(self, endpoint: str, body: dict[str, Any]) -> Answer:
        if why := self._refused(endpoint, {**DEFAULTS.get(endpoint, {}), **body}):
            return 400, why
        one = self.create(endpoint, body)
        if endpoint == "projects":
            return 201, {
                **self._shown(endpoint, one),
                "summary_fields": {"current_update": {"id": self._sync(one)["id"]}},
            }
        return 201, self._shown(endpoint, one)

    def _sync(self, project: dict[str, Any]) -> dict[str, Any]:
        good = project["scm_url"] in self.repositories
        project.update(status="successful" if good else "failed", scm_revision=self.revision if good else "")
        done = {"name": project["name"], "failed": not good, "finished": "now", "scm_revision": project["scm_revision"]}
        done |= {"status": project["status"], "event_processing_finished": True}
        update = self.create("project_updates", done)
        project["last_update"] = {name: update[name] for name in ("id", "status", "failed")}
        return update

    def _stored(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
        known = DEFAULTS.get(endpoint, {})
        return {name: known.get(name) if value is None else value for name, value in body.items() if name != "type"}

    def _shown(self, endpoint: str, one: dict[str, Any]) -> dict[str, Any]:
        related = {name: f"{one['url']}{name}/" for name in ("survey_spec", "update", "launch")}
        summary = {name: one[name] for name in ("last_update",) if name in one}
        return {**one, "related": related, "summary_fields": summary}

    def _refused(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
        if endpoint == "job_templates":
            project = self.objects["projects"].get(body.get("project") or 0, {})
            if not project.get("scm_revision") or body.get("playbook") not in self.playbooks:
                return {"playbook": ["Playbook not found for project."]}
        if endpoint == "execution_environments" and not body.get("image"):
            return {"image": ["This field may not be blank."]}
        if endpoint == "credential_types":
            fields = {one["id"] for one in body["inputs"]["fields"]}
            used = set(re.findall(r"\{\{ *(\w+) *\}\}", json.dumps(body["injectors"])))
            return {"injectors": [f"{sorted(used - fields)} is undefined"]} if used - fields else {}
        if endpoint in ("schedules", "workflow_job_template_nodes"):
            if endpoint == "schedules" and not re.match(r"DTSTART\S*:\d{8}T\d{6}Z? RRULE:FREQ=", body.get("rrule", "")):
                return {"rrule": ["Valid DTSTART required in rrule."]}
            return self._refused_answers(body["unified_job_template"], body["extra_data"], endpoint == "schedules")
        return {}

    def _refused_answers(self, template: int, answers: dict[str, Any], required: bool) -> dict[str, Any]:
        """A schedule or node is refused for a variable that a launch would drop silently."""
        one = next(self.objects[kind][template] for kind in UNIFIED if template in self.objects[kind])
        spec = self.surveys.get(template, {})
        wrong = [text for text in awx_survey_rules.errors(spec, answers) if required or "missing" not in text]
        if wrong:
            return {"variables_needed_to_start": wrong}
        dropped = awx_survey_rules.launched(one, spec, answers)[1] if answers else []
        return {"extra_data": [f"Variables {', '.join(dropped)} are not allowed on launch."]} if dropped else {}

    def _related(self, method: str, endpoint: str, one: dict[str, Any], name: str, body: dict[str, Any]) -> Answer:
        if name == "survey_spec":
            if method == "POST":
                if why := awx_survey_rules.refused(body):
                    return 400, {"error": why}
                self.surveys[one["id"]] = body
            return 200, self.surveys.get(one["id"], {})
        if name == "update":
            return 202, self._shown("project_updates", self._sync(one))
        if name == "launch":
            return self._launch(endpoint, one, body)
        linked = self.links.setdefault((one["id"], name), set())
        if method == "POST":
            (linked.discard if body.get("disassociate") else linked.add)(body["id"])
            return 204, b""
        return 200, {"count": len(linked), "next": None, "results": [{"id": number} for number in linked]}

    def _launch(self, endpoint: str, one: dict[str, Any], body: dict[str, Any]) -> Answer:
        if endpoint == "job_templates" and not self.objects["projects"][one["project"]].get("scm_revision"):
            return 400, {"project": ["Missing a revision to run due to failed project update."]}
        spec, given = self.surveys.get(one["id"], {}), body.get("extra_vars") or {}
        variables, dropped = awx_survey_rules.launched(one, spec, given)
        if wrong := awx_survey_rules.errors(spec, given):
            return 400, {"variables_needed_to_start": wrong}
        ignored = {"extra_vars": {name: given[name] for name in dropped}} if dropped else {}
        return 201, {"extra_vars": json.dumps(variables), "ignored_fields": ignored}

    def _delete(self, endpoint: str, one: dict[str, Any]) -> Answer:
        used = [other for other in self.objects["credentials"].values() if other["credential_type"] == one["id"]]
        if endpoint == "credential_types" and used:
            return 403, {"detail": "Credential types that are in use cannot be deleted"}
        del self.objects[endpoint][one["id"]]
        self.surveys.pop(one["id"], None)
        for kind, name in DELETED_TOO.get(endpoint, []):
            for other in [other for other in self.objects[kind].values() if other.get(name) == one["id"]]:
                del self.objects[kind][other["id"]]
        return 204, b""
