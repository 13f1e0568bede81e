# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that name a server to which secrets of the session are sent, or what is written there by their right.

Whoever can write such a value can have a secret sent to him, or have what he likes written in the name of the user. It
is therefore used together with a secret only from role defaults, the inventory, presets and ``-e``, but not from a run
directory that somebody sent or from a bundle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import setting_templates, settings_naming_programs

#: Setting with the sources of past runs, and the phases that read them.
HISTORY, READING_HISTORY = "results_history", ("test", "report")
#: Setting with the services that get messages.
SERVICES = "notify_services"


@dataclass(frozen=True)
class Receiver:
    """Who receives secrets: the settings that hold them, and the phases that send them; none means every phase.

    history: how a source of past runs begins that is read from there, too. service: of messages; without it nothing is
    sent. others: credentials that are sent if none of these secrets is set, and that no setting holds.
    """

    secrets: tuple[str, ...]
    phases: tuple[str, ...] = ()
    history: str = ""
    service: str = ""
    others: str = ""

    def is_used(self, values: Mapping[str, Any], chosen: Collection[str]) -> bool:
        """Return whether a session with these settings and phases sends secrets there."""
        if self.service and self.service not in (values.get(SERVICES) or ()):
            return False
        if not self.phases or not set(self.phases).isdisjoint(chosen):
            return True
        sources = setting_templates.texts_in_value(values.get(HISTORY)) if self.history else ()
        return not set(READING_HISTORY).isdisjoint(chosen) and any(
            text.startswith(self.history) or setting_templates.looks_like_template(text) for text in sources
        )


_AWS = "the AWS credentials"
_GITHUB = Receiver(("notify_github_token", "notify_github_app_key"), service="github")

RECEIVERS: Mapping[str, Receiver] = {
    "metrics_url": Receiver(("metrics_token",), ("prepare", "test", "report")),
    "notify_github_api_url": Receiver(("notify_github_token", "notify_github_app_key")),
    "notify_github_repository": _GITHUB,
    "notify_github_pull_request": _GITHUB,
    "notify_github_revision": _GITHUB,
    "notify_github_check": _GITHUB,
    "notify_slack_api_url": Receiver(("notify_slack_token",)),
    "notify_slack_channel": Receiver(("notify_slack_token",), service="slack"),
    "serving_url": Receiver(("serving_api_key",), ("prepare", "test")),
    "storage_hub_url": Receiver(("storage_hub_token",), ("prepare",)),
    "storage_registries": Receiver(("storage_https_token",), ("prepare",)),
    "storage_s3_endpoint": Receiver(("storage_s3_secret_key",), ("prepare",)),
    "storage_sources": Receiver(("storage_https_token",), ("prepare",)),
    "export_mlflow_url": Receiver(("export_mlflow_token", "export_mlflow_password"), ("export",)),
    "export_opensearch_url": Receiver(
        ("export_opensearch_token", "export_opensearch_password"), ("export",), history="opensearch"
    ),
    "export_otlp_url": Receiver(("export_otlp_token",), ("export",)),
    "export_s3_endpoint": Receiver(
        ("export_s3_secret_key",), ("test", "cleanup", "export"), history="s3://", others=_AWS
    ),
    "export_s3_url": Receiver(("export_s3_secret_key",), ("export",), others=_AWS),
}
#: Of these only texts with such a scheme are addresses; those of other schemes lead to servers that others name.
_IN_LISTS, _SCHEMES = frozenset({"storage_registries", "storage_sources"}), ("http://", "https://")


def addresses_receiving_secrets(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield setting and text of each such address in ``values``: setting, dotted key or word -> value."""
    for key, value in values.items():
        for name, part in [(str(key), value), *settings_naming_programs.settings_set_by_keyword(str(key), value)]:
            setting = setting_templates.setting_of_dotted_key(name)
            if setting not in RECEIVERS:
                continue
            is_number = isinstance(part, int) and not isinstance(part, bool)  # that of a pull request
            for text in [str(part)] if is_number else setting_templates.texts_in_value(part):
                if text and (setting not in _IN_LISTS or text.startswith(_SCHEMES)):
                    yield setting, text


def known_addresses(trusted: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return setting and text of each address in trusted values."""
    return {named for values in trusted for named in addresses_receiving_secrets(values)}
