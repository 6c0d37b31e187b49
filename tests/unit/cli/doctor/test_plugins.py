"""Checks of the plugin folder and its drop-ins."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from nri.cli.doctor import Finding, plugins
from nri.cli.doctor.examination import examine
from nri.cli.settings import Settings
from nri.config.runtimes.reading import RuntimeNri
from tests.unit.cli.conftest import lines


def plugin(root: Path, name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path = root / "opt/nri/plugins" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin/sh").touch()
    return path


def look(root: Path, **settings: object) -> list[str]:
    findings: list[Finding] = []
    plugins.check(str(root), RuntimeNri("containerd", enabled=True, **settings), findings)  # type: ignore[arg-type]
    return lines(findings)


def test_webassembly_is_reported_with_its_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, "10-a", "\0asm\1\0\0\0 #!/gone")
    assert (
        "note: /opt/nri/plugins/10-a: WebAssembly: containerd loads it only if built with WebAssembly support"
        in look(tmp_path)
    )
    findings: list[Finding] = []
    monkeypatch.setitem(sys.modules, "wasmtime", None)  # as if it were not installed
    plugins.check(str(tmp_path), RuntimeNri("nri-engine", enabled=True), findings)
    (problem,) = [finding for finding in findings if finding.level == "problem"]
    assert (problem.what, problem.next) == (
        "WebAssembly: wasmtime is required and not installed",
        "pip install '.[wasm]', in a checkout of nri",
    )


def test_valid_plugins_are_listed(tmp_path: Path) -> None:
    plugin(tmp_path, "20-b")
    plugin(tmp_path, "10-a")
    assert look(tmp_path) == ["ok: /opt/nri/plugins: containerd launches 2 plugins: 10-a, 20-b"]


@pytest.mark.parametrize(
    ("name", "mode", "text", "problem"),
    [
        (
            "bad",
            0o755,
            "#!/bin/sh\n",
            'problem: /opt/nri/plugins/bad: invalid plugin name "bad", idx-pluginname expected',
        ),
        ("1-a", 0o755, "#!/bin/sh\n", 'invalid plugin index "1", must be 2 digits'),
        ("10-a", 0o777, "#!/bin/sh\n", "users other than its owner may write to this file (mode 0777)"),
        ("10-a", 0o775, "#!/bin/sh\n", "users other than its owner may write to this file (mode 0775)"),
        ("10-a", 0o644, "#!/bin/sh\n", "note: /opt/nri/plugins/10-a: not executable, so the runtime ignores it"),
        ("10-a", 0o755, "#!/usr/bin/env python3\n", "searches PATH for its interpreter"),
        ("10-a", 0o755, "#!/gone/python\n", 'its interpreter "/gone/python" does not exist'),
    ],
)
def test_broken_and_unsafe_plugins_are_reported(tmp_path: Path, name: str, mode: int, text: str, problem: str) -> None:
    plugin(tmp_path, name, text, mode)
    assert any(problem in line for line in look(tmp_path)), look(tmp_path)


def test_a_dangling_link_is_reported(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a").with_name("20-b").symlink_to("/gone")
    assert "problem: /opt/nri/plugins/20-b: the target of the link does not exist" in look(tmp_path)


def test_a_pipe_or_a_folder_in_place_of_a_plugin_is_reported_without_blocking(tmp_path: Path) -> None:
    pipe = plugin(tmp_path, "10-a").with_name("20-b")
    os.mkfifo(pipe, 0o755)
    pipe.with_name("30-c").symlink_to("/bin")
    findings = look(tmp_path)
    for name in ("20-b", "30-c"):
        assert f"problem: /opt/nri/plugins/{name}: not a regular file, so it cannot be launched" in findings


def test_a_folder_writable_by_others_is_reported(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a").parent.chmod(0o777)
    assert (
        "problem: /opt/nri/plugins: users other than its owner may add programs to this folder, which run as root"
        in look(tmp_path)
    )


def test_equal_indices_are_a_note(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a")
    plugin(tmp_path, "10-b")
    assert "note: /opt/nri/plugins: a, b share index 10: their order is not defined" in look(tmp_path)


def test_unused_drop_ins_are_reported(tmp_path: Path, put) -> None:
    plugin(tmp_path, "10-a")
    put(
        {
            "/etc/nri/conf.d/10-a.conf": "",
            "/etc/nri/conf.d/a.conf": "",
            "/etc/nri/conf.d/b.conf": "",
            "/etc/nri/conf.d/c.yaml": "",
        }
    )
    findings = look(tmp_path)
    assert (
        "warning: /etc/nri/conf.d/a.conf: ignored: NN-a.conf, which has the index in its name, takes precedence"
        in findings
    )
    assert "note: /etc/nri/conf.d/b.conf: no plugin named b in /opt/nri/plugins reads it" in findings
    assert "note: /etc/nri/conf.d/c.yaml: the name does not end with .conf, so no plugin reads the file" in findings


def test_a_required_plugin_that_is_not_installed_is_a_warning(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a")
    findings = look(tmp_path, required=("a", "10-a", "b"))
    assert [line for line in findings if "required" in line] == [
        'warning: containerd: plugin "b" is required: no container can be created until it is connected'
    ]


NOTE = "/var/run/nri/failed-plugins/10-pin"


def note(error: str, ago_s: float = 0.0) -> str:
    return json.dumps({"error": error, "time": time.time() - ago_s, "pid": 7})


def test_a_failed_plugin_is_a_problem_with_its_error(put) -> None:
    findings: list[Finding] = []
    root = put({NOTE: note("configure failed: KeyError: 'zone'", 130)})
    plugins.check_failed(root, ["/var/run/nri/nri.sock", "/var/run/nri/nri.sock"], findings)
    (finding,) = findings
    assert (finding.level, finding.where) == ("problem", NOTE)
    assert finding.what == "plugin 10-pin failed 2m ago (process 7): configure failed: KeyError: 'zone'"
    assert f"rm {NOTE}" in finding.next


def test_failed_plugins_are_found_beside_each_socket_and_at_the_default_path(put) -> None:
    config = 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\nsocket_path = "/run/k3s/nri.sock"\n'
    files = {"/etc/containerd/config.toml": config, NOTE: note("one"), "/run/k3s/failed-plugins/20-far": note("two")}
    findings = lines(examine(Settings(), put(files)))
    expected = [line for line in findings if "failed" in line]
    assert (
        len(expected) == 2 and any(": one" in line for line in expected) and any(": two" in line for line in expected)
    ), expected
