"""The code that a pod gets runs with an image that has neither this collection nor Ansible."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import pod_main, pod_manifests

#: What docs/clusters.md requires of an image; markupsafe is a part of Jinja2.
IMAGE = ("yaml", "_yaml", "jinja2", "markupsafe", "jmespath")
#: Modules that a load imports only when it needs them.
LATER = (
    "_load.sample.sampler_process",
    "_load.plan.template_renderer",
    "_load.send.submit_load",
    "_clusters.lock.lock_session",
)


def test_the_code_needs_nothing_but_the_packages_of_the_image(tmp_path: Path) -> None:
    packed = pod_manifests.collection_code_zip()
    assert len(packed) < pod_manifests.MAX_OBJECT_BYTES / 2
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert not [name for name in names if "/report/" in name or "/rehearsal/" in name], "what no load imports"
    (tmp_path / "code.zip").write_bytes(packed)
    image = tmp_path / "image"
    image.mkdir()
    for name in IMAGE:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            (image / name).symlink_to(Path(spec.origin).parent)
    there = {"PYTHONPATH": f"{tmp_path / 'code.zip'}:{image}"}
    module_utils = pod_main.__name__.removesuffix("._load.remote.pod_main")
    script = f"import importlib, json, sys\nfor one in {LATER}: importlib.import_module('{module_utils}.' + one)\n"
    script += "print(json.dumps(getattr(sys.modules['ansible'], '__file__')))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=tmp_path, env=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).startswith(str(tmp_path / "code.zip"))
    begun = [sys.executable, "-S", "-m", pod_main.__name__]
    done = subprocess.run(begun, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)
    assert "not enough values to unpack (expected 5, got 0)" in done.stderr, done.stderr
