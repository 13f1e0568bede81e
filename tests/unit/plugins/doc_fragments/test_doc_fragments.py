"""Options that modules share are documented once."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

MODULES = Path(__file__).parents[4] / "plugins" / "modules"


def _documentation(path: Path) -> dict[str, Any]:
    """Return the DOCUMENTATION of a module without its fragments."""
    text = re.search(r'^DOCUMENTATION = r"""\n(.*?)^"""', path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert text, path
    return yaml.safe_load(text[1])


def test_an_option_that_modules_share_comes_from_a_fragment():
    modules = defaultdict(list)
    for path in sorted(MODULES.glob("*.py")):
        for name, option in _documentation(path).get("options", {}).items():
            modules[name, yaml.safe_dump(option)].append(path.stem)
    assert len(modules) > 100
    assert not {names[0]: where for names, where in modules.items() if len(where) > 1}


def test_a_module_without_check_mode_says_why():
    silent = []
    for path in sorted(MODULES.glob("*.py")):
        check_mode = _documentation(path)["attributes"]["check_mode"]
        if check_mode["support"] != "full" and not check_mode.get("details"):
            silent.append(path.stem)
    assert not silent


def test_a_module_that_records_a_run_is_internal():
    fragment = "perfscale.seatrial._attributes.internal"
    internal = {path.stem for path in MODULES.glob("*.py") if fragment in _fragments(path)}
    assert {
        "open_run",
        "record_run_state",
        "step_directory",
        *(path.stem for path in MODULES.glob("run_*.py")),
    } <= internal


def _fragments(path: Path) -> list[str]:
    return _documentation(path).get("extends_documentation_fragment", [])
