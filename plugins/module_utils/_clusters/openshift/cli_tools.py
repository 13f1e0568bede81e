# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding command-line tools of OpenShift: by a given path, in PATH, or on a mirror with a pinned checksum."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import downloads

#: Where Red Hat publishes clients, and what the archive of each program is called there.
ARCHIVES = {"openshift-install": "openshift-install-linux.tar.gz", "oc": "openshift-client-linux.tar.gz"}


def find_or_download_program(
    name: str, program: str, mirror: str, version: str, checksum: str, cache: Path, say: Callable[[str], None]
) -> str:
    """Return the path of a program. Raises InputError if there is none, ProcessError if the download fails.

    program: its path. mirror: URL of a folder with one folder per version; it requires version and checksum (SHA-256 of
    the archive), so that exactly the tested program runs.
    """
    if program:
        path = Path(program).expanduser().absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{name}: there is no program {path}")
        return str(path)
    if mirror:
        return _download_program(name, mirror, version, checksum, cache, say)
    location = shutil.which(name)
    if not location:
        raise InputError(
            f"{name} is not in PATH: set its path, or cluster_installer_mirror, cluster_version and "
            "cluster_installer_checksum to download it"
        )
    return location


def _download_program(
    name: str, mirror: str, version: str, checksum: str, cache: Path, say: Callable[[str], None]
) -> str:
    digest = checksum.lower().removeprefix("sha256:")
    if not version or len(digest) != 64:
        raise InputError(
            f"{name} is downloaded from {mirror} only with cluster_version and with cluster_installer_checksum, the "
            "SHA-256 of its archive in the mirror's sha256sum.txt"
        )
    path = cache / f"{name}-{version}-{digest[:12]}"
    if path.exists():
        return str(path)
    if name not in ARCHIVES or platform.system() != "Linux":
        raise InputError(f"{name} can't be downloaded for {platform.system()}: set its path")
    url = f"{mirror.rstrip('/')}/{version}/{ARCHIVES[name]}"
    say(f"downloading {url}")
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        archive = Path(folder) / ARCHIVES[name]
        actual_digest = downloads.download_url_to_file(url, archive)
        if actual_digest != digest:
            raise ProcessError(f"{url} has the SHA-256 {actual_digest}, expected {digest}: nothing was kept")
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        downloads.extract_program_from_archive(archive, name, part, url)
    part.chmod(0o755)
    part.replace(path)
    return str(path)
