"""Settings come from files, environment and flags, and each says where it came from."""

from pathlib import Path

import pytest

from nri.engine.config import EngineConfig, load_config, sources
from nri.errors import ConfigError

TIMEOUT = (
    'e.toml:3: nri.plugin_request_timeout: "5s " is not a duration '
    "(write a number with a unit, such as 2s, 500ms or 1m30s)"
)
TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'


def test_a_later_source_wins_and_origins_name_file_and_line_variable_and_flag(write) -> None:
    one, two = (
        write("one.toml", 'root = "/1"\nstate = "/1"\n'),
        write("two.toml", '\nstate = "/2"\n[nri]\ndisable = true'),
    )
    loaded = load_config(
        one,
        two,
        environment={"NRI_SOCKET": "/nri", "NRI_ENGINE_SOCKET": "/env"},
        flags={"socket": ("--socket", "/flag")},
    )
    made = loaded.config
    assert (made.root, made.state, made.socket) == (Path("/1"), Path("/2"), Path("/flag"))
    assert (made.nri.disable, made.nri.socket_path) == (True, "/nri")
    assert loaded.origins == {
        "root": "one.toml:1",
        "state": "two.toml:2",
        "nri.disable": "two.toml:4",
        "nri.socket_path": "NRI_SOCKET",
        "socket": "--socket",
    }
    assert loaded.files == ("one.toml", "two.toml")


def test_without_a_name_the_default_file_is_read_if_it_is_there(write, monkeypatch) -> None:
    monkeypatch.setattr(sources, "DEFAULT_PATH", "engine.toml")
    assert load_config(environment={}).config == EngineConfig()
    write("engine.toml", 'conmon = "/c"')
    write("other.toml", 'conmon = "/o"')
    assert load_config(environment={}).config.conmon == "/c"
    assert load_config(environment={"NRI_ENGINE_CONFIG": "other.toml"}).config.conmon == "/o"


def test_a_named_file_that_is_missing_is_an_error(write) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot read it: No such file"):
        load_config("none.toml", environment={})


def test_every_mistake_of_every_source_is_told_with_place_and_suggestion(write) -> None:
    name = write("e.toml", f'sockt = "/s"\n{TABLE}plugin_request_timeout = "5s "\n[images]\nsnapshots = "overlayfs"\n')
    with pytest.raises(ConfigError) as caught:
        load_config(name, "none.toml", environment={}, flags={"nri.disabel": ("--set", True)})
    assert sorted(str(caught.value).splitlines()) == [
        '--set: nri.disabel: unknown key (did you mean "disable"?)',
        'e.toml:1: sockt: unknown key (did you mean "socket"?)',
        TIMEOUT,
        'e.toml:5: images.snapshots: expected one of auto, overlay, copy, not "overlayfs" (did you mean "overlay"?)',
        "none.toml: cannot read it: No such file or directory",
    ]


def test_containerds_table_may_be_pasted_into_our_own_file(write) -> None:
    name = write("e.toml", f'root = "/r"\n{TABLE}disable = true\n[nri]\ncompat = "reference"\n')
    loaded = load_config(name, environment={})
    assert (loaded.config.nri.disable, loaded.config.nri.compat, loaded.config.root) == (True, "reference", Path("/r"))
    assert loaded.origins["nri.disable"] == "e.toml:3"


def test_a_key_in_both_tables_is_given_twice(write) -> None:
    name = write("e.toml", f"{TABLE}disable = true\n[nri]\ndisable = false\n")
    with pytest.raises(ConfigError, match=r"e.toml:4: nri.disable: the key is given twice \(keep one\)"):
        load_config(name, environment={})


def test_json_of_our_own_keys_is_read_too(write) -> None:
    assert load_config(write("e.json", '{"conmon": "/c"}'), environment={}).origins == {"conmon": "e.json:1"}


def test_a_flag_below_a_value_that_is_no_table_is_an_error(write) -> None:
    with pytest.raises(ConfigError, match='"socket" is a value and no table'):
        load_config(environment={}, flags={"socket": ("--socket", "/s"), "socket.mode": ("--set", 1)})
