# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of openshift-install for a cluster, the files that it writes, and what its log says.

The folder of a cluster holds ``assets`` (the installer's directory), the output and the exit code of the installer. It
contains secrets, so it is outside the run directory, readable by its owner only, and removed with the cluster.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)

from . import cluster_folder_processes

#: time="…" level=info msg="…", the format of logrus; the message may contain escaped quotes.
LINE = re.compile(r'level=(?P<level>\w+) msg=(?P<message>"(?:[^"\\]|\\.)*"|\S+)')

#: Errors without a cause: they only report that something failed.
EMPTY = (
    "failed to wait for bootstrapping",
    "bootstrap failed to complete",
    "attempted to gather",
    "failed waiting for",
    "failed to initialize the cluster",
    "cluster initialization failed",
    "use the following commands to gather",
    "failed to fetch",
)

_SECRETS = (
    (re.compile(r'(password:? ?[=:]? ?\\?["\']?)[^\s"\'\\]+', re.IGNORECASE), r"\1<secret>"),
    (re.compile(r'("auth"\s*:\s*")[^"]+'), r"\1<secret>"),
    (
        re.compile(r'((?:token|secret)[a-z_]{0,40}\s{0,4}[=:]\s{0,4}\\?["\']?)[^\s"\'\\]{8,}', re.IGNORECASE),
        r"\1<secret>",
    ),
)


def mask_passwords(text: str) -> str:
    """Return a log without passwords: the last line of a successful installation has kubeadmin's."""
    for pattern, by in _SECRETS:
        text = pattern.sub(by, text)
    return text


def messages_of_levels(text: str, levels: Iterable[str]) -> list[str]:
    """Return the messages of these levels, in order, secrets masked."""
    wanted = tuple(levels)
    masked_messages = []
    for match in LINE.finditer(text):
        if match["level"] in wanted:
            message = match["message"]
            if message.startswith('"'):
                message = message[1:-1].replace('\\"', '"').replace("\\n", " ")
            masked_messages.append(mask_passwords(message))
    return masked_messages


def first_cause_in_installer_log(text: str) -> str:
    """Return the first error with a cause, else the first error, else the last line; at most 500 characters."""
    errors = messages_of_levels(text, ("error", "fatal"))
    causes = [error for error in errors if not error.lower().startswith(EMPTY)]
    last = [line for line in mask_passwords(text).splitlines() if line.strip()]
    return (causes or errors or last[-1:] or ["the installer logged nothing"])[0][:500]


class InstallerLogTail:
    """Messages of a growing log file."""

    def __init__(self, path: Path, levels: tuple[str, ...] = ("info", "warning", "error", "fatal")) -> None:
        self.path = path
        self.levels = levels
        self.offset = path.stat().st_size if path.exists() else 0

    def new(self) -> list[str]:
        """Return the messages of the complete lines that were appended since the last call."""
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return messages_of_levels(whole.decode("utf-8", "replace"), self.levels)


#: The installer's files in ``assets``.
LOG = ".openshift_install.log"
METADATA = "metadata.json"

#: The manifests of the worker MachineSets, which request spot instances: install-config has no field for it.
WORKERS = "99_openshift-cluster-api_worker-machineset-*.yaml"


