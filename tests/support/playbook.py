"""Running ansible-playbook as a user does, and reading its output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).parent / "ansible-playbook"


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code and everything that it printed."""

    code: int
    output: str

    def flat(self) -> str:
        """The output with its line breaks folded, for messages that Ansible wraps."""
        return " ".join(self.output.split())


def environment(artifacts: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user's terminal, with artefacts below ``artifacts``, without pytest's variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "ANSIBLE_"))}
    path = f"{PROGRAM.parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "ARTIFACT_DIR": str(artifacts), "ANSIBLE_NOCOLOR": "1", **(more or {})}


def play(
    *words: str,
    artifacts: Path,
    project: str = "fine_tuning",
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    path: Path | None = None,
) -> Done:
    """Run playbooks/<project>.yml, or the playbook at ``path``, with these words and wait for its end."""
    command = [str(PROGRAM), str(path or ROOT / "playbooks" / f"{project}.yml"), *words]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(artifacts, env),
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Done(done.returncode, done.stdout)


def begin(
    *words: str, artifacts: Path, log: Path, project: str = "fine_tuning", env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the playbook in a new process group, as a terminal would; the output goes to ``log``."""
    command = [str(PROGRAM), str(ROOT / "playbooks" / f"{project}.yml"), *words]
    with open(log, "wb") as stream:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(artifacts, env),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_dirs(artifacts: Path) -> list[Path]:
    """The run directories below ``artifacts``, oldest first."""
    if not artifacts.exists():
        return []
    return sorted(
        (path for path in artifacts.iterdir() if (path / "run.yml").exists()), key=lambda path: path.stat().st_ctime
    )
