"""The doctor detects the engine of this project by its file or its socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.cli.doctor import Finding, engine, runtimes
from nri.engine import config

PATH = "/etc/nri/engine.toml"


def test_without_file_and_socket_there_is_no_engine(put) -> None:
    findings: list[Finding] = []
    assert engine.read(put({"/etc/hosts": ""}), findings) is None
    assert findings == []


def test_engine_settings_are_checked_like_those_of_other_runtimes(put) -> None:
    findings: list[Finding] = []
    text = '[nri]\ndisable_connections = true\n[nri.default_validator]\nenable = true\nrequired_plugins = ["a"]\n'
    nri_settings = engine.read(put({PATH: text}), findings)
    assert nri_settings is not None
    assert (nri_settings.enabled, nri_settings.required) == (True, ("a",))
    runtimes.check([nri_settings], findings)
    assert [(one.level, one.where) for one in findings] == [
        ("ok", f"{PATH}: disable"),
        ("problem", f"{PATH}:2: nri.disable_connections"),
    ]


def test_mistakes_in_the_engines_file_are_problems_with_line_and_suggestion(put) -> None:
    findings: list[Finding] = []
    assert engine.read(put({PATH: 'sockt = "/s"\n[nri]\ndisabel = true\n'}), findings) is None
    assert [(one.level, one.what, one.where, one.next) for one in findings] == [
        ("problem", "unknown key", f"{PATH}:1: sockt", 'did you mean "socket"?'),
        ("problem", "unknown key", f"{PATH}:3: nri.disabel", 'did you mean "disable"?'),
    ]


def test_an_engine_without_a_file_is_detected_by_its_socket_below_the_root(
    put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_file = tmp_path / "local.toml"
    local_file.write_text("[nri]\ndisable = true\n")
    root = put({"/run/nri-engine/engine.sock": ""})
    monkeypatch.setattr(config, "ENGINE_SETTINGS", replace(config.ENGINE_SETTINGS, default_path=str(local_file)))
    nri_settings = engine.read(root, [])
    assert nri_settings is not None
    assert (nri_settings.name, nri_settings.socket_path) == ("nri-engine", "/var/run/nri/nri.sock")
    assert nri_settings.enabled, "a file of this machine was read, which is not below the root"
    assert Path(root).exists()
