"""`nri config`: settings with their places, keys with their meanings."""

from __future__ import annotations

import json
from pathlib import Path


def test_the_settings_in_force_say_where_they_came_from(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text('\nroot = "/r"\n')
    shown = ["config", "show", "--config", str(file), "--socket", "/s", "--set", "nri.disable=true"]
    done = nri(*shown, env={"NRI_ENGINE_LOG_LEVEL": "debug"})
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["KEY", "VALUE", "FROM"],
        ["socket", "/s", "--socket"],
        ["root", "/r", f"{file}:2"],
        ["log_level", "debug", "NRI_ENGINE_LOG_LEVEL"],
        ["nri.disable", "true", "--set"],
    ]
    effective = json.loads(nri(*shown, "--effective", "-o", "json").stdout)
    assert {"key": "nri.disable", "value": True, "from": "--set"} in effective
    assert {"key": "conmon", "value": "conmon", "from": "default"} in effective


def test_mistakes_end_with_2_and_a_line_each(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text("a = 1\nb = 2\n")
    done = nri("config", "show", "--config", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.startswith(f"error: {file}:{number}: ") for number, line in enumerate(done.stderr.splitlines(), 1)]


def test_without_any_source_it_says_so(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text("")
    done = nri("config", "show", "--config", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert "--effective shows them" in done.stderr


def test_notes_on_another_runtimes_file_go_to_standard_error(nri, tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text('{"nri_support": true}')
    done = nri("config", "show", "--config", str(file))
    assert f"{file}:1" in done.stdout
    assert 'an old spelling of the key (write "nri-support")' in done.stderr


def test_keys_are_explained_and_a_wrong_beginning_is_an_error(nri) -> None:
    done = nri("config", "keys", "nri.plugin_request")
    assert done.stdout.split("\n")[1].startswith("nri.plugin_request_timeout  duration  2s")
    assert nri("config", "keys", "sockets").returncode == 2
