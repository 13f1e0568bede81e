# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all modules share: argument specs of common options, and main(), which reports errors with fail_json.

The documentation of the options is in the doc fragments.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import disk_reserve, files
from .errors import SeatrialError, shorten_error_message
from .signals import exit_with_parent
from .step_directory import StepDirectory
from .untrusted_input import escape_control_characters, without_keys_of_ansible

if TYPE_CHECKING:  # pods, which have the options but run no module, do not carry it along
    from ansible.module_utils.basic import AnsibleModule

#: Of every module that works on a cluster (fragment _cluster).
CLUSTER: dict[str, Any] = {
    "kubeconfig": {"type": "path", "required": True},
    "context": {"type": "str", "default": ""},
}

#: Of every module that writes to the directory of a role call (fragment _step).
STEP: dict[str, Any] = {"step_dir": {"type": "path"}}

#: Of every module whose progress its action plugin prints (fragment _step.progress, actions/module_actions.py).
PROGRESS: dict[str, Any] = {"progress_file": {"type": "path"}}

#: Of modules that work on a run or on one of its points (fragments _run, _run.points and so on).
RUN_DIR: dict[str, Any] = {"run_dir": {"type": "path", "required": True}}
POINTS: dict[str, Any] = {"points": {"type": "list", "elements": "str", "default": []}}
POINT: dict[str, Any] = {"run_id": {"type": "str", "required": True}, "point": {"type": "str", "default": "001"}}
PROJECT: dict[str, Any] = {"project": {"type": "str", "required": True}}
OWNER: dict[str, Any] = {"owner": {"type": "str", "default": ""}}
PURPOSE: dict[str, Any] = {"purpose": {"type": "str", "default": ""}}
EXPIRES: dict[str, Any] = {"expires": {"type": "str", "default": ""}}

#: Of modules that query a Prometheus server (fragment _metrics).
PROMETHEUS: dict[str, Any] = {
    "url": {"type": "str", "default": ""},
    "token": {"type": "str", "default": "", "no_log": True},
    "kubeconfig": {"type": "path"},
    "context": {"type": "str", "default": ""},
}

#: Of modules that speak to a server over HTTPS (fragment _export.ca_file).
CA_FILE: dict[str, Any] = {"ca_file": {"type": "path"}}

#: How to reach an S3 server (fragments _export.s3, _history and _s3_pod_files).
S3_SERVER: dict[str, Any] = {
    "endpoint": {"type": "str", "default": ""},
    "region": {"type": "str", "default": "us-east-1"},
    "access_key": {"type": "str", "default": "", "no_log": False},
    "secret_key": {"type": "str", "default": "", "no_log": True},
}

#: Of modules that collect files of pods through an S3 server (fragment _s3_pod_files).
COLLECT_S3: dict[str, Any] = {
    "collect_s3": {"type": "dict", "default": {}, "options": {"url": {"type": "str", "default": ""}, **S3_SERVER}},
    **CA_FILE,
}

#: Of modules whose load is sent by pods, with or without the prefix driver_ (fragments _driver_pods and .driver).
DRIVER_PODS: dict[str, Any] = {
    "context": {"type": "str", "default": ""},
    "namespace": {"type": "str", "default": ""},
    "node_selector": {"type": "dict", "default": {}},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "requests": {"type": "dict", "default": {}},
    "limits": {"type": "dict", "default": {}},
    "security_context": {"type": "dict", "default": {}},
    "keep": {"type": "int", "default": 86400},
    "restarts": {"type": "int", "default": 3},
    "start_timeout": {"type": "float", "default": 600},
}

#: Of modules that must not write or send secrets (fragment _export.secrets, action/_without_secrets.py).
SECRETS: dict[str, Any] = {
    "secrets": {"type": "dict", "default": {}, "no_log": True},
    "kubeconfigs": {"type": "list", "elements": "path", "default": []},
}

#: Of modules that send requests to inference servers (fragment _inference).
INFERENCE_TLS: dict[str, Any] = {**CA_FILE, "validate_certs": {"type": "bool", "default": True}}

#: Of modules that create an OpenShift cluster (fragments _openshift and _openshift.bundle).
NEW_CLUSTER: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "install_dir": {"type": "path", "required": True},
}
BUNDLE: dict[str, Any] = {"bundle": {"type": "path"}}


def _unexpected_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in disk_reserve.FULL:
        where = f": {error.filename} can't be written" if error.filename else ""
        return f"no space left on device, a disk of this machine is full{where}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {shorten_error_message(error)}"
    return f"an error in this module: {what} ({Path(frame.filename).name}:{frame.lineno})"


def run_module_work(module: AnsibleModule, work: Callable[[StepDirectory], dict[str, Any]]) -> None:
    """Call ``work`` with the module's step directory; exit with its result, or fail with the text of its SeatrialError.

    A module with a progress file may run for long and ends when its parent process ends.
    """
    files.keep_everybody_from_writing()
    step = StepDirectory(module.params.get("step_dir"))
    try:
        with exit_with_parent() if module.params.get("progress_file") else nullcontext():
            result = work(step)
    except SeatrialError as error:
        step.log(f"failed: {error}")
        message = escape_control_characters(shorten_error_message(error))  # it may quote what a server sent
        module.fail_json(msg=message, error=error.error_kind, **getattr(error, "facts", {}))
    except Exception as error:  # an error of ours, or a full disk: the result stays readable, and the log has the rest
        with suppress(OSError):
            step.log(f"failed: {traceback.format_exc()}")
        module.fail_json(msg=escape_control_characters(_unexpected_error(error)), error=type(error).__name__)
    for warning in result.get("warnings", ()):  # ansible-core 2.23 accepts them in no other way
        module.warn(escape_control_characters(warning))
    module.exit_json(**without_keys_of_ansible(result))
