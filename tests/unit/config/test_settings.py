"""Settings from files, environment and flags, with positions; all mistakes are reported together."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nri.config.complaint import single_errors
from nri.config.settings import FileLayer, LoadedSettings, SettingsLoader, file_layer, parse_setting, value_layer
from nri.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        size: how big.
        name: how called.
    """

    size: int = 1
    name: str = "it"


@dataclass(frozen=True, slots=True)
class Root:
    """All settings.

    Attributes:
        socket: where.
    """

    socket: str = "/default"
    table: Table = field(default_factory=Table)


@pytest.fixture
def loader(tmp_path: Path) -> SettingsLoader[Root]:
    return SettingsLoader(Root, str(tmp_path / "default.toml"), "FILE", {"SOCKET": "socket", "NAME": "table.name"})


def test_later_sources_override_earlier_ones_and_values_have_positions(
    loader: SettingsLoader[Root], tmp_path: Path
) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.yaml"
    one.write_text('socket = "/one"\n[table]\nsize = 2\nname = "one"\n')
    two.write_text("table:\n  name: two\n")
    flags = {"table.size": ("--size", 4)}
    loaded = loader.load(one, two, flags=flags, environment={"SOCKET": "/variable", "NAME": ""})
    assert loaded.settings == Root("/variable", Table(4, "two"))
    assert loaded.origins == {"socket": "SOCKET", "table.size": "--size", "table.name": f"{two}:2"}
    assert loaded.files == (str(one), str(two))


def test_environment_or_flag_can_name_another_file(loader: SettingsLoader[Root], tmp_path: Path) -> None:
    assert loader.load(environment={}) == LoadedSettings(Root(), {}, ())
    (default := Path(loader.default_path)).write_text('socket = "/d"')
    (other := tmp_path / "other.conf").write_text('socket = "/o"')
    assert loader.load(environment={}).files == (str(default),)
    assert loader.load(environment={"FILE": str(other)}).settings.socket == "/o"
    assert loader.load(default, environment={"FILE": str(other)}).settings.socket == "/d"


def test_mistakes_of_all_sources_and_unreadable_files_are_reported(
    loader: SettingsLoader[Root], tmp_path: Path
) -> None:
    (bad := tmp_path / "bad.toml").write_text("[table\n")
    (wrong := tmp_path / "wrong.toml").write_text('sockt = "/s"\n[table]\nsize = "2"\n')
    with pytest.raises(ConfigError) as caught:
        loader.load("none.toml", bad, wrong, flags={"table.nam": ("--set", 1)}, environment={"SOCKET": "/s"})
    lines = [str(error) for error in single_errors(caught.value)]
    assert lines[0] == "none.toml: cannot read it: No such file or directory"
    assert lines[1].startswith(f"{bad}:1: not valid TOML")
    assert lines[2:] == [
        f'{wrong}:1: sockt: unknown key (did you mean "socket"?)',
        f'{wrong}:3: table.size: expected a whole number, not "2" (write it without quotes: 2)',
        '--set: table.nam: unknown key (did you mean "name"?)',
    ]


def test_one_invalid_file_is_an_error(loader: SettingsLoader[Root], tmp_path: Path) -> None:
    (bad := tmp_path / "bad.toml").write_text("[table\n")
    with pytest.raises(ConfigError, match=r"bad.toml:1"):
        loader.load(bad, flags={"socket": ("--socket", "/s")}, environment={})


def test_a_program_can_read_foreign_files_and_add_notes(tmp_path: Path) -> None:
    def noted(name: str) -> FileLayer:
        return FileLayer(file_layer(name).layer, [f"{name} is old"])

    path = tmp_path / "a.toml"
    path.write_text('socket = "/a"')
    loader = SettingsLoader(Root, "", "FILE", read_layer=noted)
    assert loader.load(path, environment={}).notes == (f"{path} is old",)


def test_keys_have_default_and_description(loader: SettingsLoader[Root]) -> None:
    assert [tuple(key) for key in loader.known_keys()] == [
        ("socket", "string", '"/default"', "where.", False),
        ("table.size", "integer", "1", "how big.", False),
        ("table.name", "string", '"it"', "how called.", False),
    ]


def test_a_value_of_set_is_toml_or_text() -> None:
    assert parse_setting("nri.disable=true", "a=1") == ("nri.disable", True)
    assert parse_setting("nri.allowed_uids=[1, 2]", "a=1") == ("nri.allowed_uids", [1, 2])
    assert parse_setting("socket=/run/x=y.sock", "a=1") == ("socket", "/run/x=y.sock")
    assert parse_setting("socket=" + "[" * 5000, "a=1") == ("socket", "[" * 5000)
    for value in ("10", "00", "1.5", "true", "8080"):
        assert parse_setting(f"nri.index = {value}", "a=1", {"nri.index"}) == ("nri.index", value)
    assert parse_setting('nri.index="10"', "a=1", {"nri.index"}) == ("nri.index", "10")
    with pytest.raises(ConfigError, match=r"not KEY=VALUE \(write, for example, --set a=1\)"):
        parse_setting("socket", "a=1")


def test_a_value_of_a_flag_has_the_flag_as_its_position() -> None:
    layer = value_layer({"a.b": ("--one", [1]), "c": ("TWO", 2)})
    assert layer.tree == {"a": {"b": [1]}, "c": 2}
    assert layer.place(("a", "b", 0)) == "--one"
    assert layer.place(("c",)) == "TWO"
    assert layer.place(("a",)) == "--one", "of a table, those that set keys of it"
    assert layer.place(("d",)) == layer.place(()) == "--one, TWO"


@pytest.mark.parametrize(
    ("keys", "reason"), [(("a", "a.b"), '"a" is a value, not a table'), (("a.b", "a"), 'other keys of the table "a"')]
)
def test_a_key_that_is_a_value_and_a_table_is_an_error_in_either_order(keys: tuple[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        value_layer(dict.fromkeys(keys, ("--set", 1)))
