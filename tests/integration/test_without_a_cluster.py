"""Without a cluster, every role and phase reports in one sentence what is missing and how to fix it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import ROOT, play

SAMPLES = {"str": "x", "path": "/x", "int": 1, "float": 1.0, "bool": False, "list": [], "dict": {}}
#: Entry points that do not use the cluster, or only if there is something to collect, in roles that do.
APART = {
    "workload/stop",
    "users/cleanup",
    "scheduler/report",
    "workload_scale/report",
    "olm_operator/for_role",
    "sample/prepare",
    "metrics/replay",
    # They only say which operators to install.
    "gpu_operator/order",
    "rhoai/order",
    # Without operators in setting stack, or files of what was changed, they have nothing to do.
    "stack/install",
    "node_scaling/absent",
    "rhoai/registry_restore",
}
HINT = "needs a cluster, and there is none: call entry point acquire of role perfscale.seatrial.cluster first"


def test_the_list_of_what_is_held_needs_no_run(tmp_path: Path) -> None:
    words = ["--tags", "info", "-e", f"rehearsal_data_dir={tmp_path / 'none'}"]
    done = play(*words, artifacts=tmp_path / "runs", project="cluster")
    assert done.code == 0 and done.output.strip() == "nothing is held", done.output
    assert not (tmp_path / "runs").exists()


def roles() -> list[Path]:
    """Return the roles that require the cluster of a run."""
    found = [path for path in sorted((ROOT / "roles").iterdir()) if "cluster_acquired." in texts(path)]
    return [path for path in found if path.name not in ("run", "cluster", "new_project")]


def texts(role: Path) -> str:
    """Return the texts of a role without its documentation."""
    return "".join(path.read_text(encoding="utf-8") for path in role.glob("[dtv]*/*.yml"))


def entry_points(role: Path, also: str = "") -> dict[str, dict[str, Any]]:
    """Return entry point -> options, without main if it is an alias, unless ``also`` names it."""
    specs = files.read_yaml(role / "meta" / "argument_specs.yml")["argument_specs"]
    return {
        name: spec.get("options") or {}
        for name, spec in specs.items()
        if name != "main" or len(specs) == 1 or also == name
    }


def required(options: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each required option."""
    return {name: SAMPLES[one["type"]] for name, one in options.items() if one.get("required")}


def call(role: str, entry: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a block that includes an entry point and prints its error."""
    include = {
        "name": f"Call {role} {entry}",
        "ansible.builtin.include_role": {"name": f"perfscale.seatrial.{role}", "tasks_from": entry},
        "vars": given,
    }
    said = "{{ ansible_failed_result.msg | default('no message') | replace('\\n', ' ') }}"
    tell = {"ansible.builtin.debug": {"msg": f"@{role}/{entry}@ {said} @"}}
    return {"block": [include], "rescue": [tell]}


def failures(tmp_path: Path, blocks: list[dict[str, Any]], run_dir: Path | None = None) -> dict[str, str]:
    """Call all blocks in one play; return role/entry point -> error message."""
    facts = {"run_id": "alone"} | ({"run_dir": str(run_dir)} if run_dir else {})
    setting = {"ansible.builtin.set_fact": facts}
    one = {"hosts": "localhost", "gather_facts": False, "tasks": [setting, *blocks]}
    (tmp_path / "roles.yml").write_text(yaml.safe_dump([one], sort_keys=False), encoding="utf-8")
    done = play(path=tmp_path / "roles.yml", artifacts=tmp_path / "none")
    return dict(re.findall(r"@(\S+/\S+)@ (.*?) @", done.flat()))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The files that a role requires besides a cluster."""
    (tmp_path / "run" / "points" / "x").mkdir(parents=True)
    return tmp_path / "run"


def test_every_role_reports_that_it_needs_a_cluster(tmp_path: Path, run_dir: Path) -> None:
    blocks, names = [], set()
    for role in roles():
        for entry, options in entry_points(role).items():
            blocks.append(call(role.name, entry, {**required(options), "run_point": "x", "metrics_route": True}))
            names.add(f"{role.name}/{entry}")
    said = failures(tmp_path, blocks, run_dir)
    assert not [name for name, text in said.items() if "cluster_acquired" in text]
    assert {name for name, text in said.items() if HINT in text} == names - APART
    assert len(names) > 30


def test_a_role_that_is_given_a_kubeconfig_needs_no_cluster_of_a_run(tmp_path: Path, run_dir: Path) -> None:
    asked = {role.name: entry_points(role, "main")["main"] for role in roles()}
    offered = [role.name for role in roles() if re.search(r"or set .*_kubeconfig", texts(role))]
    kubeconfigs = {name: {f"{name}_kubeconfig": "/no/such/kubeconfig"} for name in offered}
    blocks = [call(name, "main", {**required(asked[name]), **kubeconfigs[name]}) for name in offered]
    said = failures(tmp_path, blocks, run_dir)
    assert not [text for text in said.values() if "cluster_acquired" in text or HINT in text]
    assert [name for name in offered if "/no/such/kubeconfig" in said.get(f"{name}/main", "")] == offered
    assert offered == ["fake_gpu", "olm_operator", "storage"]
