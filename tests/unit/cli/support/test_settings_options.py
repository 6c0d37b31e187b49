"""The settings options of engine, agent and proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from nri.cli.errors import Failure
from nri.cli.settings import Settings
from nri.cli.support.settings_options import SettingsOptions
from nri.cli.verbs.agent.agent import AGENT_OPTIONS
from nri.cli.verbs.engine import ENGINE_OPTIONS
from nri.cli.verbs.proxy import PROXY_OPTIONS
from nri.config.settings import LoadedSettings
from nri.errors import ConfigError

PROGRAMS: dict[str, SettingsOptions[Any]] = {"engine": ENGINE_OPTIONS, "agent": AGENT_OPTIONS, "proxy": PROXY_OPTIONS}


def parsed(options: SettingsOptions[Any], *words: str, file: str = "/dev/null") -> dict[str, Any]:
    """What a verb with these options gets from a command line."""
    command = options(click.command()(lambda **argument: argument))
    context = command.make_context("verb", ["--config", file, *words])
    return context.params


def loaded(program: str, *words: str, file: str = "/dev/null", settings: Settings | None = None) -> LoadedSettings[Any]:
    options = PROGRAMS[program]
    return options.load(settings or Settings(), parsed(options, *words, file=file))


@pytest.mark.parametrize(
    ("program", "words", "origins"),
    [
        ("engine", ["--socket", "/s", "--set", "conmon=/c"], {"socket": "--socket", "conmon": "--set"}),
        (
            "agent",
            ["--mode", "nri, standalone,", "--rules", "/r", "--pods", "/p", "--root", "/h", "--agent-socket", "/a"],
            {
                **dict.fromkeys(["modes", "modes[0]", "modes[1]"], "--mode"),
                **dict.fromkeys(["rules.source", "rules.path"], "--rules"),
                **dict.fromkeys(["pods.source", "pods.path"], "--pods"),
                "root": "--root",
                "socket": "--agent-socket",
            },
        ),
        (
            "proxy",
            ["--listen", "/l", "--runtime-endpoint", "/e", "--policy", "/y", "--hook-servers", "/k"],
            {
                "listen": "--listen",
                "runtime_endpoint": "--runtime-endpoint",
                "nri.policy_path": "--policy",
                "hook_servers.enable": "--hook-servers",
                "hook_servers.folder": "--hook-servers",
            },
        ),
    ],
)
def test_each_flag_sets_its_keys_and_is_their_origin(program: str, words: list[str], origins: dict[str, str]) -> None:
    assert loaded(program, *words).origins == origins


@pytest.mark.parametrize("program", PROGRAMS)
def test_precedence_is_set_flags_environment_files(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "nri.socket" if program == "agent" else "nri.socket_path"
    table, _, name = key.partition(".")
    (file := tmp_path / "s.toml").write_text(f'[{table}]\n{name} = "/file"\n')
    assert loaded(program, file=str(file)).origins == {key: f"{file}:2"}
    monkeypatch.setenv("NRI_SOCKET", "/variable")
    assert loaded(program, file=str(file)).origins == {key: "NRI_SOCKET"}
    settings = Settings()
    settings.socket_path, settings.socket_from = "/flag", "--socket-path"
    assert loaded(program, settings=settings).origins == {key: "--socket-path"}
    assert loaded(program, "--set", f"{key}=/set", settings=settings).origins == {key: "--set"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mistake_in_set_is_an_error_with_an_example(program: str) -> None:
    with pytest.raises(ConfigError, match=r"--set: conmon: not KEY=VALUE \(write, for example, --set nri\.\w+=\w+\)"):
        loaded(program, "--set", "conmon")
    with pytest.raises(ConfigError, match=r"--set: nri.indx: unknown key"):
        loaded(program, "--set", "nri.indx=1")


def test_a_string_that_looks_like_a_number_requires_no_quotes() -> None:
    assert loaded("agent", "--set", "nri.index=10").settings.nri.index == "10"


def test_at_a_terminal_lines_of_keys_fit_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    settings = Settings()
    settings.color = "never"
    PROGRAMS["agent"].list_keys(settings, "nri.socket", "nri keys")
    assert capsys.readouterr().out.splitlines() == [
        "nri.socket",
        "    string, default",
        '    "/var/run/nri/nri.sock"',
        "    the runtime's NRI socket.",
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_keys_are_listed_by_prefix(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    PROGRAMS[program].list_keys(Settings(), "nri.", "nri keys")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KEY", "TYPE", "DEFAULT", "MEANING"]
    assert len(lines) > 3
    assert all(line.startswith("nri.") for line in lines[1:])
    with pytest.raises(Failure, match='no key begins with "nix"'):
        PROGRAMS[program].list_keys(Settings(), "nix", "nri keys")
