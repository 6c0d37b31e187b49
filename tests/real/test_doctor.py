"""The doctor reads containerd's files as containerd itself does: held against `containerd config dump`."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from nri.config import parse_duration
from nri.config.runtimes import containerd
from tests.real.conftest import Runtime
from tools.runtimes import Installed

TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'

#: Main file and imported file. VERSION becomes the release's own.
CASES = {
    "nothing said": ("version = VERSION\n", ""),
    "switched off": (f"version = VERSION\n{TABLE}disable = true\n", ""),
    "all keys": (
        f"""version = VERSION
{TABLE}
disable = false
disable_connections = true
socket_path = "/s"
plugin_path = "/p"
plugin_config_path = "/c"
plugin_registration_timeout = "7s"
plugin_request_timeout = "1m1s"
""",
        "",
    ),
    "an import switches on": (
        f'version = VERSION\nimports = ["extra/*.toml"]\n{TABLE}disable = true\nplugin_path = "/p"\n',
        f'version = VERSION\n{TABLE}disable = false\nsocket_path = "/s"\n',
    ),
    "an import switches off": (
        f'version = VERSION\nimports = ["extra/a.toml"]\n{TABLE}disable = false\n',
        f"version = VERSION\n{TABLE}disable = true\n",
    ),
    "an import says something else": (
        f'version = VERSION\nimports = ["extra/a.toml"]\n{TABLE}plugin_request_timeout = "3s"\nsocket_path = "/s"\n',
        "version = VERSION\n[timeouts]\n",
    ),
    "no version line": (f'{TABLE}disable = false\nsocket_path = "/s"\n', ""),
    "the old name": ('[plugins.nri]\nsocket_path = "/s"\n', ""),
    "an older file": (f'version = 2\n{TABLE}disable = false\nsocket_path = "/s"\n', ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_doctor_sees_what_containerd_sees(installed: Installed, tmp_path: Path, case: str) -> None:
    main, extra = (text.replace("VERSION", str(installed.release.config_version)) for text in CASES[case])
    folder = tmp_path / "etc/containerd"
    (folder / "extra").mkdir(parents=True)
    (folder / "config.toml").write_text(main)
    if extra:
        (folder / "extra/a.toml").write_text(extra)
    words = [str(installed.bin / "containerd"), "--config", str(folder / "config.toml"), "config", "dump"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    expected = tomllib.loads(result.stdout)["plugins"]["io.containerd.nri.v1.nri"]

    _, observed, remarks = containerd.read(str(tmp_path), installed.version.partition("~")[0].partition("+")[0])
    assert observed is not None
    assert {
        "disable": not observed.enabled,
        "disable_connections": not observed.connections,
        "socket_path": observed.socket_path,
        "plugin_path": observed.plugin_path,
        "plugin_config_path": observed.plugin_config_path,
        "plugin_registration_timeout": observed.registration_timeout_s,
        "plugin_request_timeout": observed.request_timeout_s,
    } == {
        key: parse_duration(value) if key.endswith("timeout") else value
        for key, value in expected.items()
        if key != "default_validator"
    }, remarks


def test_events_shows_a_real_runtimes_state(runtime: Runtime) -> None:
    import json
    import sys

    words = [
        sys.executable,
        "-m",
        "nri",
        "events",
        "-o",
        "json",
        "--socket-path",
        str(runtime.daemon.nri_socket),
    ]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert set(json.loads(result.stdout)) == {"pods", "containers"}
