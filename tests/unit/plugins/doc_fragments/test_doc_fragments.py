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
