"""Every file of a run directory and the schema that it must have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

DOCUMENTS = {
    "request.yml": "request/1",
    "settings.yml": "settings/1",
    "provenance.yml": "provenance/1",
    "run.yml": "run/1",
    "cluster.yml": "cluster/2",
    "verdict.json": "verdict/2",
    "answer.json": "answer/1",
    "findings.json": "findings/1",
    "capture/index.json": "capture/1",
    "capture/*/state.json": "captured_state/1",
    "points/*/point.yml": "point/2",
    "points/*/ran.json": "ran/1",
    "points/*/settings.yml": "settings/1",
    "points/*/kpis.json": "kpis/2",
    "points/*/attribution.json": "attribution/1",
}
LINES = {
    "points/*/plan.jsonl": "plan/1",
    "points/*/ledger.jsonl": "ledger/1",
    "points/*/observations.jsonl": "observations/1",
    "points/*/timeline.jsonl": "timeline/1",
    "points/*/training.jsonl": "training/1",
    "[0-9]*__*/timing.json": "timing/1",
}


def validated(run_dir: Path) -> Iterator[Path]:
    """Yield every file of the run that has a schema and fits it. Raises DataError for an invalid one."""
    for pattern, schema in DOCUMENTS.items():
        for path in sorted(run_dir.glob(pattern)):
            files.validate_schema_if_enabled(
                schema, files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
            )
            yield path
    for pattern, schema in LINES.items():
        for path in sorted(run_dir.glob(pattern)):
            for record in files.read_json_lines(path):
                files.validate_schema_if_enabled(schema, record)
            yield path


def missing(run_dir: Path) -> list[str]:
    """Return the patterns for which a finished run of one point should have a file, but does not."""
    return [pattern for pattern in (*DOCUMENTS, *LINES) if not list(run_dir.glob(pattern))]
