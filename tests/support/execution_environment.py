"""The image of the execution environment, built by podman on a root of Debian, where no base image can be downloaded.

What is not as in a real build: the base image, ``dnf`` (a script that calls apt-get), the Python (a virtual
environment, because Debian's own has no ensurepip) and the source of kubernetes.core (the copy in .venv, not Galaxy).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import artefact
import debian_packages
import rehearsal
import trixie
import yaml
from ansible_collections.kubernetes import core
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_selection,
)
from common import ROOT, VENV

BASE = "localhost/seatrial-base"
IMAGE, WITH_PROGRAMS = "localhost/seatrial", "localhost/seatrial-rehearsal"
LAYER = ROOT / "execution-environment-rehearsal.Containerfile"
PYTHON = "/opt/python/bin/python3"
DNF = """#!/bin/sh
# The two commands of dnf that ansible-builder calls.
case " $* " in *" clean "*) exit 0 ;; esac
shift
exec apt-get install -y --no-install-recommends $(printf '%s\\n' "$@" | grep -v '^-')
"""
CONTAINERFILE = f"""FROM {BASE}-root
COPY dnf /usr/bin/dnf
RUN python3 -m venv --without-pip /opt/python
ENV PATH=/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


def unavailable() -> str:
    """Why no image can be built here; "" if one can."""
    return trixie.unavailable() or ("" if shutil.which("apt-get") else "podman is missing and can't be installed")


def context(folder: Path) -> Path:
    """Return the build context that ansible-builder makes of the definition of this clone and the built collection."""
    artefact.build(folder)
    shutil.copy(ROOT / "execution-environment.yml", folder)
    (folder / "collections").mkdir()
    shutil.copy(ROOT / "collections" / "requirements.yml", folder / "collections")
    command = [str(VENV / "bin" / "ansible-builder"), "create", "--output-filename", "Containerfile"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "context"


@dataclass(frozen=True)
class Podman:
    """Podman with its images and containers in one folder. Needs root."""

    folder: Path

    def __call__(self, *words: str, timeout: float = 900, **more: object) -> str:
        """Run a command of podman and return what it printed."""
        settings = self.folder / "storage.conf"
        if not settings.exists():
            graph, run = self.folder / "graph", self.folder / "run"
            settings.write_text(
                f'[storage]\ndriver = "overlay"\ngraphroot = "{graph}"\nrunroot = "{run}"\n', encoding="utf-8"
            )
        done = subprocess.run(
            ["podman", "--runtime", "runc", *words],
            env={**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
            **more,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, f"podman {' '.join(words)}:\n{done.stdout[-6000:]}"
        return done.stdout

    def run(self, *words: str, volumes: dict[Path, str], user: str, image: str = IMAGE, timeout: float = 300) -> str:
        """Run a command in the image, on the network of this machine, as AWX does in OpenShift: any uid, group 0."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limits = [f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=4096:4096"]
        mounts = [f"--volume={source}:{inside}" for source, inside in volumes.items()]
        return self("run", "--rm", "--network=host", f"--user={user}", *limits, *mounts, image, *words, timeout=timeout)

    def add_programs(self, folder: Path) -> None:
        """Build the layer with the programs of the rehearsal cluster, which are copied to ``folder`` from the cache."""
        wanted = component_selection.load_all_components(rehearsal.COMPONENTS)
        for one in component_selection.select_required_components(wanted, ["trainer"]):
            entry = cached_and_user_programs.component_cache_folder(one, rehearsal.CACHE)
            shutil.copytree(entry, folder / entry.name)
        here = ["--isolation=chroot", "--network=host", f"--build-arg=IMAGE={IMAGE}"]
        self("build", *here, "-t", WITH_PROGRAMS, "-f", str(LAYER), str(folder), timeout=900)

    def build(self, made: Path, log: Path) -> None:
        """Build the image of a build context, on a root of Debian."""
        for package in ("podman", "runc", "netavark"):
            if not shutil.which(package) and not (Path("/usr/lib/podman") / package).exists():
                assert debian_packages.apt_install(package, log) == ""
        self._base(log)
        _without_galaxy(made)
        mounts = [f"--volume={outside}:{outside}:ro" for outside, _inside in trixie.shared()]
        passed = {key: one for key, one in trixie.environment().items() if key.startswith(("PIP_", "SSL_"))}
        kept = [f"--env={key}={value}" for key, value in passed.items()]
        arguments = [f"--build-arg=EE_BASE_IMAGE={BASE}", f"--build-arg=PYCMD={PYTHON}"]
        here = ["--isolation=chroot", "--network=host", *mounts, *kept, *arguments]
        self("build", *here, "-t", IMAGE, "-f", str(made / "Containerfile"), str(made), timeout=1800)

    def _base(self, log: Path) -> None:
        trixie.create(log)
        folder = self.folder / "base"
        folder.mkdir()
        (folder / "dnf").write_text(DNF, encoding="utf-8")
        (folder / "dnf").chmod(0o755)
        (folder / "Containerfile").write_text(CONTAINERFILE, encoding="utf-8")
        packed = self.folder / "root.tar"
        excluded = [f"--exclude=.{trixie.INSIDE}", "--exclude=./proc/*", "--exclude=./sys/*"]
        subprocess.run(["tar", "-C", str(trixie.folder()), *excluded, "-cf", str(packed), "."], check=True)
        self("import", "-q", str(packed), f"{BASE}-root")
        packed.unlink()
        self("build", "-q", "--isolation=chroot", "-t", BASE, str(folder))

    def remove(self) -> None:
        """Remove images, containers and mounts."""
        self("system", "reset", "--force")


def _without_galaxy(made: Path) -> None:
    """Let a build context install kubernetes.core from the copy in .venv."""
    source, target = Path(core.__path__[0]), made.parent / "kubernetes_core"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "MANIFEST.json", "FILES.json"))
    info = json.loads((source / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
    (target / "galaxy.yml").write_text(yaml.safe_dump({key: one for key, one in info.items() if one}), encoding="utf-8")
    command = [str(VENV / "bin" / "ansible-galaxy"), "collection", "build", str(target)]
    subprocess.run([*command, "--output-path", str(made / "_build")], check=True, capture_output=True, timeout=120)
    (packed,) = (made / "_build").glob("kubernetes-core-*.tar.gz")
    wanted = {"collections": [{"name": packed.name, "type": "file"}]}
    (made / "_build" / "requirements.yml").write_text(yaml.safe_dump(wanted), encoding="utf-8")
