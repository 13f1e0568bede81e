"""Make a release as far as no account is needed: release_check.py [--key KEY]

Builds the archive, signs it, installs it with its signature into an empty folder, reads its documentation there, and
has galaxy-importer check it, as Galaxy and Automation Hub do. The archive, its signature and checksums stay in
.cache/release. Without a key of yours the signature is one of a key that is made for this and removed again.
Nothing is published: .github/workflows/release.yml does that, and docs/support.md says how a release goes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from artefact import NAME, build, install
from common import CACHE, ROOT, VENV, quiet_environment, run, run_logged, say, stop, tail
from extra_environment import programs

FOLDER = CACHE / "release"
#: Seconds for a program.
LIMIT = 1200.0
#: Sanity tests that Automation Hub lets content ignore, as far as we do.
PERMITTED = frozenset({"action-plugin-docs"})

#: galaxy-importer as Automation Hub configures it, but ansible-test is `make versions`, and ansible-lint `make lint`.
CONFIGURATION = """[galaxy-importer]
LOG_LEVEL_MAIN = INFO
RUN_FLAKE8 = False
RUN_ANSIBLE_DOC = True
RUN_ANSIBLE_LINT = False
RUN_ANSIBLE_TEST = False
CHECK_REQUIRED_TAGS = True
CHECK_RUNTIME_REQUIRES_ANSIBLE = True
CHECK_CHANGELOG = True
"""


def unexplained(text: str) -> list[str]:
    """Lines of a sanity ignore file that have no reason, or whose test may not be ignored."""
    wrong = []
    for line in filter(None, text.splitlines()):
        entry, _hash, reason = line.partition("#")
        test = entry.split()[1] if len(entry.split()) > 1 else ""
        if not reason.strip() or test not in PERMITTED:
            wrong.append(line)
    return wrong


def command(words: list[str], log: str, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command; return its output. Ends the tool if it fails."""
    path = FOLDER / "logs" / f"{log}.log"
    if code := run_logged(words, path, log, LIMIT, env=env or quiet_environment(), cwd=cwd):
        stop(f"{' '.join(words[:4])} ended with {code}; the end of {path.relative_to(ROOT)}:\n{tail(path, 30)}")
    return path.read_text(encoding="utf-8", errors="replace")


def check_sources() -> str:
    """The version, the changelog and the ignored sanity tests."""
    command([str(VENV / "bin" / "antsibull-changelog"), "lint"], "changelog")
    files = sorted((ROOT / "tests" / "sanity").glob("ignore-*.txt"))
    wrong = [f"{path.name}: {line}" for path in files for line in unexplained(path.read_text(encoding="utf-8"))]
    if wrong:
        stop("ignored sanity tests without a reason, or that Automation Hub does not permit:\n" + "\n".join(wrong))
    fragments = len(list((ROOT / "changelogs" / "fragments").glob("*.yml")))
    return f"{len(files)} ignore files; {fragments} changelog fragments are not released yet"


