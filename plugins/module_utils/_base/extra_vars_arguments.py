# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables for ``ansible-playbook -e``, written so that no parser changes a value.

Ansible splits ``-e name=value`` at blanks and removes quotes and backslashes, so values are written as JSON. It renders
texts of ``-e`` as templates. YAML's ``!unsafe``, which Ansible reads in the same place, prevents that.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

#: Header of a template of Ansible, which may set other delimiters.
TEMPLATE_HEADER = "#jinja2:"
_TEMPLATE = re.compile(rf"\{{[{{%#]|\A{TEMPLATE_HEADER}")
#: Characters that YAML refuses or takes as the end of a line; JSON may escape them, too.
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def looks_like_template(text: str) -> bool:
    """Return whether Ansible would render a text."""
    return _TEMPLATE.search(text) is not None


def extra_vars_arguments(values: Mapping[str, Any], is_data: Callable[[str], bool] = lambda _text: True) -> list[str]:
    """Return the two arguments that give ``values`` to ansible-playbook, literally.

    is_data: whether a text with braces is no template; one that is stays a template.
    """
    return ["-e", _literal(values, is_data)]


def extra_vars_shell_text(values: Mapping[str, Any]) -> str:
    """Return them as they are typed in a shell."""
    return shlex.join(extra_vars_arguments(values))


def _literal(value: Any, is_data: Callable[[str], bool]) -> str:
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(str(name))}: {_literal(entry, is_data)}" for name, entry in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_literal(element, is_data) for element in value) + "]"
    text = _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
    return f"!unsafe {text}" if isinstance(value, str) and looks_like_template(value) and is_data(value) else text
