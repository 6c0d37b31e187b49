"""`nri doctor` on copies of /etc and on test sockets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.conftest import command, environment

NRI_TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'
CONFIG = "/etc/containerd/config.toml"


def test_a_healthy_node_exits_with_0(nri, folder: Path, put) -> None:
    (folder / "etc/containerd").mkdir(parents=True)
    (folder / "etc/containerd/config.toml").write_text("version = 3\n")
    (folder / "var/run/nri").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "var/run/nri/nri.sock"))
        listener.listen()
        os.chmod(folder / "var/run/nri/nri.sock", 0o600)
        result = nri("doctor", "--root", str(folder))
    assert result.returncode == 0, result.stdout
    assert result.stdout.endswith("no problems\n")


def test_another_runtime_is_judged_only_by_its_socket(nri, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "my.sock"))
        listener.listen()
        os.chmod(folder / "my.sock", 0o600)
        (folder / "root").mkdir()
        result = nri("doctor", "--root", str(folder), "--socket-path", "/my.sock")
    assert result.returncode == 0, result.stdout
    assert f"(process {os.getpid()}) listens" in result.stdout, "whether it is a runtime is not known"


def test_a_node_with_a_problem_exits_with_1_and_the_next_step(nri, put) -> None:
    root = put({CONFIG: f"version = 2\n{NRI_TABLE}disable = true\n"})
    result = nri("doctor", "--root", root)
    assert result.returncode == 1
    where = f'{CONFIG}:3: plugins."io.containerd.nri.v1.nri".disable'
    assert f"problem  {where}: NRI is off in containerd\n" in result.stdout
    assert '-> set disable = false in [plugins."io.containerd.nri.v1.nri"] and restart containerd' in result.stdout
    document = json.loads(nri("doctor", "--root", root, "-o", "json").stdout)
    assert {"level", "what", "where", "next"} == set(document[0])
    assert nri("doctor", "--root", root, "-q").stdout.count("\n") == 2, "quiet shows problems only"


def test_the_doctor_reports_the_origin_of_the_socket_path(nri, put) -> None:
    root = put({CONFIG: "version = 3\n"})
    result = nri("doctor", "--root", root, env={"NRI_SOCKET": "/env.sock"})
    assert (
        "NRI_SOCKET: no runtime is configured to listen on /env.sock; configured: /var/run/nri/nri.sock"
        in result.stdout
    )
    assert "NRI_SOCKET: plugins and nri use /env.sock" in result.stdout
    assert (
        "--socket-path: plugins and nri use /flag.sock"
        in nri("doctor", "--root", root, "--socket-path", "/flag.sock").stdout
    )


def test_the_pure_python_back_end_is_a_problem(put) -> None:
    env = environment(PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")  # counts where protobuf is loaded
    words = command("doctor", "--root", put({CONFIG: "version = 3\n"}))
    result = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert "problem  protobuf: protobuf runs on its pure-Python back end" in result.stdout


def test_a_release_and_a_file_can_be_given(nri, folder: Path) -> None:
    path = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    (folder / path[1:]).parent.mkdir(parents=True)
    (folder / path[1:]).write_text(f"version = 2\n{NRI_TABLE}disable = true\n")
    words = ("doctor", "--root", str(folder), "--release", "v1.7.26-k3s1")
    shown = nri(*words).stdout
    assert f"{path}:3" in shown and "NRI is off in containerd" in shown
    assert f"change its template with nri config-manager --file {path}" in shown
    (folder / "own.toml").write_text("version = 3\n")
    assert "version 3, but this release" in nri(*words, "--file", "/own.toml").stdout
    wrong = nri("doctor", "--release", "newest")
    assert (wrong.returncode, "is not a version" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("config-v3.toml.tmpl", "--file: config-v3.toml.tmpl is a template; specify the file that is generated"),
        ("daemon.json", "--file: daemon.json is a file of iSulad or Docker Engine, but --file is for containerd"),
        ("crio.conf", "--file: crio.conf is a file of CRI-O, but --file is for containerd; omit --file, and specify"),
    ],
)
def test_a_file_that_containerd_does_not_read_is_refused(nri, name: str, error: str) -> None:
    result = nri("doctor", "--file", f"/etc/other/{name}")
    assert (result.returncode, error in result.stderr.replace("\n", " ")) == (2, True), result.stderr


def test_a_setting_with_a_problem_is_not_also_reported_as_ok(nri, put) -> None:
    root = put({"/etc/crio/crio.conf": '[crio.nri]\nenable_nri = "true"\n'})
    output = nri("doctor", "--root", root).stdout
    assert "problem  /etc/crio/crio.conf:2: crio.nri.enable_nri: must be true or false" in output
    assert "enable_nri: NRI is on" not in output
