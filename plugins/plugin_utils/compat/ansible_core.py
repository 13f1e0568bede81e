# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is different in ansible-core 2.16 to 2.18. All other code is written for 2.19 and newer.

Each function states what the older versions lack. Functions look for what they need, not for version numbers, except
where only the behaviour is different. Without these versions, this file and its callers become the newer spelling.

Not here, because it can't be added: in a dictionary, the older versions return numbers of templates as text. Tasks
therefore convert them in one expression (tests/unit/roles/test_numbers_in_templates.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ansible import errors, template
from ansible.plugins.loader import module_loader
from ansible.utils import unsafe_proxy
from jinja2 import nodes
from jinja2.nativetypes import NativeCodeGenerator

#: Whether values carry their origin, and whether they may be rendered, as tags. Without tags, each text is a template
#: unless it is marked as unsafe.
HAS_TAGS = hasattr(template, "trust_as_template")

#: Exceptions of a template that can't be rendered. The older versions raise the general class for most causes.
TEMPLATE_ERRORS: tuple[type[Exception], ...] = (errors.AnsibleTemplateError,) if HAS_TAGS else (errors.AnsibleError,)


def is_template_text(text: str) -> bool:
    """Return whether Ansible would render this text."""
    if HAS_TAGS:
        return bool(template.is_trusted_as_template(text))
    return not hasattr(text, "__UNSAFE__")


def mark_as_template(text: str) -> str:
    """Return a text that Ansible renders."""
    return template.trust_as_template(text) if HAS_TAGS else text


def mark_as_data(value: Any) -> Any:
    """Return a value in which Ansible renders nothing, whatever it has in braces."""
    return value if HAS_TAGS else unsafe_proxy.wrap_var(value)


def load_yaml_file(loader: Any, path: str) -> Any:
    """Read a file by Ansible's loader, with templates that are rendered and with the origins of values."""
    return loader.load_from_file(path, unsafe=True, **({"trusted_as_template": True} if HAS_TAGS else {}))


def origin_of_value(value: Any) -> str | None:
    """Return ``file:line:column``, or ``<CLI option '-e'>``, of a value or key, None if unknown.

    The older versions know that of texts, lists and dictionaries in files only, not of ``-e``.
    """
    if not HAS_TAGS:
        path, line, column = getattr(value, "ansible_pos", None) or ("", 0, 0)
        return f"{path}:{line}:{column}" if path and line else None
    try:
        from ansible._internal._datatag._tags import Origin  # private, but only messages depend on it

        origin = Origin.get_tag(value)
        return str(origin) if origin else None
    except Exception:
        return None


class TaskOutcome(NamedTuple):
    """The part of a task's result that our callbacks read. exception: what it failed with, if that is known."""

    task: Any
    result: Any
    exception: Any


def task_and_result_of_callback(result: Any) -> TaskOutcome:
    """Return task and result of what a callback gets. The older versions have them under other names."""
    if hasattr(result, "task"):
        return TaskOutcome(result.task, result.result, result.exception)
    return TaskOutcome(result._task, result._result, None)


def module_of_task(task: Any) -> str:
    """Return the full name of the module that a task names.

    ``resolved_action`` is that name in newer versions. In the older ones it is the name of the action plugin if
    meta/runtime.yml routes the module to one of another name; there may be another module of that name.
    """
    if HAS_TAGS:
        return str(task.resolved_action or task.action)
    found = module_loader.find_plugin_with_context(task.action, collection_list=task.collections)
    return str(found.resolved_fqcn or task.action)


def forked_module_configuration(shebang: str, path: str) -> Any:
    """Return what ``_configure_module`` of an action returns of a module that needs no data: it runs in a fork.

    Raises ImportError, TypeError if Ansible's internals are unknown.
    """
    if not HAS_TAGS:
        return "new", shebang, b"", path
    from ansible.executor.module_common import _BuiltModule

    built = _BuiltModule(b_module_data=b"", module_style="new", shebang=shebang, serialization_profile="legacy")
    return built, path


def encode_module_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Return the arguments of a module as Ansible sends them.

    Raises ImportError, TypeError if Ansible's internals are unknown.
    """
    content = {"ANSIBLE_MODULE_ARGS": dict(arguments)}
    if not HAS_TAGS:
        from ansible.module_utils.common.json import AnsibleJSONEncoder

        return json.dumps(content, cls=AnsibleJSONEncoder, vault_to_text=True).encode()
    from ansible.module_utils.common.json import Direction, get_module_encoder

    encoder = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
    return json.dumps(content, cls=encoder).encode()


def start_as_module(arguments: bytes) -> None:
    """Make this process, a fork of the controller, one of a module with these arguments."""
    from ansible.module_utils import basic

    if HAS_TAGS:
        from ansible.module_utils import _internal

        _internal.is_controller = False  # warnings belong to the result of the module, not to the display
        basic._ANSIBLE_PROFILE = "legacy"
    basic._ANSIBLE_ARGS = arguments


def copy_template_engine(templar: Any, variables: Mapping[str, Any]) -> Any:
    """Return a copy of Ansible's template engine with these variables, in which an expression keeps its type.

    ``{{ 2 }}`` is a number, ``{{ '4.20' }}`` a text, ``{{ none }}`` null. Of the older versions, the default engine
    returns texts for all three, and the one of ``jinja2_native`` returns 4.2 for the second.
    """
    if HAS_TAGS:
        return templar.copy_with_new_env(available_variables=variables)
    finalize = template.AnsibleNativeEnvironment().finalize  # the default one replaces null by an empty text
    engine = templar.copy_with_new_env(_typed_environment(), available_variables=variables, finalize=finalize)
    own = {"lookup": engine._lookup, "query": engine._query_lookup, "q": engine._query_lookup}
    engine.environment.globals = {**engine.environment.globals, **own}  # else lookups see the variables of the original
    return engine


@cache
def _typed_environment() -> Any:
    class ConstantsAtRunTime(NativeCodeGenerator):
        """Writes no constant expression into the template as text."""

        def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> Any:
            if not isinstance(node, nodes.TemplateData):
                raise nodes.Impossible
            return super()._output_child_to_const(node, frame, finalize)

    class TypedEnvironment(template.AnsibleEnvironment):
        """The default one, in which a template that is one expression returns its value."""

        code_generator_class = ConstantsAtRunTime
        concat = staticmethod(_join_unless_single)

    return TypedEnvironment


def _join_unless_single(nodes: Iterable[Any]) -> Any:
    """Return the value of the only node, else the text of all nodes; it is unsafe if one of them is."""
    values = list(nodes)
    if len(values) == 1:
        return values[0]
    text = "".join("" if value is None else str(value) for value in values)
    if any(hasattr(value, "__UNSAFE__") for value in values if isinstance(value, str)):
        from ansible.utils.unsafe_proxy import wrap_var

        return wrap_var(text)
    return text
