# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX: the survey of a job template, and the kubeconfig of a credential.

A survey asks for presets of a project, and for those of its settings that may be set from outside. No question has a
default. AWX sends defaults as extra variables, even "" for an unanswered text, and these override every preset. The
description of a question states the default instead.

Ansible changes the type of answers that are texts, which is undone.

A job gets the credential type "OpenShift or Kubernetes API Bearer Token" as K8S_AUTH_HOST, K8S_AUTH_API_KEY, and
K8S_AUTH_VERIFY_SSL or K8S_AUTH_SSL_CA_CERT. The credential type "Amazon Web Services" needs nothing here: boto3 and the
installers read its variables themselves.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    presets_from_variables,
    settings_allowed_in_pull_requests,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import ProjectRole
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue, Setting

#: Type of a setting -> type of its question.
_TYPES = {"int": "integer", "float": "float", "str": "text", "bool": "multiplechoice"}
#: Ansible's markup, such as V(value).
_MARKUP = re.compile(r"\b[A-Z]\(([^)]*)\)")


def project_survey_spec(
    role: ProjectRole, catalogue: Catalogue, presets: Mapping[str, Any], settings: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return the survey of a project as AWX's API takes it.

    settings: names of settings to ask for; by default those that meta/outside.yml of the role lists. Raises InputError
    for a setting that does not exist, and for one that a survey can't ask for.
    """
    spec = [_preset_question(presets)] if presets else []
    if settings is None:
        names = [
            name
            for name in settings_allowed_in_pull_requests.load_role_declarations(role.root).patterns
            if name in catalogue.settings
        ]
        mine = [name for name in names if catalogue.settings[name].role == role.project]
        spec += [
            _setting_question(catalogue.settings[name]) for name in mine if _is_type_supported(catalogue.settings[name])
        ]
    else:
        spec += [_setting_question(_checked_survey_setting(name, catalogue)) for name in settings]
    return {"name": "", "description": "", "spec": spec}


def presets_by_name(role: ProjectRole, variables: Mapping[str, Any], loader: Any) -> dict[str, Any]:
    """Return the presets that the project can use, by name. loader: Ansible's."""
    known = {**presets_from_variables.presets_missing_from_variables(role, variables, loader), **variables}
    return dict(presets_from_variables.usable_presets(known, role.project))


def _preset_question(presets: Mapping[str, Any]) -> dict[str, Any]:
    text = "Presets to apply, in this order. Without one, the settings have their defaults."
    return _survey_question_entry("preset", text, "multiselect", {"choices": sorted(presets)})


def _is_type_supported(setting: Setting) -> bool:
    return setting.type in _TYPES


def _checked_survey_setting(name: str, catalogue: Catalogue) -> Setting:
    setting = catalogue.settings.get(name)
    if setting is None:
        raise InputError(f"survey: unknown setting '{name}'{suggest_similar_name(name, catalogue.settings)}")
    if setting.secret:
        raise InputError(f"survey: {name} is a secret, which belongs in a credential")
    if not _is_type_supported(setting):
        raise InputError(f"survey: {name} is a {setting.type}, which a survey can't ask for; set it in a preset")
    return setting


def _setting_question(setting: Setting) -> dict[str, Any]:
    choices = setting.spec.get("choices")
    if setting.type == "bool":
        more: dict[str, Any] = {"choices": ["true", "false"]}
    else:
        more = {"choices": [str(choice) for choice in choices]} if choices else {}
    kind = "multiplechoice" if more else _TYPES[setting.type]
    if kind in ("integer", "float"):
        more = dict(zip(("min", "max"), setting.bounds, strict=True))
    return _survey_question_entry(setting.name, _question_description(setting), kind, more)


def _survey_question_entry(variable: str, description: str, kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "question_name": variable,
        "question_description": description,
        "variable": variable,
        "type": kind,
        "required": False,
        **more,
    }


def _question_description(setting: Setting) -> str:
    description = setting.spec.get("description") or ""
    first = str(description[0] if isinstance(description, list) else description).strip()
    default = setting.default
    shown = (
        ""
        if default is None or (isinstance(default, str) and "{{" in default)
        else f" Default: {_format_default_value(default)}"
    )
    return _MARKUP.sub(r"\1", first) + (f"{shown}, unless a preset sets it." if shown else "")


def _format_default_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "empty"


#: Types of settings that Ansible converts from any text; only a text must stay as it was answered.
_CONVERTED = ("int", "float", "bool", "dict")


def restore_original_answer_texts(
    extra: MutableMapping[str, Any], options: Iterable[str], catalogue: Catalogue
) -> None:
    """Give the answers of a survey in ``extra`` the texts that were answered, and remove those that are empty.

    AWX writes a text as ``!unsafe '007'``, which Ansible loads as the number 7, 'yes' as true, and '' as null. An empty
    answer is none. options: the values of -e, of which ``@file`` has such answers.
    """
    for option in options:
        if not option.startswith("@"):
            continue
        for name, answer in _unsafe_texts(Path(option[1:])).items():
            setting = catalogue.settings.get(name)
            if answer == "":
                if extra.get(name, "") in (None, ""):
                    extra.pop(name, None)
            elif extra.get(name) != answer and (setting is None or setting.type not in _CONVERTED):
                extra[name] = answer


def _unsafe_texts(path: Path) -> dict[str, Any]:
    """Return the top-level values of a YAML file that are quoted texts with the tag !unsafe, or lists of them."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader) if "!unsafe" in text else None
    except (OSError, ValueError, yaml.YAMLError):
        return {}  # Ansible has read it; an encrypted file is no survey

    def is_unsafe(node: Any) -> bool:
        return isinstance(node, yaml.ScalarNode) and node.tag == "!unsafe" and node.style in ("'", '"', "|", ">")

    found: dict[str, Any] = {}
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if is_unsafe(value):
            found[str(key.value)] = value.value
        elif isinstance(value, yaml.SequenceNode) and value.value and all(map(is_unsafe, value.value)):
            found[str(key.value)] = [node.value for node in value.value]
    return found


HOST, TOKEN = "K8S_AUTH_HOST", "K8S_AUTH_API_KEY"
VERIFY, AUTHORITY = "K8S_AUTH_VERIFY_SSL", "K8S_AUTH_SSL_CA_CERT"
KUBECONFIG = "KUBECONFIG"
_FALSE = ("false", "no", "0", "off", "n", "f")


def write_and_set_kubeconfig(environment: MutableMapping[str, str], folder: Path) -> Path | None:
    """Write a kubeconfig of the credential into ``folder`` and set KUBECONFIG; return its path.

    Nothing is done without the credential, or if KUBECONFIG is set. folder: a private one that is removed when
    ansible-playbook exits.
    """
    host, token = environment.get(HOST, ""), environment.get(TOKEN, "")
    if not host or not token or environment.get(KUBECONFIG):
        return None
    cluster: dict[str, object] = {"server": host if "://" in host else f"https://{host}"}
    if authority := environment.get(AUTHORITY):
        cluster["certificate-authority"] = os.path.abspath(authority)
    if environment.get(VERIFY, "").strip().lower() in _FALSE:
        cluster["insecure-skip-tls-verify"] = True
        cluster.pop("certificate-authority", None)
    path = folder / "k8s_auth_kubeconfig"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        json.dump(kubeconfig.single_context_kubeconfig("k8s-auth", cluster, {"token": token}), stream)
    environment[KUBECONFIG] = str(path)
    return path
