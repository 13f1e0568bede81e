# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that must not be templated, and YAML that marks it as ``!unsafe``.

``include_vars`` treats every text as a template. Text with literal braces is therefore written as ``!unsafe``.
"""

from __future__ import annotations

from typing import Any


class UnsafeText(str):
    """Text that must not be templated."""


_BRACES = ("{{", "{%", "{#")


def looks_like_template(value: Any) -> bool:
    """Return whether Jinja would render ``value``."""
    return isinstance(value, str) and any(mark in value for mark in _BRACES)


def has_template(value: Any) -> bool:
    """Return whether any text in ``value`` looks like a template."""
    if isinstance(value, dict):
        return any(has_template(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_template(one) for one in value)
    return looks_like_template(value) and not isinstance(value, UnsafeText)


def mark(value: Any, trusted: Any) -> Any:
    """Return ``value`` as plain data in which texts with braces for which ``trusted(text)`` is false are UnsafeText."""
    if isinstance(value, dict):
        return {str(key): mark(one, trusted) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [mark(one, trusted) for one in value]
    if isinstance(value, str):
        text = "".join(value)  # drops Ansible's tags
        return UnsafeText(text) if looks_like_template(text) and not trusted(value) else text
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)  # drops the tags here too
    return str(value)


def load(text: str) -> Any:
    """Return what dump() wrote, with UnsafeText for ``!unsafe``."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A separate class: the constructor below must not change other loaders."""

    def construct(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> UnsafeText:
        return UnsafeText(loader.construct_scalar(node))

    Loader.add_constructor("!unsafe", construct)
    return yaml.load(text, Loader)


def dump(value: Any) -> str:
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
