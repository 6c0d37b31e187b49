"""`nri config-manager --restart` and the chart's `patchConfig`, with containerd as a unit of a real systemd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import need_tool
from tests.support.systemd_node import SystemdNode
from tests.support.waiting import wait_for
from tools.runtimes import Installed

OFF = 'version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = true\n'
UNIT = "containerd.service"
#: As containerd's own unit, for what a restart is.
TEXT = """
[Unit]
DefaultDependencies=no
[Service]
Type=notify
ExecStart=/opt/bin/containerd
Delegate=yes
KillMode=process
"""


@pytest.fixture
def node(installed: Installed, tmp_path: Path) -> Iterator[SystemdNode]:
    need_tool("systemd-analyze")
    one = SystemdNode(tmp_path)
    (tmp_path / "opt/bin").mkdir(parents=True)
    shutil.copy(installed.bin / "containerd", tmp_path / "opt/bin")
    (tmp_path / "etc/containerd").mkdir()
    (tmp_path / "etc/containerd/config.toml").write_text(OFF)
    one.unit(UNIT, TEXT)
    with one:
        result = one.run("systemctl", "start", UNIT)
        assert result.returncode == 0, result.stderr
        yield one


def manage(node: SystemdNode, pids: bool = True) -> tuple[int, str, str]:
    result = node.from_pod("config-manager", "--root", str(node.root), "--restart", pids=pids)
    return result.returncode, (node.root / "etc/containerd/config.toml").read_text(), result.stdout + result.stderr


def test_the_runtimes_unit_is_restarted_with_nri_only_once(node: SystemdNode) -> None:
    before = node.show(UNIT, "MainPID")
    code, text, words = manage(node)
    assert (code, text) == (0, OFF.replace("true", "false")), words
    after = node.show(UNIT, "MainPID")
    assert after not in ("0", before), words
    wait_for(lambda: node.run("test", "-S", "/var/run/nri/nri.sock").returncode == 0, "NRI's socket")
    assert manage(node)[0] == 0 and node.show(UNIT, "MainPID") == after


def test_without_an_answer_of_systemctl_nothing_is_changed(node: SystemdNode) -> None:
    before = node.show(UNIT, "MainPID")
    code, text, words = manage(node, pids=False)
    assert (code, text, node.show(UNIT, "MainPID")) == (1, OFF, before)
    assert "in a pod, set hostPID: true" in words


def test_a_runtime_that_fails_to_start_with_nri_is_restarted_without_it(node: SystemdNode) -> None:
    node.unit(f"{UNIT}.d/refuse.conf", "[Service]\nExecStartPre=/bin/grep -q true /etc/containerd/config.toml\n")
    assert node.run("systemctl", "daemon-reload").returncode == 0
    code, text, words = manage(node)
    assert (code, text) == (1, OFF) and "was started with it" in words
    assert node.show(UNIT, "ActiveState") == "active"
