# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a run directory about its clusters: their records, the lock, what was changed on them, their captures."""

from __future__ import annotations

from typing import Any

from .point_schemas import VERSIONS
from .schema_field_types import (
    COUNT,
    FREE,
    POINT_ID,
    RUN_ID,
    STAMP,
    STAMP_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    json_line_schema,
    object_schema,
)

#: ours: it has the label of the run, or is in a namespace that has it.
_DIFFERENCE = {"kind": TEXT, "namespace": TEXT, "name": TEXT, "ours": TRUTH}

_CLUSTER: dict[str, Any] = {
    "provider": TEXT,
    "state": {"enum": ["acquiring", "acquired", "failed", "released"]},
    "owned": TRUTH,
    "simulated": TRUTH,
    # Which writers of stages are simulated on this cluster, such as ["node"]; empty on a real one.
    "simulated_writers": TEXTS,
}
_CLUSTER_OPTIONAL: dict[str, Any] = {
    "name": TEXT,
    "kubeconfig": TEXT,
    "context": TEXT,
    "api_host": TEXT,
    "version": TEXT,
    "openshift": TEXT_OR_NULL,
    "nodes": COUNT,
    "node_names": TEXTS,
    # Those that are not simulated, of a cluster with simulated nodes.
    "real_nodes": TEXTS,
    "gpus": COUNT,
    "gpu_products": {"type": "object", "additionalProperties": COUNT},
    "kind": TEXT_OR_NULL,
    "owner": TEXT_OR_NULL,
    "purpose": TEXT,
    "taken": STAMP,
    "expires": STAMP_OR_NULL,
    # Kept on purpose (cluster_keep): the release refuses without cluster_keep=false.
    "kept": TRUTH,
    # The run may have objects on it: set before the first is created, cleared when a clean-up found none.
    "objects": TRUTH,
    # The settings it is created from, without secrets, and all data that its provider needs to release it, from
    # another machine too: the installer's metadata, BMC addresses, the name and namespace of a claim.
    "provider_data": FREE,
    # Folder of the installer: configuration, log, metadata.
    "install_dir": TEXT,
    "console": TEXT,
    # Why it could not be acquired, in one line, and the folder of the gathered logs.
    "failure": TEXT_OR_NULL,
    "bundle": TEXT_OR_NULL,
    "data_dir": TEXT,
    "played_logs": TEXT,
    "audit_log": TEXT,
}
#: Record of one cluster by role cluster; also the fact ``cluster_acquired.sutest``.
CLUSTER = object_schema(
    _CLUSTER,
    {
        **_CLUSTER_OPTIONAL,
        # Allocatable on all nodes.
        "cpus": {"type": "number", "minimum": 0},
        "memory_gib": {"type": "number", "minimum": 0},
        # package -> version; absent if they may not be read.
        "operators": {"type": "object", "additionalProperties": TEXT},
    },
)

#: Process on the machine whose boot is ``boot``; ``ticks``: when it started, in clock ticks since boot.
PROCESS = object_schema({"pid": COUNT, "ticks": COUNT})

