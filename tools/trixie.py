"""A root of Debian trixie, for tests with a newer Python than this machine has: created once, entered for a command.

A command runs in separate namespaces (mounts, processes). Its mounts and the processes that it leaves end with it,
even if it is killed. The root itself stays as it was made: caches, the home folder and /tmp are folders outside of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import debian_packages
from common import find_collection, run_logged, say, seatrial_cache, stop, tail

SUITE = "trixie"
#: Its Python is 3.13. A compiler is for packages without a wheel, the rest for tests.
PACKAGES = ("python3-venv", "python3-dev", "gcc", "libc6-dev", "make", "git", "ca-certificates", "openssl")

#: Seconds until creating the root is given up.
LIMIT = 1800.0

#: Where the clone and the home folder are inside the root.
INSIDE = "/seatrial"
HOME = "/root"

#: Files of this machine that a command needs in order to reach registries as they are configured here.
SHARED = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl/certs",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/pip.conf",
    "/opt/wheels",
)


def folder() -> Path:
    """Where the root is, for all clones of the user."""
    return seatrial_cache() / "roots" / SUITE


def unavailable() -> str:
    """Why no root can be created or entered here; "" if one can."""
    if os.geteuid() != 0:
        return "a root of Debian trixie needs the rights of root"
    if not shutil.which("mmdebstrap") and not shutil.which("apt-get"):
        return "mmdebstrap is missing and can't be installed (no apt-get)"
    return ""


def mirror() -> list[str]:
    """The mirror that apt-get of this machine uses, as an argument for mmdebstrap; none if it has no Debian mirror."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        unpack_packages as packages,
    )

    try:
        return [packages.debian_archive_url()]
    except SeatrialError:
        return []


def create(log: Path) -> None:
    """Create the root unless it exists. Ends the tool if that fails."""
    target = folder()
    if target.exists():
        return
    if not shutil.which("mmdebstrap") and (failed := debian_packages.apt_install("mmdebstrap", log)):
        stop(failed)
    say(f"creating a root of Debian {SUITE} in {target} (once, about 1 min, 0.6 GB)")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{SUITE}.{os.getpid()}")
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(partial), *mirror()]
    try:
        if run_logged(command, log, f"Debian {SUITE}", LIMIT):
            stop(f"mmdebstrap failed; the end of {log}:\n{tail(log, 8)}")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def entering(root: Path, binds: Sequence[tuple[Path, str]], command: Sequence[str]) -> list[str]:
    """Return the command that runs ``command`` in ``root``, in folder INSIDE.

    binds: folders and files (outside, inside) that it sees, in this order; they exist.
    """
    lines = ["set -eu"]
    for source, inside in binds:
        target = f"{root}{inside}"
        make = f"mkdir -p {shlex.quote(target)}" if source.is_dir() else f"touch {shlex.quote(target)}"
        lines.append(f"[ -e {shlex.quote(target)} ] || {make}")
        lines.append(f"mount --bind {shlex.quote(str(source))} {shlex.quote(target)}")
    lines.append(f"mount --rbind /dev {shlex.quote(f'{root}/dev')}")
    lines.append(f"mount -t proc proc {shlex.quote(f'{root}/proc')}")
    lines.append(f"mount -t sysfs -o ro sysfs {shlex.quote(f'{root}/sys')}")
    # The shell stays, as the first process of its namespace: it reaps the processes that others leave.
    lines.append(f"""exec chroot {shlex.quote(str(root))} /bin/sh -c 'cd {INSIDE}; "$@"; exit $?' sh "$@" """.rstrip())
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"]
    return [*namespaces, "/bin/sh", "-c", "\n".join(lines), "sh", *command]


def shared() -> list[tuple[Path, str]]:
    """The files of this machine that every command sees."""
    found = [(Path(path), path) for path in SHARED if Path(path).exists()]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip"
    return [*found, *([(config, f"{HOME}/.config/pip")] if config.is_dir() else [])]


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: what pip and TLS need of this machine's, nothing else."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("PIP_", "SSL_CERT_")) or key.lower() in ("http_proxy", "https_proxy", "no_proxy")
    }
    path = f"{INSIDE}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    started_by = os.environ.get("SEATRIAL_STARTED_BY")
    kept |= {"SEATRIAL_STARTED_BY": started_by} if started_by else {}
    return {**kept, "PATH": path, "HOME": HOME, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", **more}