def make_archive() -> str:
    """The archive and its checksums."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    archive = build(FOLDER)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (FOLDER / "SHA256SUMS").write_text(f"{digest}  {archive.name}\n", encoding="utf-8")
    return f"{archive.name}, {archive.stat().st_size / 1e6:.1f} MB"


def archive() -> Path:
    """The archive that was built."""
    return next(FOLDER.glob("perfscale-seatrial-*.tar.gz"))


def sign(key: str) -> str:
    """A detached signature of MANIFEST.json, which holds a checksum of each file, and the ring of keys to verify it."""
    if not shutil.which("gpg"):
        stop("gpg is not installed: a signature needs it (Debian, Ubuntu: apt-get install gpg)")
    with tempfile.TemporaryDirectory(prefix="seatrial-gpg-") as folder:
        env = quiet_environment() if key else quiet_environment(GNUPGHOME=folder)
        gpg = ["gpg", "--batch", "--yes", *([] if key else ["--pinentry-mode", "loopback"])]
        if not key:
            user = "perfscale.seatrial release check"
            command([*gpg, "--passphrase", "", "--quick-generate-key", user, "default", "default", "1d"], "key", env)
        with tarfile.open(archive()) as tar:
            manifest = tar.extractfile("MANIFEST.json")
            assert manifest is not None
            (Path(folder) / "MANIFEST.json").write_bytes(manifest.read())
        signature, ring = archive().with_suffix("").with_suffix(".asc"), FOLDER / "keys.gpg"
        chosen = ["--local-user", key] if key else []
        signed = ["--armor", "--detach-sign", "--output", str(signature), str(Path(folder) / "MANIFEST.json")]
        command([*gpg, *chosen, *signed], "sign", env)
        command([*gpg, "--output", str(ring), "--export", *([key] if key else [])], "export", env)
        subprocess.run(["gpgconf", "--kill", "all"], env=env, capture_output=True) if not key else None
    return f"{signature.name}, by {f'key {key}' if key else 'a key that is gone'}"


def install_elsewhere() -> str:
    """The archive is installed and verified by its signature, as a user would; its documentation is read there."""
    signature = archive().with_suffix("").with_suffix(".asc")
    with tempfile.TemporaryDirectory(prefix="seatrial-release-") as folder:
        install(archive(), Path(folder))
        env = quiet_environment(ANSIBLE_COLLECTIONS_PATH=folder)
        verify = [str(VENV / "bin" / "ansible-galaxy"), "collection", "verify", "--offline", "perfscale.seatrial"]
        verify += ["--keyring", str(FOLDER / "keys.gpg"), "--required-valid-signature-count", "+1"]
        command([*verify, "--signature", signature.as_uri()], "verify", env, cwd=Path(folder))
        roles = command(
            [str(VENV / "bin" / "ansible-doc"), "-t", "role", "-l", "perfscale.seatrial"], "ansible-doc", env
        )
        job = ["perfscale.seatrial.fine_tuning", "-e", "preset=light", "--tags", "settings"]
        command([str(VENV / "bin" / "ansible-playbook"), *job], "settings", env, cwd=Path(folder))
        files = sum(path.is_file() for path in (Path(folder) / NAME).rglob("*"))
    named = set(re.findall(r"^perfscale\.seatrial\.(\w+)", roles, re.MULTILINE))
    return f"{files} files, {len(named)} roles"


def import_archive() -> str:
    """galaxy-importer finds no error in the archive; what it warns of is printed."""
    tools = programs("importer")
    configuration = FOLDER / "galaxy-importer.cfg"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    env = quiet_environment(GALAXY_IMPORTER_CONFIG=str(configuration), PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(prefix="seatrial-importer-") as folder:
        words = [str(tools / "python"), "-m", "galaxy_importer.main", str(archive())]
        output = command(words, "galaxy-importer", env, cwd=Path(folder))
    said = [line for line in output.splitlines() if line.startswith(("WARNING", "ERROR"))]
    if "completed successfully" not in output or any(line.startswith("ERROR") for line in said):
        stop("galaxy-importer:\n" + "\n".join(said))
    return "no error" + "".join(f"\n    {line}" for line in said)


def main(arguments: list[str]) -> None:
    """Do everything, one line for each step; the first that fails ends it."""
    parser = argparse.ArgumentParser(description="Make a release as far as no account is needed.")
    parser.add_argument("--key", default="", help="sign with this key of your keyring")
    key = parser.parse_args(arguments).key
    steps: dict[str, Callable[[], str]] = {
        "archive": make_archive,
        "sources": check_sources,
        "signature": lambda: sign(key),
        "installation": install_elsewhere,
        "galaxy-importer": import_archive,
    }
    for name, step in steps.items():
        began = time.monotonic()
        said = step()
        say(f"{name}: ok ({time.monotonic() - began:.0f} s): {said}")
    say(f"Everything is in {FOLDER.relative_to(ROOT)}. Still to run: make test, make versions, make site.")


if __name__ == "__main__":
    run(lambda: main(sys.argv[1:]))