CLUSTERS: dict[str, dict[str, Any]] = {
    "cluster/1": object_schema(
        {
            "schema": {"const": "cluster/1"},
            "clusters": {"type": "object", "additionalProperties": object_schema(_CLUSTER, _CLUSTER_OPTIONAL)},
        }
    ),
    "cluster/2": object_schema(
        {"schema": {"const": "cluster/2"}, "clusters": {"type": "object", "additionalProperties": CLUSTER}}
    ),
    # lock-<host>.json: the run's lock on a cluster that it did not create. deadline: until when it counts as held, in
    # seconds since boot of the machine that renews it.
    "lock/1": object_schema(
        {
            "schema": {"const": "lock/1"},
            "state": {"enum": ["held", "lost", "released"]},
            "cluster": TEXT,
            "namespace": TEXT,
            "run": RUN_ID,
            "owner": TEXT,
            "purpose": TEXT,
            "waited": {"type": "number", "minimum": 0},
            "duration": COUNT,
            "since": STAMP,
            "renewed": STAMP,
            "until": STAMP,
            "deadline": {"type": "number"},
            "boot": TEXT,
            "keeper": PROCESS,
            "caller": PROCESS,
            "lost": TEXT,
        }
    ),
    # scaling.json: the state before nodes were scaled or dedicated to namespaces.
    "scaling/1": object_schema(
        {
            "schema": {"const": "scaling/1"},
            "sets": {
                "type": "array",
                "items": object_schema({"name": TEXT, "created": TRUTH, "before": COUNT, "wanted": COUNT}),
            },
            "namespaces": {
                "type": "array",
                "items": object_schema({"name": TEXT, "before": FREE, "wanted": FREE}),
            },
        }
    ),
    # registry.json: what was changed for the access to a registry; written before the change. It holds no credentials.
    "registry/1": object_schema(
        {
            "schema": {"const": "registry/1"},
            "mirrors": {"type": "array", "items": object_schema({"manifest": FREE})},
        },
        {"secret": FREE, "pending": {"type": "boolean"}},
    ),
    # gpu_burn.json: the result of each GPU in a burn-in.
    "gpu_burn/1": object_schema(
        {
            "schema": {"const": "gpu_burn/1"},
            "seconds": COUNT,
            "gpus": {
                "type": "array",
                "items": object_schema(
                    {
                        "node": TEXT,
                        "product": TEXT,
                        "gpu": COUNT,
                        "result": {"enum": ["ok", "faulty", "missing", "simulated"]},
                    }
                ),
            },
        }
    ),
    # monitoring.json: the ConfigMap of OpenShift's monitoring before user workloads were switched on.
    "monitoring/1": object_schema(
        {
            "schema": {"const": "monitoring/1"},
            "existed": TRUTH,
            "before": TEXT_OR_NULL,
            "wanted": TEXT,
        }
    ),
    # What a volume holds after role storage.
    "downloads/1": object_schema(
        {
            "schema": {"const": "downloads/1"},
            "claim": TEXT,
            "downloads": {
                "type": "array",
                "items": object_schema(
                    {
                        "name": TEXT,
                        "source": TEXT,
                        "revision": TEXT,
                        "sha256": TEXT,
                        "files": COUNT,
                        "bytes": COUNT,
                        "downloaded": COUNT,
                        "seconds": {"type": "number", "minimum": 0},
                    }
                ),
            },
        }
    ),
    # Files of a volume that were fetched, and those beyond the limit.
    "volume_files/1": object_schema(
        {
            "schema": {"const": "volume_files/1"},
            "claim": TEXT,
            "files": {"type": "array", "items": object_schema({"name": TEXT, "bytes": COUNT, "sha256": TEXT})},
            "left_out": {"type": "array", "items": object_schema({"name": TEXT, "bytes": COUNT})},
            "unmatched": {"type": "array", "items": TEXT},
        }
    ),
    # How long the nodes pulled an image.
    "image_pulls/1": object_schema(
        {
            "schema": {"const": "image_pulls/1"},
            "image": TEXT,
            "nodes": {
                "type": "array",
                "items": object_schema(
                    {
                        "node": TEXT,
                        "there": TRUTH,
                        "simulated": TRUTH,
                        "seconds": {"type": ["number", "null"], "minimum": 0},
                        "waited": {"type": ["number", "null"], "minimum": 0},
                        "bytes": {"type": ["integer", "null"], "minimum": 0},
                    }
                ),
            },
        }
    ),
    # capture/index.json: the captures of the state of the run's clusters, in order. objects, of: kept, and there.
    "capture/1": object_schema(
        {
            "schema": {"const": "capture/1"},
            "run": RUN_ID,
            "captures": {
                "type": "array",
                "items": object_schema(
                    {
                        "folder": TEXT,
                        "why": TEXT,
                        "at": STAMP,
                        "seconds": {"type": "number", "minimum": 0},
                        "bytes": COUNT,
                        "files": {
                            "type": "array",
                            "items": object_schema(
                                {"file": TEXT, "bytes": COUNT}, {"objects": COUNT, "of": COUNT, "cut": TRUTH}
                            ),
                        },
                        "notes": TEXTS,
                    },
                    {"point": POINT_ID, "cluster": TEXT},
                ),
            },
        }
    ),
    # capture/<folder>/state.json. restarts: namespace/pod -> number, of pods of the run, of operators, of the control
    # plane. stack: objects of the software under test by kind and name.
    "captured_state/1": object_schema(
        {
            "schema": {"const": "captured_state/1"},
            "run": RUN_ID,
            "at": STAMP,
            "versions": VERSIONS,
            "operators": VERSIONS,
            "images": VERSIONS,
            "nodes": {
                "type": "object",
                "additionalProperties": object_schema(
                    {
                        "ready": TRUTH,
                        "schedulable": TRUTH,
                        "conditions": TEXTS,
                        "kubelet": TEXT,
                        "system": TEXT,
                        "runtime": TEXT,
                        "gpus": COUNT,
                        "allocatable": VERSIONS,
                    }
                ),
            },
            "restarts": {"type": "object", "additionalProperties": COUNT},
            "stack": {
                "type": "object",
                "additionalProperties": object_schema({"ready": TRUTH, "state": TEXT, "version": TEXT}),
            },
        }
    ),
    # objects-before.jsonl, objects-after.jsonl: every object on the cluster. spec: start of a hash of its content.
    "objects/1": json_line_schema(
        {
            "unlisted": object_schema({"kinds": TEXTS}),
            "object": object_schema(
                {
                    "group": TEXT,
                    "kind": TEXT,
                    "namespace": TEXT,
                    "name": TEXT,
                    "uid": TEXT,
                    "spec": TEXT,
                    "ours": TRUTH,
                }
            ),
        }
    ),
    # run_diff.json: before the first phase that uses the cluster, and after cleanup. again: deleted and created again.
    "run_diff/1": object_schema(
        {
            "schema": {"const": "run_diff/1"},
            "run": RUN_ID,
            "at": STAMP,
            "objects": COUNT,
            "unlisted": TEXTS,
            "left": {"type": "array", "items": object_schema(_DIFFERENCE)},
            "gone": {"type": "array", "items": object_schema(_DIFFERENCE)},
            "changed": {"type": "array", "items": object_schema({**_DIFFERENCE, "again": TRUTH})},
        }
    ),
    # The lease file of a run that holds bare metal.
    "lease/1": object_schema(
        {
            "schema": {"const": "lease/1"},
            "lease_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{5,39}$"},
            "api_url": TEXT,
            "owner": TEXT,
            # asking: machines may be held that are not yet known
            "state": {"enum": ["asking", "held", "adopted", "released"]},
            "adopted": TRUTH,
            # The request for a cloud that got no answer yet: at as in the mark, sent by the server's clock.
            "pending": {
                "anyOf": [object_schema({"part": COUNT, "at": COUNT, "sent": {"type": "number"}}), {"type": "null"}],
            },
            "parts": {"type": "array", "items": object_schema({"assignment_id": COUNT, "cloud": TEXT, "ticket": TEXT})},
            "asked_hosts": TEXTS,
            "hosts": TEXTS,
            "lost_hosts": TEXTS,
            # Without Z: by the server's clock, whose time zone is unknown.
            "expires_at": {"type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?$"},
            # The command that releases it from any machine.
            "release": TEXT,
            "updated": STAMP,
        },
        # Minutes that the server's times are ahead of UTC; null while unknown.
        {"utc_offset": {"type": ["integer", "null"]}},
    ),
}
