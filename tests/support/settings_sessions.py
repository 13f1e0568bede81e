# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of project fine_tuning, as action open_run begins them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

LOADER = DataLoader()  # shared: it keeps the defaults of the roles that it has read
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
ARGV = ["/bin/ansible-playbook", "fine_tuning.yml"]
PRESETS = {
    "small": {"fine_tuning_count": 3, "fine_tuning_rate": 2.0},
    "matrix": {"matrix": {"fine_tuning_gpus": [1, 2]}},
    "big": {"fine_tuning_count": 7},
}


def session(tmp_path: Path, tags: list[str] | None = None, extra: dict[str, Any] | None = None, **more: Any) -> Any:
    given = {"run_artifacts_dir": str(tmp_path / "runs"), **(extra or {})}
    variables = {
        "playbook_dir": str(tmp_path),
        "fine_tuning_presets": PRESETS,
        "ansible_run_tags": tags or ["all"],
        **given,
        **more,
    }
    templar = Templar(loader=LOADER, variables=variables)
    context = SettingsContext.of("fine_tuning", variables, given, LOADER, templar)
    return SettingsSession(context, PHASES, LOADER, templar, ARGV, {}, [].append)


def lines(one: Any) -> list[str]:
    return one.say.__self__


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def opened(tmp_path: Path, **more: Any) -> Path:
    """A run whose session has ended."""
    directory = Path(session(tmp_path, preset="small", **more).begin()["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][0].update(began=0.0))
    return directory


def ended(directory: Path, **statuses: str) -> None:
    """Let points of a run have ended with these statuses; names are the numbers with a leading p."""
    for name, status in statuses.items():
        path = directory / "points" / name.removeprefix("p") / "point.yml"
        path.write_text(path.read_text().replace("status: planned", f"status: {status}"))
