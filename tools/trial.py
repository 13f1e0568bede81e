"""Complete the set-up and run one project: trial.py --project P --preset X | --setup-only

Standard library only: it says what it will do, and what that costs, before there is anything to say it with.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import clean
import mirror
import setup
from common import ROOT, VENV, check_home, check_space, folder_gb, free_gb, run, say, seatrial_cache, stop

COMPONENTS = ROOT / "roles" / "rehearsal" / "files" / "components"
#: Parts that a set-up provides beside those that always run: the default API of project fine_tuning needs them.
DEFAULT = {"trainer"}
#: Exit codes of ansible-playbook: localhost is unreachable, and an interrupt.
INTERRUPTED = (4, 99)


def projects() -> dict[str, bool]:
    """Projects, and whether each can be tried: one that needs an existing cluster can't be on a rehearsal cluster.

    A project is a playbook that runs the phases for the project of its name; other playbooks are tools.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("[a-z]*.yml")}
    imports = r"import_playbook: (perfscale\.seatrial\._project|_project\.yml)\n *vars:\n"
    found = [name for name, text in sorted(texts.items()) if re.search(rf"{imports} *run_.*[ .]{name}\n", text)]
    return {name: "cluster_provider: existing" not in texts[name] for name in found}


def check_project(name: str) -> None:
    """End the tool with one clear error if there is no such project."""
    every = projects()
    known = [project for project, can_be_tried in every.items() if can_be_tried]
    if name in known:
        return
    if name in every:
        stop(f"PROJECT={name} needs a cluster that exists: run playbooks/{name}.yml; make trial has {', '.join(known)}")
    like = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean '{like[0]}'?)" if like else ""
    stop(f"PROJECT={name}: there is no such project{hint}; there are: {', '.join(known)}")


def named(key: str, text: str) -> list[str]:
    """The names that a key lists in one line, read without a YAML parser; an indented key with its spaces."""
    found = re.search(rf"^{key}: *\[(.*)\]", text, re.MULTILINE)
    return [name.strip() for name in found[1].split(",")] if found else []


