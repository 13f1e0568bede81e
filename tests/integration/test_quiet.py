"""What a terminal shows: phases, progress, each failure once. The log of the run has everything, -v shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role
from playbook import Done, play

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Close a run that is gone
      perfscale.seatrial.record_run_state:
        state: closed
      vars:
        run_dir: /no/such/run
      when: gone | default(false) | bool

    - name: Publish the run
      ansible.builtin.set_fact:
        run_dir: "{{ run_parent }}/the run"

    - name: Begin phase test
      perfscale.seatrial.record_run_state:
        phase: test

    - name: Skip this
      ansible.builtin.debug:
        msg: never shown
      when: false

    - name: Count
      ansible.builtin.assert:
        that: item < 3
        quiet: true
      loop: [1, 2]

    - name: Say something
      ansible.builtin.debug:
        msg: [one line, another line]

    - name: Ignore a failure
      ansible.builtin.fail:
        msg: ignored
      ignore_errors: true

    - name: Pass on a failure
      block:
        - name: Run a program that fails
          ansible.builtin.command: {argv: [ls, /no/such/file]}

      rescue:
        - name: Fail as it did
          ansible.builtin.fail:
            msg: "the program failed: {{ ansible_failed_result.msg }}"
      when: broken | default(false) | bool

    - name: Check each
      ansible.builtin.assert:
        that: item < 2
        fail_msg: too much
      loop: [1, 2, 3]
      when: looped | default(false) | bool
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run, as role run has opened it."""
    folder = tmp_path / "the run"
    folder.mkdir()
    command = run_record.CommandLine(["ansible-playbook"], {}, [])
    run_record.write_record(
        folder, run_record.new_record("t1121-abcdef", project_role.find_role("fine_tuning"), [], ["001"], command)
    )
    return folder


def shown(run: Path, *words: str, env: dict[str, str] | None = None) -> Done:
    playbook = run.parent / "playbook.yml"
    playbook.write_text(PLAYBOOK, encoding="utf-8")
    return play(*words, "-e", f"run_parent={run.parent}", artifacts=run.parent, path=playbook, env=env)


def test_a_run_that_passes_shows_its_phases_and_what_it_says(run: Path) -> None:
    done = shown(run)
    assert (done.code, done.output) == (0, "== test\none line\nanother line\n")


def test_the_log_of_the_run_has_every_task_from_the_start_of_the_play_and_all_sessions(run: Path) -> None:
    for session in (1, 2):
        shown(run)
        log = (run / "ansible.log").read_text(encoding="utf-8")
        for text in ("PLAY [", "TASK [Publish the run]", "TASK [Skip this]", "...ignoring", "PLAY RECAP"):
            assert log.count(text) == session, (text, log)
    assert all(line[:2] == "20" for line in log.splitlines() if "TASK [" in line), log


def test_a_failure_is_shown_once_with_its_task_and_what_the_program_said(run: Path) -> None:
    done = shown(run, "-e", "broken=true")
    assert done.code == 2
    lines = done.output.splitlines()
    assert lines[3:5] == ["FAILED: Run a program that fails", "  non-zero return code"]
    assert "/no/such/file" in lines[5] and len(lines) == 6, done.output
    assert "the program failed: non-zero return code" in (run / "ansible.log").read_text(encoding="utf-8")


def test_a_summary_that_could_not_be_made_is_a_failure_like_others(run: Path) -> None:
    done = shown(run, "-e", "gone=true")
    assert done.code == 2
    assert "FAILED: Close a run that is gone\n  /no/such/run" in done.output, done.output


def test_of_a_loop_the_items_that_failed_are_named(run: Path) -> None:
    done = shown(run, "-e", "looped=true")
    assert done.output.splitlines()[3:] == ["FAILED: Check each", "  2: too much", "  3: too much"]


def test_with_verbosity_the_screen_is_that_of_ansible_and_the_log_is_the_same(run: Path) -> None:
    done = shown(run, "-v")
    assert done.code == 0
    for text in ("PLAY [localhost]", "TASK [Skip this]", "skipping: [localhost]", "PLAY RECAP"):
        assert text in done.output, done.output
    log = (run / "ansible.log").read_text(encoding="utf-8")
    assert "TASK [Skip this]" in log and "== test" not in done.output


def test_a_log_that_can_not_be_written_does_not_end_the_run(run: Path) -> None:
    (run / "ansible.log").mkdir()
    done = shown(run)
    assert done.code == 0 and "[WARNING]: no ansible.log in" in done.output and "another line" in done.output
