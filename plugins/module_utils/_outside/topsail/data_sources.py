# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where TOPSAIL gets models and datasets from, as settings of role storage.

TOPSAIL downloads each model and dataset to a volume. A name with ``@registry``, and a model that
``fine_tuning.sources`` does not have if there is a ``fine_tuning.model_registry``, comes from a registry; the others
have their own entry in ``fine_tuning.sources``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

SOURCES = "fine_tuning.sources"
CLAIM = "fine_tuning.pvc"
HUB = "https://huggingface.co/"
#: Key of fine_tuning.pvc -> setting.
_CLAIM = {"name": "fine_tuning_storage_claim", "size": "storage_size", "storage_class_name": "storage_class"}
_MODES = ("ReadWriteOnce", "ReadWriteMany")
#: Scheme of an address -> settings with its credentials.
_CREDENTIALS = {
    "hf": "storage_hub_token",
    "s3": "storage_s3_access_key and storage_s3_secret_key",
    "https": "storage_https_token",
    "http": "storage_https_token",
}


class DataSources:
    """The models and datasets that the points of one preset use.

    get: reads a key of the effective configuration. note: lists what cannot be translated.
    """

    def __init__(self, get: Callable[[str], Any], note: Callable[[str], None]) -> None:
        self._get, self._note = get, note
        self._known: Mapping[str, Any] = get(SOURCES) or {}
        self._claim: Mapping[str, Any] = get(CLAIM) or {}
        if not isinstance(self._known, Mapping) or not isinstance(self._claim, Mapping):
            raise InputError(f"{SOURCES} or {CLAIM} is no dictionary")
        self._default = str(get("fine_tuning.model_registry") or "")
        #: A volume without a name: TOPSAIL downloads nothing.
        self.volume = not ("name" in self._claim and self._claim["name"] is None)
        self._wanted: list[Any] = []
        self._registries: dict[str, str] = {}
        self._images: list[str] = []
        self._used = False

    def model(self, source_name: str) -> str:
        """Return the name of a model as a setting has it, and remember where it comes from."""
        return self._name(source_name, self._default)

    def dataset(self, source_name: str) -> str:
        """Return the name of a dataset, as model(); a dataset needs an entry in ``fine_tuning.sources``."""
        return self._name(source_name, "")

    def _name(self, source_name: str, default: str) -> str:
        path, _at, registry = source_name.partition("@")
        if not self.volume:
            return path
        self._used = True
        if not registry and path not in self._known:
            registry = default
        source = self._source(registry or path)
        if not source:
            self._note(f"{source_name}: {SOURCES} has no {registry or path}: put {path} into the volume")
            return path
        address = _storage_source_address(str(source.get("source_dir") or ""))
        scheme = address.partition("://")[0]
        if scheme not in _CREDENTIALS:
            self._note(
                f"{source_name}: it cannot be downloaded from {source.get('source_dir')}: put {path} into the volume"
            )
            return path
        self._credentials(source, scheme)
        if registry:
            if (registry, address) != ("hf", "hf://"):
                self._registries[registry] = address
            return f"{path}@{registry}"
        source_url = f"{address.rstrip('/')}/{path}"
        if source_url not in self._wanted:
            self._wanted.append(source_url)
        return path

    def of_dataset(self, name: str, key: str) -> Any:
        """Return a key of a dataset's entry, such as ``response_template``; None without one."""
        return self._source(name).get(key)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the volume and of what is downloaded to it; none if nothing is in a volume."""
        if not self._used:
            return {}
        values: dict[str, Any] = {name: str(self._claim[key]) for key, name in _CLAIM.items() if self._claim.get(key)}
        mode = self._claim.get("access_mode")
        if mode in _MODES:
            values["storage_access_mode"] = mode
        elif mode:
            self._note(f"{CLAIM}.access_mode = {mode}: storage_access_mode is one of {', '.join(_MODES)}")
        if self._wanted:
            values["storage_sources"] = self._wanted
        if self._registries:
            values["storage_registries"] = self._registries
        if self._images:
            values["storage_image"] = self._images[0]
            for image in self._images[1:]:
                self._note(f"{image}: storage_image is one image for all downloads, {self._images[0]}")
        return values

    def _source(self, name: str) -> Mapping[str, Any]:
        source = self._known.get(name) or {}
        if not isinstance(source, Mapping):
            raise InputError(f"{SOURCES}.{name} is no dictionary")
        return source

    def _credentials(self, source: Mapping[str, Any], scheme: str) -> None:
        if source.get("secret_key"):
            self._note(f"{source['secret_key']}: set {_CREDENTIALS[scheme]}")
        image = self._get(str(source["download_pod_image_key"])) if source.get("download_pod_image_key") else None
        if image and str(image) not in self._images:
            self._images.append(str(image))


def _storage_source_address(url: str) -> str:
    """Return an address for role storage: repositories of the model hub have their own scheme, files have not."""
    if not url.startswith(HUB) or "/resolve/" in url or "/raw/" in url:
        return url
    return f"hf://{url.removeprefix(HUB)}"
