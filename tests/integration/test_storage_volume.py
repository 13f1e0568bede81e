# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads to a volume by a real pod on a real node, from servers in other pods."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pod_servers
import pytest
import rehearsal as support
import servers
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import image_preload, storage_volume
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import read_sources
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_volume import DownloadSpec, VolumeClaim

SCRIPT = (Path(__file__).parents[2] / "roles" / "storage" / "files" / "download.py").read_text(encoding="utf-8")
IMAGE, REAL = pod_servers.IMAGE, pod_servers.REAL
RUN = "t1122-abcdef"
SECRET = "https-token-3f1b"

LACKING = suite_prerequisites.real_node_lacks()
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]


def left(client: Client) -> list[str]:
    """Objects of the run in the namespace, except the claim."""
    kinds = [("v1", "Secret"), ("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod")]
    selector = f"perfscale.seatrial/run={RUN}"
    return [name for version, name in kinds if client.list(client.kind(version, name), "default", selector)[0]]


def test_a_real_pod_downloads_once_and_nothing_but_the_claim_is_left(own_instance: Any, tmp_path: Path) -> None:
    options = own_instance("storage", components=["training-image"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        check(client, tmp_path)
        check_preload(client)


def check_preload(client: Client) -> None:
    """There is no registry here, so that no pull takes any time; the words are those of a real kubelet."""
    tolerations = ({"key": REAL, "operator": "Exists"},)
    wanted = image_preload.ImagePreloadSpec("default", IMAGE, RUN, 60, {REAL: "true"}, tolerations)
    (found,) = image_preload.preload_image_on_nodes(client, wanted, support.quiet)
    assert (found["node"], found["there"], found["seconds"], found["simulated"]) == ("real-0", True, 0.0, False)
    missing = image_preload.ImagePreloadSpec(
        "default", "localhost/seatrial/none:1", RUN, 5, {REAL: "true"}, tolerations
    )
    with pytest.raises(WaitTimeout, match=r"on 0 of 1 nodes; real-0 \(ErrImage|ImagePullBackOff|ContainerCreating"):
        image_preload.preload_image_on_nodes(client, missing, support.quiet)
    with pytest.raises(InputError, match="has a taint that image_preload_tolerations lacks"):
        image_preload.preload_image_on_nodes(
            client, image_preload.ImagePreloadSpec("default", IMAGE, RUN, 60, {REAL: "true"}), support.quiet
        )
    assert client.list(client.kind("apps/v1", "DaemonSet"), "default")[0] == [] == left(client)


def check(client: Client, tmp_path: Path) -> None:
    s3 = pod_servers.s3(
        client,
        "mkdir -p /tmp/s3/models/tiny; head -c 3000000 /dev/zero > /tmp/s3/models/tiny/weights.bin;"
        " echo config > /tmp/s3/models/tiny/config.json",
    )
    crt, key = servers.certificate(tmp_path)
    site = pod_servers.site(client, crt, key)

    volume = VolumeClaim("default", "models", "1Gi", "ReadWriteOnce", "real-node", RUN)
    spec = DownloadSpec(
        "default",
        "models",
        RUN,
        IMAGE,
        SCRIPT,
        {"access_key": servers.S3_KEYS[0], "secret_key": servers.S3_KEYS[1], "https_token": SECRET},
        s3=s3,
        timeout=120,
        node_selector={REAL: "true"},
        tolerations=({"key": REAL, "operator": "Exists"},),
    )
    said: list[str] = []
    sources = read_sources(["tiny@lab"], {"lab": "s3://models/"})
    found = storage_volume.ensure_volume(client, volume, spec, sources, said.append)
    digests = {
        "config.json": hashlib.sha256(b"config\n").hexdigest(),
        "weights.bin": hashlib.sha256(bytes(3_000_000)).hexdigest(),
    }
    whole = hashlib.sha256("".join(f"{one}  {name}\n" for name, one in digests.items()).encode()).hexdigest()
    (one,) = found["downloads"]
    assert found["changed"] and (one["sha256"], one["bytes"], one["files"]) == (whole, 3_000_007, 2)
    assert left(client) == []
    held = storage_volume.find_claim(client, "default", "models")
    assert held and held["metadata"]["labels"][storage_volume.source_label_key("tiny")] == whole[:32]

    # The second time no job runs: this one could not.
    broken = DownloadSpec("default", "models", RUN, "", SCRIPT, timeout=5)
    assert storage_volume.ensure_volume(client, volume, broken, sources, said.append)["changed"] is False

    # A server whose certificate nobody trusts: an error with the remedy, and no credentials are left.
    both = [*sources, *read_sources([{"source": f"https://{site}:8443/rows.json", "name": "rows.json"}], {})]
    with pytest.raises(AccessError, match="is the certificate authority in storage_ca_file"):
        storage_volume.ensure_volume(client, volume, spec, both, said.append)
    assert left(client) == []

    verified = storage_volume.ensure_volume(client, volume, spec, sources, said.append, verify=True)
    assert verified["changed"] is False and verified["downloads"][0]["downloaded"] == 0
    larger = VolumeClaim("default", "models", "2Gi", "ReadWriteOnce", "", RUN)
    with pytest.raises(InputError, match="has 1Gi, storage_size is 2Gi"):
        storage_volume.ensure_volume(client, larger, spec, both, said.append)
    assert storage_volume.remove_volume(client, "default", "models", 60, said.append)
