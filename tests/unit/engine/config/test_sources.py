"""Settings from files, environment and flags, with their origin."""

from pathlib import Path

import pytest

from nri.config.complaint import single_errors
from nri.engine.config import ENGINE_SETTINGS
from nri.errors import ConfigError

TIMEOUT = (
    'e.toml:3: nri.plugin_request_timeout: "5s " is not a duration '
    "(write a number with a unit, such as 2s, 500ms or 1m30s)"
)
TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'


def test_a_later_source_overrides_and_origins_name_file_variable_or_flag(write) -> None:
    one, two = (
        write("one.toml", 'root = "/1"\nstate = "/1"\n'),
        write("two.toml", '\nstate = "/2"\n[nri]\ndisable = true'),
    )
    loaded = ENGINE_SETTINGS.load(
        one,
        two,
        environment={"NRI_SOCKET": "/nri", "NRI_ENGINE_SOCKET": "/env"},
        flags={"socket": ("--socket", "/flag")},
    )
    settings = loaded.settings
    assert (settings.root, settings.state, settings.socket) == (Path("/1"), Path("/2"), Path("/flag"))
    assert (settings.nri.disable, settings.nri.socket_path) == (True, "/nri")
    assert loaded.origins == {
        "root": "one.toml:1",
        "state": "two.toml:2",
        "nri.disable": "two.toml:4",
        "nri.socket_path": "NRI_SOCKET",
        "socket": "--socket",
    }
    assert loaded.files == ("one.toml", "two.toml")


def test_every_mistake_has_a_position_and_a_suggestion(write) -> None:
    name = write("e.toml", f'sockt = "/s"\n{TABLE}plugin_request_timeout = "5s "\n[images]\nsnapshots = "overlayfs"\n')
    with pytest.raises(ConfigError) as caught:
        ENGINE_SETTINGS.load(name, "none.toml", environment={}, flags={"nri.disabel": ("--set", True)})
    assert sorted(str(entry) for entry in single_errors(caught.value)) == [
        '--set: nri.disabel: unknown key (did you mean "disable"?)',
        'e.toml:1: sockt: unknown key (did you mean "socket"?)',
        TIMEOUT,
        'e.toml:5: images.snapshots: expected one of auto, overlay, copy, not "overlayfs" (did you mean "overlay"?)',
        "none.toml: cannot read it: No such file or directory",
    ]


def test_containerds_table_can_be_pasted_into_our_file(write) -> None:
    name = write("e.toml", f'root = "/r"\n{TABLE}disable = true\n[nri]\ncompat = "reference"\n')
    loaded = ENGINE_SETTINGS.load(name, environment={})
    assert (loaded.settings.nri.disable, loaded.settings.nri.compat, loaded.settings.root) == (
        True,
        "reference",
        Path("/r"),
    )
    assert loaded.origins["nri.disable"] == "e.toml:3"


def test_a_key_in_both_tables_is_an_error(write) -> None:
    name = write("e.toml", f"{TABLE}disable = true\n[nri]\ndisable = false\n")
    with pytest.raises(ConfigError, match=r"e.toml:4: nri.disable: duplicate key \(keep one\)"):
        ENGINE_SETTINGS.load(name, environment={})


def test_a_file_without_suffix_can_begin_with_a_line_of_number_signs(write) -> None:
    name = write("engine", f'{"#" * 200}\nlog_level = "debug"\n')
    assert ENGINE_SETTINGS.load(name, environment={}).origins == {"log_level": "engine:2"}


def test_our_keys_can_be_json(write) -> None:
    assert ENGINE_SETTINGS.load(write("e.json", '{"conmon": "/c"}'), environment={}).origins == {"conmon": "e.json:1"}
