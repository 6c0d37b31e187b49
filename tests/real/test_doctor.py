"""The doctor reads containerd's files like containerd: compared with `containerd config dump`."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from random import Random

import pytest

from nri.config import parse_duration
from nri.config.runtimes import containerd
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.reading import Kind, RuntimeNri
from tests.real.conftest import Runtime
from tests.support.containerd_files import draw_files
from tools.runtimes import RELEASES, Installed

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
    "an import has other values": (
        f'version = VERSION\nimports = ["extra/a.toml"]\n{TABLE}plugin_request_timeout = "3s"\nsocket_path = "/s"\n',
        "version = VERSION\n[timeouts]\n",
    ),
    "no version line": (f'{TABLE}disable = false\nsocket_path = "/s"\n', ""),
    "the old name": ('[plugins.nri]\nsocket_path = "/s"\n', ""),
    "an older file": (f'version = 2\n{TABLE}disable = false\nsocket_path = "/s"\n', ""),
}


def dump(installed: Installed, folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Write files, and let containerd print what it makes of them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [str(installed.bin / "containerd"), "--config", str(folder / "config.toml"), "config", "dump"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def settings_of(nri: RuntimeNri) -> dict[str, object]:
    return {
        "disable": not nri.enabled,
        "disable_connections": not nri.connections,
        "socket_path": nri.socket_path,
        "plugin_path": nri.plugin_path,
        "plugin_config_path": nri.plugin_config_path,
        "plugin_registration_timeout": nri.registration_timeout_s,
        "plugin_request_timeout": nri.request_timeout_s,
    }


def settings_of_dump(table: dict[str, str]) -> dict[str, object]:
    """NRI's table as containerd prints it; an empty value means the default, and so it is here."""
    defaults = settings_of(RuntimeNri("containerd"))
    seconds = {key: parse_duration(value) for key, value in table.items() if key.endswith("timeout")}
    values = {key: value for key, value in {**table, **seconds}.items() if key != "default_validator"}
    return {key: defaults[key] if value in ("", 0.0) and value is not False else value for key, value in values.items()}


@pytest.mark.parametrize("key", RELEASES, indirect=True)
@pytest.mark.parametrize("case", CASES)
def test_the_doctor_reads_the_same_configuration_as_containerd(installed: Installed, tmp_path: Path, case: str) -> None:
    main, extra = (text.replace("VERSION", str(installed.release.config_version)) for text in CASES[case])
    files = {"config.toml": main} | ({"extra/a.toml": extra} if extra else {})
    process = dump(installed, tmp_path / "etc/containerd", files)
    assert process.returncode == 0, process.stderr
    expected = tomllib.loads(process.stdout)["plugins"][containerd.PLUGIN]
    reading = containerd.read(str(tmp_path), installed.version)
    assert reading.nri is not None
    assert settings_of(reading.nri) == settings_of_dump(expected), reading.remarks


@pytest.mark.parametrize("key", RELEASES, indirect=True)
@pytest.mark.parametrize("seed", range(5))
def test_the_doctor_agrees_with_containerd_about_random_files(installed: Installed, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rules = containerd.rules_of(installed.version)
    assert rules is not None
    for number in range(12):
        root = tmp_path / str(number)
        files = draw_files(random)
        # The release's own paths: a drop-in may be named by its absolute path.
        files["config.toml"] = files["config.toml"].replace("/etc/containerd", f"{root}/etc/containerd")
        process = dump(installed, root / "etc/containerd", files)
        verdict = containerd.judge(DiskTree("/"), rules, f"{root}/etc/containerd/config.toml")
        if verdict.failure is not None and verdict.failure.kind is Kind.REQUIRED:
            continue  # the dump does not look at it
        assert (process.returncode == 0) == (verdict.failure is None), (files, process.stderr, verdict.failure)
        if verdict.failure is None and verdict.table_name not in verdict.disabled_plugins:
            table = tomllib.loads(process.stdout)["plugins"][containerd.PLUGIN]
            assert settings_of(verdict.nri) == settings_of_dump(table), files


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
