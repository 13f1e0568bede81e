"""Side by side in a play: members run together, every result is kept, secrets of deferred calls are not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import Done, play

CANARY = "canary-5e2c-deferred"
NAMES = ("one", "two", "three")


def members(folder: Path, broken: str = "") -> list[dict[str, Any]]:
    """Each waits for the file of the next one, which only a member that runs at the same time can have made."""
    found = []
    for number, name in enumerate(NAMES):
        other = NAMES[(number + 1) % len(NAMES)]
        code = f"touch {folder}/{name}; for i in $(seq 900); do test -e {folder}/{other} && break; sleep 0.1; done"
        code += f"; test -e {folder}/{other}" + ("; echo it broke >&2; exit 3" if name == broken else "")
        call = {"module": "ansible.builtin.command", "arguments": {"argv": ["sh", "-c", code]}}
        found.append({"name": name, "call": call})
    return found


def run(folder: Path, tasks: list[dict[str, Any]]) -> Done:
    path = folder / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}], sort_keys=False))
    return play("-vvv", artifacts=folder / "runs", path=path)


@pytest.mark.parametrize("broken", ["", *NAMES])
def test_members_run_at_the_same_time_and_all_results_are_kept(tmp_path: Path, broken: str) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "files").mkdir()
    asked = {"members": members(tmp_path / "files", broken), "step_dir": str(tmp_path / "step")}
    done = run(
        tmp_path,
        [
            {"perfscale.seatrial.side_by_side": asked, "register": "done", "ignore_errors": True},
            {"ansible.builtin.copy": {"dest": str(tmp_path / "done.json"), "content": "{{ done | to_json }}"}},
        ],
    )
    assert done.code == 0, done.output
    result = files.read_json(tmp_path / "done.json")
    states = {name: one["state"] for name, one in result["members"].items()}
    assert states == {name: "failed" if name == broken else "passed" for name in NAMES}
    assert bool(result.get("failed")) == bool(broken)
    if broken:
        assert result["members"][broken]["rc"] == 3 and "it broke" in result["members"][broken]["stderr"]
        assert "1 of 3 members failed" in (tmp_path / "step" / "log").read_text()


def test_a_deferred_call_is_not_made_and_its_secrets_are_not_shown(tmp_path: Path) -> None:
    volume = {"namespace": "none", "claim": "c", "run_id": "r-00001", "hub_token": CANARY, "kubeconfig": "/none"}
    done = run(
        tmp_path,
        [
            {
                "perfscale.seatrial.storage_volume": volume,
                "register": "call",
                "vars": {"run_deferred": ["perfscale.seatrial.storage_volume"]},
            },
            {
                "perfscale.seatrial.side_by_side": {"members": [{"name": "volume", "call": "{{ call.deferred }}"}]},
                "register": "done",
                "ignore_errors": True,
            },
            {"ansible.builtin.assert": {"that": ["done is failed", "'volume: ' in done.msg"]}},
            {"ansible.builtin.debug": {"var": "done"}},
        ],
    )
    assert done.code == 0 and "/none" in done.flat(), done.output
    assert CANARY not in done.output
