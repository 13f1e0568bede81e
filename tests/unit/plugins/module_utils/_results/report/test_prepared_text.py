"""What the report says of images and downloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import run_facts


def step(top: Path, name: str, file: str, document: dict[str, Any]) -> None:
    (top / name).mkdir()
    (top / name / file).write_text(json.dumps(document))


def download(name: str, downloaded: int) -> dict[str, Any]:
    more = {"source": f"http://files/{name}", "revision": "", "sha256": "ab" * 32, "files": 1, "seconds": 0.5}
    return {"name": name, "bytes": 3 * 2**20, "downloaded": downloaded, **more}


def test_images_come_before_downloads_and_each_is_there_once(tmp_path: Path) -> None:
    assert run_facts.preload_and_download_rows(tmp_path) == []
    tiny, rows = download("tiny", 3 * 2**20), download("rows.json", 0)
    step(tmp_path, "004__storage__present", "downloads.json", {"claim": "x/models", "downloads": [tiny, rows]})
    step(tmp_path, "006__storage__present", "downloads.json", {"claim": "x/models", "downloads": [download("tiny", 0)]})
    times = {"simulated": False, "waited": 2.0, "bytes": None}
    nodes = [
        {"node": "a", "there": False, "seconds": 2.0, **times},
        {"node": "b", "there": True, "seconds": 0.0, **times},
    ]
    step(tmp_path, "003__image_preload__main", "image_pulls.json", {"image": "localhost/x:1", "nodes": nodes})
    (tmp_path / "007__storage__present").mkdir()
    (tmp_path / "007__storage__present" / "downloads.json").write_text("half")
    assert run_facts.preload_and_download_rows(tmp_path) == [
        ("localhost/x:1", "pulled in up to 2.0 s on 1 node, there already on 1 node"),
        ("tiny", "3.0 MiB in 0.50 s, sha256 abababababab…, from http://files/tiny"),
        ("rows.json", "3.0 MiB there already, sha256 abababababab…, from http://files/rows.json"),
    ]
