# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that a load in a pod needs, as a zip: our modules and those of ansible.module_utils that they import.

The image of the pod has neither. Where Ansible packed the module that runs, its archive has the same content.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from . import pod_main
from .detached_load import ansible_archive

_OURS = "ansible_collections.perfscale.seatrial.plugins.module_utils"
#: Packages whose modules are packed; of the packages around them, only an empty __init__.py.
_PACKED = (_OURS, "ansible.module_utils")


def archive() -> bytes:
    """Return the code as a zip: the archive from which Ansible runs this module, or one of what pod_main imports."""
    found = ansible_archive()
    if found is not None:
        return found.read_bytes()
    content = _modules(pod_main.__name__)
    for name in list(content):
        for parent in Path(name).parents[:-1]:
            content.setdefault(f"{parent}/__init__.py", b"")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in sorted(content):
            bundle.writestr(name, content[name])
    return packed.getvalue()


def _modules(first: str) -> dict[str, bytes]:
    """Return path in the zip -> text of a module and of all that it imports, also within functions."""
    found: dict[str, bytes] = {}
    seen: set[str] = set()
    left = [first]
    while left:
        name = left.pop()
        if name in seen or not any(f"{name}.".startswith(f"{one}.") for one in _PACKED):
            continue
        seen.add(name)
        spec = importlib.util.find_spec(name) if _exists(name.rpartition(".")[0]) else None
        if spec is None or spec.origin is None:
            continue  # an attribute of a module, or a module that only some versions of Ansible have
        text = Path(spec.origin).read_bytes()
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        here = name.replace(".", "/")
        found[f"{here}/__init__.py" if package == name else f"{here}.py"] = text
        left += [package, *_imports(ast.parse(text), package)]
    return found


def _exists(package: str) -> bool:
    """Return whether this is a package and not a module."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.submodule_search_locations is not None


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a module of ``package`` may import; some are attributes of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield base
            yield from (f"{base}.{one.name}" for one in node.names)
