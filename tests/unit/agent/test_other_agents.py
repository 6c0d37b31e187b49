"""A koordlet on the same node is found by its process name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.koordinator.profile import PROFILE
from nri.agent.other_agents import ForeignAgentError, find, refuse
from nri.host import Root
from tests.support.host_trees import write_files

OTHERS = {"proc/1/comm": "systemd\n", "proc/1/cmdline": "/sbin/init\0", "proc/self/comm": "koordlet\n", "proc/7/": ""}


def test_a_koordlet_is_found_by_its_name_or_its_program(tmp_path: Path) -> None:
    files = {
        "proc/20/comm": "koordlet\n",
        "proc/20/cmdline": "/koordlet\0-v=4\0",
        "proc/5/comm": "main\n",
        "proc/5/cmdline": "/usr/bin/koordlet\0--feature-gates=a\0",
        "proc/6/comm": "grep\n",
        "proc/6/cmdline": "grep\0koordlet\0",
        "proc/8/comm": "koordlet-helper\n",
        "proc/8/cmdline": "/koordlet-helper\0",
    }
    root = write_files(tmp_path, OTHERS | files)
    assert find(root, "koordlet") == [5, 20]
    with pytest.raises(ForeignAgentError, match=r"pid 5, 20.*beside_koordlet") as error:
        refuse(root, PROFILE.foreign)
    assert error.value.pids == [5, 20]


def test_other_processes_are_not_refused(tmp_path: Path) -> None:
    root = write_files(tmp_path, OTHERS)
    assert find(root, "koordlet") == []
    refuse(root, PROFILE.foreign)


def test_processes_of_this_machine_can_be_searched() -> None:
    assert isinstance(find(Root(), "koordlet"), list)


def test_a_process_that_ends_during_the_search_is_ignored(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"proc/9/comm/": ""})  # what can be opened and not read
    assert find(root, "koordlet") == []


@pytest.mark.parametrize("status", ["Uid:\t1000\t1000\t1000\t1000\nNSpid:\t30\n", "Uid:\t0\t0\t0\t0\nNSpid:\t30\t7\n"])
def test_processes_of_users_and_pods_with_the_name_koordlet_are_ignored(tmp_path: Path, status: str) -> None:
    root = write_files(
        tmp_path, OTHERS | {"proc/30/comm": "koordlet\n", "proc/30/status": f"Name:\tkoordlet\n{status}"}
    )
    assert find(root, "koordlet") == []


def test_a_koordlet_of_root_in_the_host_pid_namespace_is_found(tmp_path: Path) -> None:
    status = "Name:\tkoordlet\nUid:\t0\t0\t0\t0\nNSpid:\t30\n"
    root = write_files(tmp_path, OTHERS | {"proc/30/comm": "koordlet\n", "proc/30/status": status})
    assert find(root, "koordlet") == [30]
