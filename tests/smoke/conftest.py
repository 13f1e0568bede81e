"""The clone and the installed collection, as a user starts them: from another folder, without our ansible.cfg."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import artefact
import pytest
from common import ROOT

Start = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built collection."""
    return artefact.build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collections path with nothing but the built collection."""
    folder = tmp_path_factory.mktemp("installed")
    artefact.install(archive, folder)
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Run a program of the virtual environment in an empty folder; answers what it wrote. Fails after ``limit`` s."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def call(*command: str, cwd: Path = elsewhere, limit: float = 600, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        binary = Path(sys.executable).parent / command[0]
        program = str(binary) if binary.exists() else command[0]
        variables = {**clean, "ARTIFACT_DIR": str(tmp_path / "artifacts"), "ANSIBLE_NOCOLOR": "1", **env}
        return subprocess.run(
            [program, *command[1:]],
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
        )

    return call


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone."""
    return ROOT
