"""The settings of `nri proxy`: files, environment and flags, the later over the earlier."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.settings import load_settings
from nri.cli.settings import Settings
from nri.cli.support.agent.proxy import KEYS, load
from nri.errors import ConfigError

NOTHING = dict.fromkeys(KEYS) | {"files": (), "given": ()}


def test_files_environment_and_flags_become_settings_the_later_over_the_earlier(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(
        'listen = "/file.sock"\nruntime_endpoint = "/file-runtime.sock"\n[nri]\nplugin_path = "/file/plugins"\n'
    )
    monkeypatch.setenv("NRI_PROXY_CONFIG", str(file))
    settings = Settings()
    settings.socket_path, settings.socket_from = "/nri.sock", "--socket-path"
    given = ("poll_interval=3s", "unsayable=refuse")
    config, files = load(settings, {**NOTHING, "listen": "/flag.sock", "hook_servers": "/hooks", "given": given})
    assert files == (str(file),)
    assert (config.listen, config.runtime_endpoint) == ("/flag.sock", "/file-runtime.sock")
    assert (config.nri.plugin_path, config.nri.socket_path) == ("/file/plugins", "/nri.sock")
    assert (config.poll_interval, config.unsayable) == (3.0, "refuse")
    assert (config.hook_servers.enable, str(config.hook_servers.folder)) == (True, "/hooks")


def test_a_file_that_is_named_counts_instead_of_the_one_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NRI_PROXY_CONFIG", str(tmp_path / "none.toml"))
    file = tmp_path / "proxy.yaml"
    file.write_text("listen: /named.sock\n")
    assert load(Settings(), {**NOTHING, "files": (str(file),)})[0].listen == "/named.sock"


@pytest.mark.parametrize("option", ["listen", "runtime_endpoint", "state"])
def test_flag_key_of_the_proxy_and_key_of_the_agents_proxy_are_one_word(option: str, tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(f'{option} = "/file"\n')
    assert str(getattr(load(Settings(), {**NOTHING, "files": (str(file),)})[0], option)) == "/file"
    assert str(getattr(load(Settings(), {**NOTHING, "files": ("/dev/null",), option: "/flag"})[0], option)) == "/flag"
    loaded = load_settings("/dev/null", flags={f"proxy.{option}": ("--set", "/agent")}, environment={})
    assert str(getattr(loaded.settings.proxy, option)) == "/agent"


def test_a_mistake_names_its_flag() -> None:
    with pytest.raises(ConfigError, match=r'--set: lissen: unknown key \(did you mean "listen"\?\)'):
        load(Settings(), {**NOTHING, "files": ("/dev/null",), "given": ("lissen=/x",)})
