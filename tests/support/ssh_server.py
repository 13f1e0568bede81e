"""A real sshd on loopback with its own keys, for tests of broken connections."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")


def usable() -> str:
    """Why there can be no sshd here; empty when there can."""
    if not SSHD or not shutil.which("ssh-keygen") or not shutil.which("ssh"):
        return "needs Debian's openssh-server and openssh-client"
    return ""


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One sshd, which accepts only the user who started it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.folder, self.port = folder, free_port()
        # The name of a socket has room for about 100 letters, which a test's folder alone may take.
        self.control = tempfile.mkdtemp(prefix="cp-")
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=30
            )
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        host = (folder / "host.pub").read_text(encoding="ascii")
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host}", encoding="ascii")
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder / 'host'}",
            f"AuthorizedKeysFile {folder / 'authorized_keys'}",
            f"PidFile {folder / 'pid'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            f"Subsystem sftp {'internal-sftp'}",
        ]
        (folder / "sshd_config").write_text("\n".join(lines) + "\n", encoding="ascii")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Listen."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def cut(self) -> None:
        """Break all connections and listen no more: our sshd and its sessions, nothing that runs in these."""
        assert self.process is not None
        sessions = [pid for pid in children(self.process.pid) if name_of(pid).startswith("sshd")]
        inner = [pid for one in sessions for pid in children(one) if name_of(pid).startswith("sshd")]
        for pid in (self.process.pid, *sessions, *inner):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=120)
        shutil.rmtree(self.control, ignore_errors=True)

    def variables(self) -> dict[str, Any]:
        """Inventory variables of a host that is this machine, reached through this server."""
        options = f"-o UserKnownHostsFile={self.folder}/known_hosts -o StrictHostKeyChecking=yes -o ConnectTimeout=5"
        return {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_ssh_private_key_file": str(self.folder / "user"),
            "ansible_ssh_common_args": options,
            "ansible_remote_tmp": str(self.folder / "tmp"),
            "ansible_control_path_dir": self.control,
            "ansible_python_interpreter": sys.executable,
        }


def children(pid: int) -> list[int]:
    """The children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = (entry / "stat").read_text(encoding="utf-8")
                if int(text[text.rindex(")") + 2 :].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def name_of(pid: int) -> str:
    """The name of a process's program."""
    try:
        return (Path("/proc") / str(pid) / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
