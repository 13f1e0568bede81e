"""Fail if a tracked file contains a path of a developer's machine, a package registry's host, or a key.

What is searched is what git would commit: tracked files and new ones that are not ignored. A line may carry
``leak-scan: ok`` with a reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from common import ROOT, say

# Spelled in pieces so that this file does not find itself.
_HOSTS = ("pypi" + r"\.org", "files.python" + r"hosted\.org", "proxy.go" + r"lang\.org", "sum.go" + r"lang\.org")
_HOSTS += ("registry.npm" + r"js\.org", "deb.deb" + r"ian\.org", "repo1?.maven" + r"\.apache\.org", "crates" + r"\.io")
PATTERNS = {
    "a registry's host": re.compile("|".join(_HOSTS)),
    "a private key": re.compile("BEGIN (RSA |EC |OPENSSH )?PRIVATE" + " KEY"),
}
#: Folders that say whose machine this is; /tmp, /home and the like say nothing.
PLACES = [
    f"{place}/"
    for place in {ROOT, ROOT.parent, Path.home()}
    if str(place) not in ("/", "/tmp", "/var/tmp", "/home", "/opt", "/srv", "/usr")
]


def candidates() -> list[Path]:
    """Files that are or could be committed; without git all files."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def findings(path: Path) -> list[str]:
    """One line for each trace in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if "leak-scan: ok" in line:
            continue
        place = f"{path.relative_to(ROOT)}:{number}"
        found += [
            f"{place}: {what}: {line.strip()[:100]}" for what, pattern in PATTERNS.items() if pattern.search(line)
        ]
        found += [f"{place}: a path of this machine: {line.strip()[:100]}" for one in PLACES if one in line][:1]
    return found


def main() -> None:
    """Print all findings; exit code 1 if there are any."""
    found = [line for path in candidates() for line in findings(path)]
    for line in found:
        say(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
