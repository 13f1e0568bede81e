# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates in settings: what renders them, which names they use, and text that must not be rendered.

``include_vars`` treats every text as a template. Text with literal braces is therefore written as ``!unsafe``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

from . import dotted_paths
from .settings_layers import SettingsError

#: Renders a raw value with these variables; returns it unchanged and True when a name in it is not defined yet.
Render = Callable[[Any, Mapping[str, Any]], tuple[Any, bool]]


class UnsafeText(str):
    """Text that must not be templated."""


def looks_like_template(value: Any) -> bool:
    """Return whether Jinja would render ``value``."""
    return isinstance(value, str) and extra_vars_arguments.looks_like_template(value)


def has_template(value: Any) -> bool:
    """Return whether any text in ``value`` looks like a template."""
    if isinstance(value, dict):
        return any(has_template(entry) for entry in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_template(element) for element in value)
    return looks_like_template(value) and not isinstance(value, UnsafeText)


def mark_unsafe(value: Any, trusted: Any) -> Any:
    """Return ``value`` as plain data in which texts with braces for which ``trusted(text)`` is false are UnsafeText."""
    if isinstance(value, dict):
        return {str(key): mark_unsafe(entry, trusted) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [mark_unsafe(element, trusted) for element in value]
    if isinstance(value, str):
        text = "".join(value)  # drops Ansible's tags
        return UnsafeText(text) if looks_like_template(text) and not trusted(value) else text
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)  # drops the tags here too
    return str(value)


def load_yaml_with_unsafe(path: Path) -> dict[str, Any]:
    """Read a file that dump_yaml_with_unsafe() wrote, with UnsafeText for ``!unsafe``. Raises DataError.

    JSON is refused: Ansible, which loads some of these files too, decrypts ``{"__ansible_vault": …}`` in it. A
    stranger's file could have texts of a vault that is published.
    """
    document = files.read_yaml(path, UnsafeText)
    if not isinstance(document, dict):
        raise DataError(f"{path}: a dictionary is expected, not {type(document).__name__}")
    if document and path.read_bytes().lstrip().startswith(b"{"):
        raise DataError(f"{path}: it is JSON, and a run writes YAML")
    return document


def mark_other_templates_unsafe(values: Mapping[str, Any], known: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return values read from a file in which each text with braces is UnsafeText, except templates that code has.

    values: setting, or dotted key of one -> value. known: setting -> the templates that code gives it.
    """
    return {
        key: mark_unsafe(
            value,
            lambda text, key=key: (
                not isinstance(text, UnsafeText) and text in known.get(setting_of_dotted_key(key), ())
            ),
        )
        for key, value in values.items()
    }


def new_unsafe_texts(value: Any, marked: Any) -> list[str]:
    """Return the texts of ``value`` that are UnsafeText in ``marked``, the same value, only."""
    before, after = texts_in_value(value), texts_in_value(marked)
    return [
        text
        for text, now in zip(before, after, strict=True)
        if isinstance(now, UnsafeText) and not isinstance(text, UnsafeText)
    ]


def add_templates(known: dict[str, set[str]], values: Mapping[str, Any]) -> None:
    """Add the templates in ``values`` (setting, or dotted key of one -> value) to ``known``: setting -> templates."""
    for key, value in values.items():
        found = {text for text in texts_in_value(value) if has_template(text)}
        if found:
            known.setdefault(setting_of_dotted_key(key), set()).update(found)


def setting_of_dotted_key(key: str) -> str:
    """Return the setting that a dotted key reaches into: ``a`` of ``a.b``, of ``a[0]`` and of ``["a"].b``."""
    try:
        return str(dotted_paths.parse_dotted_path(str(key))[0])
    except dotted_paths.PathError:
        return str(key)


def dump_yaml_with_unsafe(value: Any) -> str:
    """Return ``value`` as YAML without sorting its keys; UnsafeText becomes ``!unsafe``."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A separate class: the representers below must not change other dumpers."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    # Ansible's tagged texts are subclasses of str.
    Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str("".join(text)))
    Dumper.add_representer(UnsafeText, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'))
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)


