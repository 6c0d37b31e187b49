"""`nri config-manager` and `nri enable`, with containerd as a unit of a real systemd.

Each file that they write is proven by the daemon that is started on it: a plugin registers at its socket.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import need_tool
from tests.support.systemd_node import SystemdNode
from tests.support.waiting import wait_for
from tools.compiled import ROOT
from tools.runtimes import RELEASES, Installed

pytestmark = pytest.mark.parametrize("key", RELEASES, indirect=True)

NRI = '[plugins."io.containerd.nri.v1.nri"]'
OFF = f"version = 2\n{NRI}\n  disable = true\n"
UNIT = "containerd.service"
SOCKET = "/var/run/nri/nri.sock"
CONFIG = "/etc/containerd/config.toml"
K3S = "/var/lib/rancher/k3s/agent/etc/containerd"
K0S = "/etc/k0s/containerd.toml"
MICROK8S = "/var/snap/microk8s/current/args"
#: As containerd's own unit, for what a restart is.
TEXT = """
[Unit]
DefaultDependencies=no
[Service]
Type=notify
Environment=PATH=/opt/bin:/usr/sbin:/usr/bin
ExecStartPre=/bin/sh {prepare}
ExecStart=/opt/bin/containerd{flags}
Delegate=yes
KillMode=process
"""
#: k3s writes its file anew at each start: it puts its base file in the place of the template's first line.
RENDER = f"""
cd {K3S}
[ ! -e base ] || {{ cat base; sed '1{{/^{{{{ template/d}}' config.toml.tmpl 2>&-; }} > config.toml || :
"""


def version(text: str) -> str:
    return f"version = 2\n{text}"


#: Files of a node before the change, by path. "default" is what `containerd config default` prints.
NODES: dict[str, dict[str, str]] = {
    "no file": {},
    "empty": {CONFIG: ""},
    "default": {CONFIG: "default"},
    "version 1": {CONFIG: "[plugins.cri]\n  enable_selinux = false\n"},
    "line ends": {CONFIG: OFF.replace("\n", "\r\n")},
    "socket": {CONFIG: f'{OFF}  socket_path = "/run/own.sock"\n'},
    "imports": {
        CONFIG: version('imports = ["conf.d/*.toml"]\n'),
        "/etc/containerd/conf.d/10.toml": version('[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "a"\n'),
    },
    "k3s template": {f"{K3S}/config.toml": version(""), f"{K3S}/base": version("")},
    "k3s drop-in": {
        f"{K3S}/config.toml": version(f'imports = ["{K3S}/config.toml.d/*.toml"]\n'),
        f"{K3S}/base": version(f'imports = ["{K3S}/config.toml.d/*.toml"]\n'),
    },
    "k0s": {K0S: version('imports = ["/etc/k0s/containerd.d/*.toml"]\n')},
}
#: The units and main files of the distributions.
DAEMONS = {"k3s": ("k3s.service", f"{K3S}/config.toml"), "k0s": ("k0sworker.service", K0S)}


@pytest.fixture(scope="module")
def booted(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdNode]:
    need_tool("systemd-analyze")
    root = tmp_path_factory.mktemp("node")
    one = SystemdNode(root)
    (root / "opt/bin").mkdir(parents=True)
    shutil.copy(installed.bin / "containerd", root / "opt/bin")
    (root / "opt/bin/render").write_text(RENDER)
    one.unit(UNIT, TEXT.format(prepare="-c true", flags=""))
    for unit, main in DAEMONS.values():
        one.unit(unit, TEXT.format(prepare="/opt/bin/render", flags=f" --config {main}"))
    with one:
        yield one


@pytest.fixture
def node(booted: SystemdNode, monkeypatch: pytest.MonkeyPatch) -> SystemdNode:
    """A node whose containerd runs without NRI, and with nothing of earlier tests."""
    monkeypatch.setenv("PATH", f"/opt/bin:{os.environ['PATH']}")
    clean = f"""
        systemctl stop {" ".join([UNIT, *(unit for unit, _ in DAEMONS.values())])} || :
        rm -rf /etc/systemd/system/{UNIT}.d /etc/containerd /etc/k0s /var/lib/rancher /opt/nri /etc/nri /run/*/nri.sock
        mkdir /etc/containerd
        printf '%s' '{OFF}' > {CONFIG}
        systemctl daemon-reload && systemctl reset-failed && systemctl start {UNIT}
    """
    result = booted.run("sh", "-c", clean)
    assert result.returncode == 0, result.stderr
    return booted


def manage(node: SystemdNode, *options: str, pids: bool = True) -> tuple[int, str, str]:
    result = node.from_pod("config-manager", "--root", str(node.root), "--restart", *options, pids=pids)
    config = node.root / CONFIG[1:]
    return result.returncode, config.read_text() if config.exists() else "", result.stdout + result.stderr


def nri(node: SystemdNode, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `nri` on the node itself."""
    command = f"cd {ROOT}; PYTHONPATH=src exec {shlex.join([sys.executable, '-m', 'nri', *words])}"
    return node.run("sh", "-c", command)


def register_a_plugin(node: SystemdNode, socket: str = SOCKET) -> None:
    """Register a plugin that prints the state which it gets."""
    result = nri(node, "events", "-o", "json", "--socket-path", socket)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("before", NODES)
def test_a_plugin_registers_with_the_daemon_that_starts_on_the_written_file(node: SystemdNode, before: str) -> None:
    assert node.run("systemctl", "stop", UNIT).returncode == 0
    (node.root / CONFIG[1:]).unlink()
    default = node.run("/opt/bin/containerd", "config", "default").stdout
    for path, content in NODES[before].items():
        text = default if content == "default" else content
        # Only the node itself sees its /var/lib.
        write = f"mkdir -p {Path(path).parent}; printf '%s' \"$1\" > {path}"
        assert node.run("sh", "-c", write, "sh", text).returncode == 0
    unit, _ = DAEMONS.get(before.partition(" ")[0], (UNIT, CONFIG))
    started = node.run("systemctl", "start", unit)
    assert started.returncode == 0, started.stderr
    code, _, words = manage(node, "--runtime", "containerd")
    assert code == 0, words
    assert node.show(unit, "ActiveState") == "active"
    socket = "/run/own.sock" if before == "socket" else SOCKET
    register_a_plugin(node, socket)
    assert "nothing to change" in manage(node, "--runtime", "containerd")[2]


def test_the_runtimes_unit_is_restarted_with_nri_only_once(node: SystemdNode) -> None:
    before = node.show(UNIT, "MainPID")
    code, text, words = manage(node)
    assert (code, text) == (0, OFF.replace("true", "false")), words
    after = node.show(UNIT, "MainPID")
    assert after not in ("0", before), words
    wait_for(lambda: node.run("test", "-S", SOCKET).returncode == 0, "NRI's socket")
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


def test_an_enabled_plugin_is_launched_and_one_that_cannot_start_is_refused(node: SystemdNode, key: str) -> None:
    """containerd 1.7 does not start with a plugin that fails, which only the daemon itself shows."""
    logger = f"PYTHONPATH={ROOT}/src exec {sys.executable} -m nri.plugins.logger.plugin"
    for name, command in (("good", logger), ("bad", "exit 3")):
        (node.root / "opt" / name).write_text(f"#!/bin/sh\n{command}\n")
        (node.root / "opt" / name).chmod(0o755)
    refused = nri(node, "enable", "/opt/bad", "--idx", "20")
    assert refused.returncode == 1 and "nothing was written" in refused.stderr, refused.stderr
    enabled = nri(node, "enable", "/opt/good", "--idx", "10")
    assert enabled.returncode == 0 and "NRI is off" in enabled.stderr, enabled.stderr
    assert manage(node)[0] == 0
    wait_for(lambda: node.run("pgrep", "-f", "nri.plugins.logger").returncode == 0, "the launched plugin")
    (node.root / CONFIG[1:]).write_text(OFF)
    forced = nri(node, "enable", "/opt/bad", "--idx", "20", "--no-check")
    assert forced.returncode == 0, forced.stderr
    code, text, words = manage(node)
    assert (code, text) == ((1, OFF) if key == "1.7" else (0, OFF.replace("true", "false"))), words
    assert node.show(UNIT, "ActiveState") == "active"
