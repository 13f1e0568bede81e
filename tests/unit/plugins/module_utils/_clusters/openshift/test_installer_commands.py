# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installer's log says."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import installer_commands

TEXT = r"""
time="2026-11-21T12:00:00Z" level=debug msg="still waiting"
time="2026-11-21T12:00:01Z" level=info msg="Waiting up to 30m0s for bootstrapping to complete..."
time="2026-11-21T12:30:01Z" level=error msg="Bootstrap failed to complete: timed out waiting for the condition"
time="2026-11-21T12:30:02Z" level=error msg="Cluster operator etcd Degraded is True with \"NoQuorum\": two of three"
time="2026-11-21T12:30:03Z" level=fatal msg="failed to initialize the cluster"
"""


def test_the_first_cause_is_the_first_error_that_says_what_failed() -> None:
    assert (
        installer_commands.first_cause_in_installer_log(TEXT)
        == 'Cluster operator etcd Degraded is True with "NoQuorum": two of three'
    )


def test_where_no_error_is_telling_the_first_counts_and_without_any_the_last_line() -> None:
    only = 'level=error msg="Bootstrap failed to complete: timed out"\nlevel=fatal msg="failed waiting for it"\n'
    assert installer_commands.first_cause_in_installer_log(only) == "Bootstrap failed to complete: timed out"
    assert installer_commands.first_cause_in_installer_log("one\nexec format error\n") == "exec format error"
    assert installer_commands.first_cause_in_installer_log("") == "the installer logged nothing"


def test_passwords_are_not_passed_on() -> None:
    line = r'level=info msg="Login to the console with user: \"kubeadmin\", and password: \"aBc-dEf-gHi\""'
    assert "aBc-dEf-gHi" not in installer_commands.mask_passwords(
        line
    ) and "kubeadmin" in installer_commands.mask_passwords(line)
    assert "aBc-dEf-gHi" not in installer_commands.messages_of_levels(line, ["info"])[0]
    assert "Zm9v" not in installer_commands.mask_passwords('{"auths": {"registry.example.com": {"auth": "Zm9v"}}}')


def test_a_growing_log_is_told_line_by_line_and_a_torn_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = installer_commands.InstallerLogTail(path)
    assert tail.new() == []
    path.write_text('level=info msg="one"\nlevel=debug msg="no"\nlevel=info msg="tw', encoding="utf-8")
    assert tail.new() == ["one"]
    with open(path, "a", encoding="utf-8") as stream:
        stream.write('o"\n')
    assert tail.new() == ["two"]
