"""AWX's rules for surveys, as a real AWX (source of October 2024) applied them: specifications, answers, launches."""

from __future__ import annotations

import json
from typing import Any

#: Type of a question -> type of its default in JSON. A list as default is refused even for a multiselect.
DEFAULTS = {
    **dict.fromkeys(("text", "textarea", "password", "multiplechoice", "multiselect"), str),
    "integer": int,
    "float": float,
}


def refused(spec: dict[str, Any]) -> str:
    """Why AWX does not accept a survey; "" if it does."""
    for field, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(spec.get(field), kind):
            return f"Field '{field}' is missing from survey spec."
    if not spec["spec"]:
        return "'spec' doesn't contain any items."
    seen: set[str] = set()
    for number, question in enumerate(spec["spec"]):
        why = _refused(question) or (f"'{question['variable']}' duplicated" if question["variable"] in seen else "")
        if why:
            return f"survey question {number}: {why}"
        seen.add(question["variable"])
    return ""


def _refused(question: dict[str, Any]) -> str:
    for field, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if not isinstance(question.get(field), kind):
            return f"'{field}' missing or no {kind.__name__}"
    if question["type"] not in DEFAULTS:
        return f"'{question['type']}' is not allowed"
    if "default" in question and question["default"] != "":
        kind = DEFAULTS[question["type"]]
        if not isinstance(question["default"], kind) or isinstance(question["default"], bool):
            return f"default {question['default']!r} expected to be {kind.__name__}"
    if any(not isinstance(question.get(bound), int | None) for bound in ("min", "max")):
        return "limit expected to be integer"
    if question["type"].startswith("multi"):
        choices = question.get("choices")
        if not choices:
            return "must specify choices"
        if any(one not in choices for one in str(question.get("default", "")).splitlines()):
            return "default choice must be answered from the choices listed"
    return ""


def errors(spec: dict[str, Any], answers: dict[str, Any]) -> list[str]:
    """What AWX says about answers at a launch."""
    return [text for question in spec.get("spec", []) if (text := _wrong(question, answers))]


def _wrong(question: dict[str, Any], answers: dict[str, Any]) -> str:
    name, kind = question["variable"], question["type"]
    if name not in answers:
        return f"'{name}' value missing" if question["required"] else ""
    value = answers[name]
    right = {"integer": (int,), "float": (float, int), "multiselect": (list,), "multiplechoice": (str,)}.get(
        kind, (str,)
    )
    if type(value) not in right:
        return f"Value {value!r} for '{name}' expected to be {' or '.join(one.__name__ for one in right)}."
    if kind in ("integer", "float"):
        for bound, wrong in (("min", lambda limit: value < limit), ("max", lambda limit: value > limit)):
            if question.get(bound) is not None and wrong(int(question[bound])):
                return f"Value {value} for '{name}' is too {'small' if bound == 'min' else 'large'} ({bound})."
    chosen = value if kind == "multiselect" else [value] if kind == "multiplechoice" else []
    missing = [one for one in chosen if one not in _choices(question)]
    return f"Value {missing[0]} for '{name}' expected to be one of {_choices(question)}." if missing else ""


def _choices(question: dict[str, Any]) -> list[str]:
    choices = question["choices"]
    return choices.splitlines() if isinstance(choices, str) else list(choices)


def launched(template: dict[str, Any], spec: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Extra variables of a job, and the names that AWX drops: template, then defaults of the survey, then answers."""
    asked = {question["variable"]: question for question in spec.get("spec", [])} if template["survey_enabled"] else {}
    kept = {name: one for name, one in given.items() if name in asked or template["ask_variables_on_launch"]}
    # A default that is not valid itself, as a text for a multiselect, is not used.
    defaults = {
        name: one["default"]
        for name, one in asked.items()
        if one.get("default") is not None and not _wrong(one, {name: one["default"]})
    }
    own = json.loads(template["extra_vars"] or "{}")
    return {**own, **defaults, **kept}, sorted(set(given) - set(kept))


def job_variables(number: int, workflow: int = 0) -> dict[str, Any]:
    """Return all variables that AWX 24.6 itself gives to a job; workflow: number of its workflow job, 0 for none."""
    given: dict[str, Any] = {
        "job_id": number,
        "job_launch_type": "workflow" if workflow else "manual",
        **dict.fromkeys(("job_template_id", "user_id", "inventory_id", "schedule_id", "parent_job_schedule_id"), 7),
        **dict.fromkeys(
            ("job_template_name", "inventory_name", "schedule_name", "parent_job_schedule_name"), "nightly"
        ),
        **dict.fromkeys(("user_name", "user_first_name", "user_last_name"), "ann"),
        "user_email": "ann@example.com",
        "project_revision": "d718bbe54455e7c86b49103800bf3bce786e2dfe",
        **dict.fromkeys(("project_scm_branch", "job_scm_branch"), "main"),
        "execution_node": "node.example",
        **dict.fromkeys(("webhook_event_type", "webhook_event_guid", "webhook_event_ref", "webhook_status_api"), "x"),
        "webhook_payload": {"action": "opened"},
    }
    if workflow:
        given |= {"workflow_job_id": workflow, "workflow_job_name": "nightly", "workflow_job_launch_type": "scheduled"}
    return {f"{prefix}_{name}": value for prefix in ("awx", "tower") for name, value in given.items()}
