"""Put a stand-in's program into a folder, and control it by a file."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class StandIn:
    """Programs in ``folder/bin``, controlled by ``folder/stand_in.json``."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.file = folder / "stand_in.json"
        self.cloud_file = folder / "cloud.json"
        self.settings: dict[str, Any] = {"cloud": str(self.cloud_file)}
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        for name in ("openshift-install", "rosa", "ocm"):
            source = HERE / f"{name.replace('-', '_')}.py"
            if source.exists():
                path = folder / "bin" / name
                run = f"{shlex.quote(sys.executable)} {shlex.quote(str(source))}"
                path.write_text(f'#!/bin/sh\n# a stand-in\nexec {run} "$@"\n', encoding="utf-8")
                path.chmod(0o755)
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        """Change its behaviour from now on."""
        self.settings.update(settings)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.settings), encoding="utf-8")
        part.replace(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of its callers."""
        return {"SEATRIAL_STAND_IN": str(self.file)}

    def program(self, name: str = "openshift-install") -> str:
        """Path of a program."""
        return str(self.folder / "bin" / name)

    @property
    def cloud(self) -> dict[str, Any]:
        """Clusters in the stand-in's cloud."""
        return json.loads(self.cloud_file.read_text(encoding="utf-8")) if self.cloud_file.exists() else {}

    @property
    def seen(self) -> list[tuple[str, int]]:
        """Region and number of machines of every cluster that ever stood there."""
        path = self.folder / "cloud.json.seen"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