def create_template_renderer(templar: Any, variables: Mapping[str, Any]) -> Any:
    """Return a function (value, tree) -> (rendered value, whether some name in it is not defined yet).

    A tree must not change between two calls with it.
    """

    def trusted(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: trusted(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [trusted(element) for element in value]
        is_template = isinstance(value, str) and not isinstance(value, UnsafeText)
        return ansible_core.mark_as_template(value) if is_template else value

    seen: list[Any] = [None, None]  # the last tree and its engine: the settings of a tree are rendered in succession

    def engine_for(tree: Mapping[str, Any]) -> Any:
        if seen[0] is not tree:
            names = {**variables, **{name: trusted(value) for name, value in tree.items()}}
            seen[:] = tree, ansible_core.copy_template_engine(templar, names)
        return seen[1]

    def render(value: Any, tree: Mapping[str, Any]) -> tuple[Any, bool]:
        engine = engine_for(tree)
        try:
            return mark_unsafe(engine.template(trusted(value)), lambda _text: False), False
        except AnsibleUndefinedVariable:
            return value, True
        except ansible_core.TEMPLATE_ERRORS as error:
            raise SettingsError(f"can't render '{value}': {error}", value) from error

    return render


#: Variables that only the run defines: facts of role run, and the clusters that it acquired.
OF_RUN = ("cluster_acquired", "run_dir", "run_id", "run_point", "run_points")
#: Functions of Ansible's templates that are not variables.
FUNCTIONS = ("lookup", "query", "q", "now", "omit", "undef")


def names_in_template(text: str) -> set[str]:
    """Return the variables in a template. Raises jinja2.TemplateError for one that can't be parsed."""
    from jinja2 import Environment, nodes
    from jinja2.defaults import DEFAULT_NAMESPACE

    name_nodes = list(Environment().parse(text).find_all(nodes.Name))
    stored = {node.name for node in name_nodes if node.ctx != "load"}
    return {node.name for node in name_nodes} - stored - set(DEFAULT_NAMESPACE) - set(FUNCTIONS)


def first_undefined_name(value: Any, settings: Mapping[str, Any], variables: Mapping[str, Any]) -> str | None:
    """Return the name in a template that nothing defines, also through other settings and variables.

    Returns None if each undefined value is one that only the run defines, an empty string if all names are known and
    the template asks for a part of a variable that does not exist.
    """
    todo, seen, awaits_run = [value], set[str](), False
    while todo:
        for name in sorted(_variables_in_templates(todo.pop()) - seen):
            seen.add(name)
            awaits_run = awaits_run or name in OF_RUN
            if name in settings:
                todo.append(settings[name])
            elif name in variables:
                todo.append(variables[name])
            elif name not in OF_RUN:
                return name
    return None if awaits_run else ""


def _variables_in_templates(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*map(_variables_in_templates, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_variables_in_templates, value))
    return names_in_template(value) if isinstance(value, str) and has_template(value) else set()


#: Words of a template that may read any setting.
_DYNAMIC = frozenset({"lookup", "query", "q", "vars", "varnames", "hostvars"})


def words_in_templates(settings: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the words in each setting that contains a template."""
    templates = {name: raw for name, raw in settings.items() if has_template(raw)}
    return {name: set(re.findall(r"[A-Za-z_]\w*", " ".join(texts_in_value(raw)))) for name, raw in templates.items()}


def dependent_settings(of_settings: Mapping[str, set[str]], changed: Iterable[str]) -> set[str]:
    """Return the settings that may have another value where those in ``changed`` do.

    of_settings: of words_in_templates(). A template depends on every setting whose name is in it, and on what that one
    depends on.
    """
    return _settings_referring_to_names(
        of_settings, {*changed, *(name for name, ones in of_settings.items() if not ones.isdisjoint(_DYNAMIC))}
    )


def settings_only_run_defines(settings: Mapping[str, Any], render: Render) -> set[str]:
    """Return the settings that refer to a name which only the run defines, and which is not defined yet.

    Also those that can be rendered without it, such as ``{{ cluster_acquired.sutest.context | default('') }}``: they
    would stay empty if they were rendered before there is a cluster.
    """
    defined, _undefined = render("{{ [" + ", ".join(f"{name} is defined" for name in OF_RUN) + "] }}", settings)
    return _settings_referring_to_names(
        words_in_templates(settings), [name for name, there in zip(OF_RUN, defined, strict=True) if not there]
    )


def _settings_referring_to_names(of_settings: Mapping[str, set[str]], names: Iterable[str]) -> set[str]:
    """Return ``names`` and the settings whose templates name one of them, also through other settings."""
    users = set(names)
    while more := {name for name, ones in of_settings.items() if name not in users and not ones.isdisjoint(users)}:
        users |= more
    return users


def texts_in_value(value: Any) -> Iterator[str]:
    """Yield the texts in a value, keys of dictionaries included: Ansible renders them too."""
    if isinstance(value, dict):
        value = [*map(str, value), *value.values()]
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from texts_in_value(element)
    elif isinstance(value, str):
        yield value
