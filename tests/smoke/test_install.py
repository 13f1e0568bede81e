"""The collection works from the clone, from another folder, and built and installed elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile

import artefact
import pytest

SETTINGS = ("--tags", "settings", "-e", "preset=light")


def test_the_archive_holds_what_users_need_and_no_more(archive):
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    names = {member.name for member in members}
    for needed in (
        "playbooks/fine_tuning.yml",
        "playbooks/_project.yml",
        "playbooks/group_vars/all/fine_tuning_presets.yml",
        "LICENSE",
        "README.md",
    ):
        assert needed in names, f"{needed} is missing"
    for unwanted in (
        "collections",
        ".venv",
        ".cache",
        "artifacts",
        "tools",
        "molecule",
        "Makefile",
        "tests/integration",
        "tests/services",
    ):
        assert not {name for name in names if name == unwanted or name.startswith(f"{unwanted}/")}
    assert not [
        member.name
        for member in members
        if member.issym()
        and member.linkname not in names
        and (not any(name.endswith(member.linkname.lstrip("./")) for name in names))
    ]
    assert archive.stat().st_size < 2_700_000


def test_the_installed_playbook_runs_by_its_full_name_from_an_empty_folder(installed, start, tmp_path):
    done = start(
        "ansible-playbook", "perfscale.seatrial.fine_tuning", *SETTINGS, ANSIBLE_COLLECTIONS_PATH=str(installed)
    )
    assert done.returncode == 0, done.stdout
    assert "light" in done.stdout
    assert not (tmp_path / "artifacts").exists(), "--tags settings must not touch anything"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_ci_job_runs_the_installed_playbook_by_the_command_of_the_page(installed, root, start, tmp_path):
    page = (root / "docs" / "verdicts.md").read_text()
    (words,) = re.findall(r"^    PYTHONPATH=\S+ (python -m .*?)\n\n", page, re.MULTILINE | re.DOTALL)
    wrong = words.replace("\\\n", " ").replace("preset=light", "preset=lihgt").split()
    done = start(*wrong, PYTHONPATH=str(installed), ANSIBLE_COLLECTIONS_PATH=str(installed))
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 3 and last.startswith("error (exit 3): unknown preset 'lihgt'"), done.stdout
    assert (tmp_path / "elsewhere" / "junit.xml").exists()


def test_the_clones_playbook_runs_from_another_folder_without_configuration(root, start):
    done = start("ansible-playbook", str(root / "playbooks" / "fine_tuning.yml"), *SETTINGS)
    assert done.returncode == 0, done.stdout


def test_clone_and_installed_collection_resolve_the_same_settings(root, installed, start):
    clone = start("ansible-playbook", str(root / "playbooks" / "fine_tuning.yml"), *SETTINGS)
    built = start(
        "ansible-playbook", "perfscale.seatrial.fine_tuning", *SETTINGS, ANSIBLE_COLLECTIONS_PATH=str(installed)
    )
    shown = [[line for line in done.stdout.splitlines() if "preset light (" in line] for done in (clone, built)]
    assert shown[0] == shown[1] != []


def test_a_world_writable_clone_works_although_ansible_ignores_its_configuration(root, start, tmp_path):
    copy = tmp_path / "shared-clone"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file() or (root / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    copy.chmod(0o777)
    done = start("ansible-playbook", "playbooks/fine_tuning.yml", *SETTINGS, cwd=copy)
    assert done.returncode == 0, done.stdout


def test_modules_and_roles_have_documentation_that_ansible_doc_shows(installed, start):
    env = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    done = start("ansible-doc", "-t", "role", "-l", "perfscale.seatrial", **env)
    assert done.returncode == 0 and "perfscale.seatrial.fine_tuning" in done.stdout, done.stdout
    roles = [f"perfscale.seatrial.{path.name}" for path in (installed / artefact.NAME / "roles").iterdir()]
    done = start("ansible-doc", "-t", "role", *roles, **env)
    assert done.returncode == 0 and "[WARNING]" not in done.stdout, done.stdout[:2000]
    done = start("ansible-doc", "-t", "module", "perfscale.seatrial.workload_submit", **env)
    assert done.returncode == 0 and "EXAMPLES" in done.stdout, done.stdout


@pytest.mark.long
def test_the_whole_chain_runs_from_the_installed_collection(installed, start, tmp_path):
    done = start(
        "ansible-playbook",
        "perfscale.seatrial.fine_tuning",
        "-e",
        "preset=light",
        limit=600,
        ANSIBLE_COLLECTIONS_PATH=str(installed),
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (report,) = (tmp_path / "artifacts").glob("*/report/index.html")
    assert report.stat().st_size > 10_000