class OpenshiftInstaller:
    """The installer for one cluster. environment: credentials, for example. say: called with its messages."""

    def __init__(
        self, program: str, folder: Path, environment: Mapping[str, str], say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.program = program
        self.folder = folder
        self.assets = folder / "assets"
        self.environment = dict(environment)
        self.tail = InstallerLogTail(self.assets / LOG)
        self.say = say

    # configuration

    def configure(self, documents: Mapping[str, Mapping[str, Any]], check: bool = False) -> dict[str, Any]:
        """Write the installer's input (file name -> document), which it deletes after reading; return what was there.

        Raises OwnershipError if the folder holds a cluster whose creation has started.
        """
        if (self.assets / METADATA).exists() or (self.assets / "auth").exists():
            raise OwnershipError(
                f"{self.folder} holds a cluster whose creation has started: release it before creating another"
            )
        before = {name: files.read_yaml(self.assets / name) for name in documents if (self.assets / name).exists()}
        if check:
            return before
        self.assets.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name, document in documents.items():
            files.write_yaml(self.assets / name, document)
            (self.assets / name).chmod(0o600)
        return before

    # on a cloud

    def prepare(self, spot: bool, timeout: float) -> dict[str, Any]:
        """Let the installer write all files that precede the first request to the cloud; return the metadata.

        With it the cluster can be destroyed, even if its creation fails.
        """
        if not (self.assets / METADATA).exists():
            if spot:
                self._run(["create", "manifests"], timeout)
                self._make_spot()
            self._run(["create", "ignition-configs"], timeout)
        return self.metadata()

    def _make_spot(self) -> None:
        manifests = sorted((self.assets / "openshift").glob(WORKERS))
        if not manifests:
            raise ProcessError(f"the installer wrote no {WORKERS}: can't request spot workers")
        for path in manifests:
            document = files.read_yaml(path)
            document["spec"]["template"]["spec"]["providerSpec"]["value"]["spotMarketOptions"] = {}
            files.write_yaml(path, document)

    def create(self) -> bool:
        """Start the creation of the cluster unless it was started before; return whether it was started now."""
        if cluster_folder_processes.find_processes_of_folder(self.folder) or (self.folder / "exit.json").exists():
            return False
        cluster_folder_processes.start_detached_program(
            self._command(["create", "cluster"]), self.folder, self.environment
        )
        return True

    def created(self, timeout: float) -> None:
        """Wait until the cluster is created. Raises ProcessError with the first cause, WaitTimeout."""
        code = cluster_folder_processes.await_program_end(
            self.folder, timeout, "openshift-install create cluster", self._follow
        )
        if code:
            raise ProcessError(f"openshift-install create cluster: {self.cause()}")

    # on bare metal

    def image(self, timeout: float) -> Path:
        """Create the image that the machines boot from, unless it exists; return its path."""
        images = sorted(self.assets.glob("agent.*.iso"))
        if not images:
            self._run(["agent", "create", "image"], timeout)
            images = sorted(self.assets.glob("agent.*.iso"))
        if not images:
            raise ProcessError("openshift-install agent create image created no image")
        return images[0]

    def wait_for(self, what: str, timeout: float) -> None:
        """Wait for bootstrap-complete or install-complete, again after the installer's timeout, up to ``timeout`` s.

        Raises ProcessError with the first cause, WaitTimeout.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"{what} was not reached within {timeout:g} s: {self.cause()}")
            code = cluster_folder_processes.run_program_to_end(
                self._command(["agent", "wait-for", what]), self.folder, self.environment, left, self._follow
            )
            if not code:
                return
            cause = self.cause()
            if not any(word in cause for word in ("timed out", "deadline exceeded", "timeout")):
                raise ProcessError(f"openshift-install agent wait-for {what}: {cause}")

    # removal

    def destroy(self, metadata: Mapping[str, Any] | None, timeout: float) -> bool:
        """Destroy the cluster by its metadata, after ending a running creation; return whether there was a cluster.

        metadata: a copy, for a machine on which the cluster was not created.
        """
        cluster_folder_processes.stop_processes_of_folder(self.folder)
        path = self.assets / METADATA
        if not path.exists() and not metadata:
            return False
        if not path.exists():
            self.assets.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            files.write_json(path, dict(metadata or {}))
        self._run(["destroy", "cluster"], timeout)
        return True

    def forget(self) -> bool:
        """End running programs and remove the folder; return whether there was one."""
        cluster_folder_processes.stop_processes_of_folder(self.folder)
        there = self.folder.exists()
        shutil.rmtree(self.folder, ignore_errors=True)
        return there

    def gather(self, bundle: Path, hosts: Mapping[str, Any], key: str, timeout: float) -> list[str]:
        """Collect logs of a failed installation in ``bundle``; return the names. hosts: bootstrap, masters (addresses).

        Logs that can't be collected are listed in not_gathered.txt.
        """
        bundle.mkdir(parents=True, exist_ok=True)
        words = ["gather", "bootstrap"]
        if hosts.get("bootstrap"):
            words += ["--bootstrap", str(hosts["bootstrap"])]
        for address in hosts.get("masters") or ():
            words += ["--master", str(address)]
        if key:
            words += ["--key", key]
        notes = []
        try:
            self._run(words, timeout)
        except (ProcessError, WaitTimeout) as error:
            notes.append(f"gather bootstrap: {error}")
        for path in sorted(self.assets.glob("log-bundle-*.tar.gz")):
            shutil.copy2(path, bundle / path.name)
        for path, name in ((self.assets / LOG, "installer.log"), (self.folder / "output.log", "output.log")):
            if path.exists():
                files.replace_text(bundle / name, mask_passwords(path.read_text(encoding="utf-8", errors="replace")))
        if notes:
            files.replace_text(bundle / "not_gathered.txt", mask_passwords("\n".join(notes)) + "\n")
        return sorted(path.name for path in bundle.iterdir())

    # the installer's files

    def metadata(self) -> dict[str, Any]:
        """Return metadata.json. Raises DataError if there is none."""
        path = self.assets / METADATA
        if not path.exists():
            raise DataError(f"openshift-install wrote no {path}")
        return dict(files.read_json(path))

    def kubeconfig(self) -> str:
        """Return the path of the cluster's kubeconfig. Raises DataError if there is none."""
        path = self.assets / "auth" / "kubeconfig"
        if not path.exists():
            raise DataError(f"openshift-install wrote no {path}")
        return str(path)

    def cause(self) -> str:
        """Return the first cause in the log, in one line."""
        for path in (self.assets / LOG, self.folder / "output.log"):
            if path.exists() and path.stat().st_size:
                return first_cause_in_installer_log(path.read_text(encoding="utf-8", errors="replace"))
        return "the installer logged nothing"

    def version(self) -> str:
        """Return the installer's version, its first line of output. Raises ProcessError, WaitTimeout."""
        done = processes.run_to_completion([self.program, "version"], 60)
        if done.code:
            raise ProcessError(f"{self.program} version: {done.last_line}")
        return (done.output.strip().splitlines() or ["unknown"])[0]

    def _command(self, words: list[str]) -> list[str]:
        return [self.program, *words, "--dir", str(self.assets), "--log-level", "debug"]

    def _run(self, words: list[str], timeout: float) -> None:
        code = cluster_folder_processes.run_program_to_end(
            self._command(words), self.folder, self.environment, timeout, self._follow
        )
        if code:
            raise ProcessError(f"openshift-install {' '.join(words[:3])}: {self.cause()}")

    def _follow(self) -> None:
        for line in self.tail.new():
            self.say(line)
