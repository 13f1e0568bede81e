# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of a run and the options of its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RUN = "t1122-abcdef"
SECRET = "a-very-secret-value"
SUMMARY = f"""# regression: fine\\_tuning light

- makespan (point 000): 2 min 24 s is outside the limit, max 2 min

| figure | value | before | change | reading |
|---|---|---|---|---|
| makespan | 2 min 24 s | 2 min | +20 % (18 to 22 %) | regression |

- run: {RUN}
- directory: /builds/x/artifacts/run
- report: report/index.html
- s3: s3://results/pull/12
"""


def options(run_dir: Path, hub: str = "", chat: str = "", **more: Any) -> dict[str, Any]:
    services = [*(["github"] if hub else []), *(["slack"] if chat else [])]
    to_hub = {"api_url": hub, "repository": "example/product", "pull_request": "12", "revision": "c0ffee"}
    given = {
        "text": "",
        "key": "",
        "run_dir": str(run_dir),
        "state": "ended",
        "services": services,
        "links": {"job": "https://ci.example.com/77"},
        "timeout": 5,
        "ca_file": None,
        "github": {**to_hub, "check": "seatrial", "token": "t0ken-of-tests"},
        "slack": {"api_url": chat, "channel": "C1", "thread": "example/product#12", "token": "slack-t0ken"},
        "secrets": {"some_password": SECRET},
        "kubeconfigs": [],
    }
    return {**given, **more}