def components(project: str, presets: str) -> set[str]:
    """The optional parts of the rehearsal cluster that these presets (``a,b``) of a project start.

    Read without a YAML parser, which may not be there yet: a preset's lines are indented by four, and it names parts
    and the presets that it extends in one line each.
    """
    blocks: dict[str, str] = {}
    for name in ("common", project):
        for path in (ROOT / "group_vars" / "all").glob(f"{name}_presets*.yml"):
            parts = re.split(r"^  (\w+):$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            blocks.update(zip(parts[1::2], parts[2::2], strict=True))

    wanted, seen = DEFAULT, set()
    todo = presets.split(",")
    while todo:
        name = todo.pop(0)
        if name not in seen:
            seen.add(name)
            todo = named("    extends", blocks.get(name, "")) + todo
            wanted = wanted | set(named("    rehearsal_components", blocks.get(name, "")))
    return wanted


def required(wanted: set[str]) -> dict[str, str]:
    """The parts of the rehearsal cluster that always run, and those that are wanted: name -> its component.yml."""
    texts = {part.parent.name: part.read_text(encoding="utf-8") for part in sorted(COMPONENTS.glob("*/component.yml"))}
    todo, names = list(wanted), set()
    while todo:
        name = todo.pop()
        if name not in names:
            names.add(name)
            todo += named("requires", texts.get(name, ""))
    return {
        name: text for name, text in texts.items() if name in names or re.search(r"^always: true", text, re.MULTILINE)
    }


def cached(name: str, text: str) -> list[Path]:
    """Folders in the cache that hold the programs of a part in the version of its component.yml."""
    version = re.search(r"^version: (\S+)", text, re.MULTILINE)
    pattern = f"{name}-{version[1] if version else ''}-*/entry.json"
    return [path.parent for path in sorted((seatrial_cache() / "rehearsal").glob(pattern))]


def to_build(wanted: set[str]) -> list[tuple[str, float, float]]:
    """Parts of the rehearsal cluster, default or wanted, whose programs are missing: (name, minutes, GB)."""
    missing = []
    for name, text in required(wanted).items():
        figures = [re.search(rf"^  {key}: ([0-9.]+)", text, re.MULTILINE) for key in ("minutes", "disk_gib")]
        if all(figures) and re.search(r"^version: ", text, re.MULTILINE) and not cached(name, text):
            minutes, disk = (float(found[1]) for found in figures if found)
            missing.append((name, minutes, disk * 1.074))
    return missing


def announce(wanted: set[str]) -> None:
    """Print what a first set-up takes, nothing if it is complete. Ends the tool if the disk is too small."""
    needs: list[tuple[str, Path, float]] = []
    lines = []
    if not setup.installed():
        needs.append(("Python packages", VENV, setup.VENV_GB))
        lines.append(f"  Python packages in .venv: about {setup.VENV_MINUTES} min, {setup.VENV_GB} GB")
    missing = to_build(wanted)
    if missing:
        minutes, size = sum(one[1] for one in missing), sum(one[2] for one in missing)
        needs.append(("programs of the rehearsal cluster", seatrial_cache(), size))
        names = ", ".join(one[0] for one in missing)
        lines.append(
            f"  programs of the rehearsal cluster ({names}), built from source (other ways: docs/rehearsal.md): "
            f"about {minutes:.0f} min on 2 cores; building takes up to {size:.0f} GB in Go's caches, the programs"
            f" {0.1 * len(missing):.1f} GB in {seatrial_cache()}"
        )
    if not needs:
        return
    say("A first set-up is needed, once:")
    for line in lines:
        say(line)
    say("  free: " + ", ".join(f"{free_gb(where):.0f} GB in {where}" for _, where, _ in needs))
    problems = check_space(needs)
    if problems:
        stop("not enough disk: " + "; ".join(problems))


def say_sizes() -> None:
    """Print what a set-up takes now. This may take long, and a signal ends it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    named = {VENV: ".venv", seatrial_cache(): str(seatrial_cache())}
    own = [f"{folder_gb(folder):.1f} GB in {name}" for folder, name in named.items() if folder.is_dir()]
    shared = [f"{folder_gb(folder):.1f} GB in {folder}" for folder in clean.go_caches() if folder.is_dir()]
    say(f"The set-up takes {' and '.join(own)}.")
    if shared:
        say(f"Go's caches, which all Go programs share, take {' and '.join(shared)} (go clean -cache -modcache).")


def play(*arguments: str) -> int:
    """Run ansible-playbook in the foreground; return its exit code.

    It is a process of its own, since a run's record counts the time from the process's start. Ctrl-C reaches it by
    itself; what is sent to us alone is passed on.
    """
    say(f"running: .venv/bin/ansible-playbook {shlex.join(arguments)}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen(
        [str(VENV / "bin" / "ansible-playbook"), *arguments],
        cwd=ROOT,
        env={"ANSIBLE_STDOUT_CALLBACK": "perfscale.seatrial.quiet", **os.environ},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: process.send_signal(got))
    code = process.wait()
    return code if code >= 0 else 128 - code


def leave(code: int) -> NoReturn:
    """Exit with ansible-playbook's exit code; after an interrupted run end make first, where make has started us.

    The last line of an interrupted run is the command that gives back, and make would print one below it. Ended as by
    Ctrl-C, make prints none.
    """
    name = Path(f"/proc/{os.getppid()}/comm")
    if code in INTERRUPTED and name.exists() and name.read_text(encoding="utf-8").strip() in ("make", "gmake"):
        os.kill(os.getppid(), signal.SIGINT)
        sys.exit(0)
    sys.exit(code)


def set_up(parts: set[str]) -> int:
    """Complete the virtual environment and the programs of the rehearsal cluster; return the exit code."""
    announce(parts)
    setup.main("user")
    words = json.dumps({"rehearsal_components": sorted(parts)})
    return play("playbooks/rehearsal.yml", "--tags", "binaries", "-e", words)


def main() -> None:
    """Parse the arguments, announce, set up, run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--project", default="fine_tuning")
    parser.add_argument("--preset", default="light")
    parser.add_argument("--setup-only", action="store_true")
    parser.add_argument("--mirror", help="fill this folder with what a set-up without network needs")
    asked = parser.parse_args()
    check_home()
    if asked.mirror is not None:
        if not os.path.isabs(asked.mirror):
            stop(f"make mirror MIRROR=<folder> needs an absolute path, not '{asked.mirror}'")
        if code := set_up(DEFAULT):
            sys.exit(code)
        mirror.collect(Path(asked.mirror), [entry for part in required(DEFAULT).items() for entry in cached(*part)])
        return
    if folder := os.environ.get("MIRROR"):
        mirror.use(Path(folder))
    if asked.setup_only:
        code = set_up(DEFAULT)
        if code == 0:
            say_sizes()
        sys.exit(code)
    check_project(asked.project)
    where = os.environ.get("ARTIFACT_DIR") or "artifacts"
    say(f"Trial of {asked.project} with preset {asked.preset}: a rehearsal cluster on this machine (127.0.0.1 only;")
    say("a real Kubernetes control plane, simulated nodes), the load, the report, and the removal of everything.")
    say(f"The results go to {where}/{asked.project}-{asked.preset}-<id>/.")
    announce(components(asked.project, asked.preset))
    setup.main("user")
    leave(play(f"playbooks/{asked.project}.yml", "-e", json.dumps({"preset": asked.preset})))


if __name__ == "__main__":
    run(main)
