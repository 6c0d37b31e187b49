"""All checks together, in order."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nri.cli.doctor import examination
from nri.cli.doctor.examination import examine
from nri.cli.settings import Settings
from nri.cli.support.versions import versions
from nri.config.runtimes import release
from tests.unit.cli.conftest import lines

CONFIG = "/etc/containerd/config.toml"


def test_configuration_comes_before_sockets_plugins_and_python(put) -> None:
    root = put({CONFIG: "version = 3\n", "/opt/nri/plugins/10-a": ""})
    findings = lines(examine(Settings(), root))
    places = [line.split(": ")[1] for line in findings]
    assert places == [
        CONFIG, CONFIG, "/var/run/nri/nri.sock", "/opt/nri/plugins/10-a", "/opt/nri/plugins", "python", "protobuf",
    ]  # fmt: skip


def test_remarks_about_files_come_first(put) -> None:
    root = put({CONFIG: "version = 3\nimports = 1\n", "/etc/crio/crio.conf": "[crio]\n"})
    findings = lines(examine(Settings(), root))
    effect = "containerd does not start with it"
    assert findings[0] == f"problem: {CONFIG}:2: imports: must be a list of strings, not 1: {effect}"
    assert (
        "note: /etc/crio/crio.conf: enable_nri is not set: NRI is enabled by default, but disabled in old releases"
        in findings
    )


def test_a_folder_shared_by_two_runtimes_is_checked_once(put) -> None:
    root = put({CONFIG: "version = 3\n", "/etc/crio/crio.conf": "[crio.nri]\nenable_nri = true\n"})
    findings = lines(examine(Settings(), root))
    assert [line for line in findings if "launches" in line] == ["ok: /opt/nri/plugins: containerd launches no plugins"]


def test_with_nri_off_the_socket_and_plugins_of_a_runtime_are_not_checked(put) -> None:
    findings = lines(examine(Settings(), put({"/etc/isulad/daemon.json": "{}"})))
    assert not any("nri.sock" in line or "launches" in line for line in findings)


def test_a_given_socket_is_the_only_one_checked(put) -> None:
    settings = Settings()
    settings.socket_path, settings.socket_from = "/my.sock", "NRI_SOCKET"
    findings = lines(examine(settings, put({CONFIG: "version = 3\n"})))
    assert "note: NRI_SOCKET: plugins and nri use /my.sock" in findings
    assert "problem: /my.sock: the socket does not exist" in findings
    assert not any("/var/run/nri/nri.sock: the socket does not exist" in line for line in findings)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1", "problem: {}: containerd 1.6.20~ds1 has no NRI"),
        ("containerd github.com/containerd/containerd/v2 v2.1.9 x", "ok: {}: containerd 2.1.9"),
    ],
)
def test_the_version_of_the_installed_containerd_is_queried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, line: str
) -> None:
    program = tmp_path / "containerd"
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(release, "running_daemons", lambda name: ())  # tests of real runtimes may run meanwhile
    assert line.format(program) in lines(examine(Settings(), "/"))


def test_the_versions_for_a_bug_report_are_shown() -> None:
    findings = lines(examine(Settings(), "/"))
    assert any(f"nri {versions()['nri']}, NRI release v" in line for line in findings)


@pytest.mark.parametrize(
    ("back_end", "line"),
    [
        ("python", "problem: protobuf: protobuf runs on its pure-Python back end, about 100 times slower"),
        ("upb", "ok: protobuf: protobuf runs on its upb back end"),
    ],
)
def test_the_back_end_of_protobuf_is_checked(monkeypatch: pytest.MonkeyPatch, back_end: str, line: str) -> None:
    monkeypatch.setattr(examination, "versions", lambda: {**versions(), "protobuf_backend": back_end})
    assert line in lines(examine(Settings(), "/"))


KUBELET_STATE = "/var/lib/kubelet/cpu_manager_state"


def of_kubelet(root: str) -> list[str]:
    return [line for line in lines(examine(Settings(), root)) if "kubelet" in line]


def test_a_cpu_manager_is_a_note_and_beside_a_pinning_plugin_a_warning(put) -> None:
    root = put({KUBELET_STATE: '{"policyName": "static"}'})
    pins = "the kubelet's CPU manager pins containers (policy static)"
    assert of_kubelet(root) == [f"note: {KUBELET_STATE}: {pins}"]
    put({"/var/lib/nri/placement/balloons.json": "{}"})
    assert of_kubelet(root) == [
        f"warning: {KUBELET_STATE}: {pins}, and so does balloons: each overwrites the settings of the other"
    ]
    put({KUBELET_STATE: '{"policyName": "none"}'})
    assert of_kubelet(root) == []
