"""Single files and keys of a runtime's configuration: read by type, with a remark on what cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config import Source, parse_text
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, Setting
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.reading import Draft, Kind, Remark
from tests.support.memory_tree import MemoryTree

PATH = "/etc/x.toml"


def file_of(text: str) -> ConfigFile:
    source = Source(PATH, text, "toml")
    return ConfigFile(PATH, source, parse_text(source))


def test_a_file_has_its_path_inside_the_root() -> None:
    file = config_file.load(MemoryTree({PATH: b"[a]\nb = 1\n"}), PATH, [])
    assert file is not None
    assert (file.path, file.where("a", "b"), file.at("a", "b")) == (PATH, f"{PATH}:2: a.b", 1)
    assert file.where() == PATH
    assert file.at("a", "b", "c") is None


def test_a_missing_file_is_not_reported() -> None:
    remarks: list[Remark] = []
    assert config_file.load(MemoryTree({}), PATH, remarks) is None
    assert remarks == []


@pytest.mark.parametrize(("content", "kind"), [("a = ", Kind.INVALID), (None, Kind.UNREADABLE)])
def test_an_invalid_file_is_reported(put, tmp_path, content: str | None, kind: Kind) -> None:
    if content is None:
        (tmp_path / PATH[1:]).mkdir(parents=True)
    else:
        put({PATH: content})
    remarks: list[Remark] = []
    assert config_file.load(DiskTree(str(tmp_path)), PATH, remarks) is None
    assert [remark.kind for remark in remarks] == [kind]


@pytest.mark.parametrize(
    ("read", "text", "value", "kinds"),
    [
        (config_file.text, 'k = "a"', "a", []),
        (config_file.text, 'k = ""', None, []),
        (config_file.text, "", None, []),
        (config_file.text, "k = 1", None, [Kind.WRONG_TYPE]),
        (config_file.switch, "k = false", False, []),
        (config_file.switch, "k = 0", None, [Kind.WRONG_TYPE]),
        (config_file.off_switch, "k = false", True, []),
        (config_file.off_switch, "", None, []),
    ],
)
def test_a_key_is_read_by_its_type(read, text: str, value: Any, kinds: list[Kind]) -> None:
    remarks: list[Remark] = []
    assert read(file_of(f"{text}\nother = 1\n"), ("k",), remarks) == value
    assert [remark.kind for remark in remarks] == kinds


def test_missing_settings_keep_the_earlier_ones() -> None:
    settings = (Setting("socket_path", "socket", config_file.text), Setting("enabled", "on", config_file.switch))
    draft = Draft("containerd")
    for text in ('[a]\nsocket = "/s"\non = false\n', "[a]\non = true\n"):
        config_file.apply_settings(draft, file_of(text), ("a",), settings, [])
    nri = draft.finish()
    assert (nri.socket_path, nri.enabled) == ("/s", True)
    assert nri.origin == {"socket": f"{PATH}:2: a.socket", "on": f"{PATH}:2: a.on"}


def test_similar_keys_are_reported() -> None:
    remarks: list[Remark] = []
    file = file_of("[a.b]\nkeyy = 1\n[c]\nkey = 1\n")
    config_file.ignored_keys(file, ("a", "b"), {"key"}, remarks)
    config_file.misplaced_keys(file, ("a", "b"), {"key"}, remarks)
    assert remarks == [
        (Kind.UNKNOWN_KEY, f"{PATH}:2: a.b.keyy", {"key": "keyy", "suggestion": 'did you mean "key"?'}),
        (Kind.MISPLACED, f"{PATH}:4: c.key", {"key": "key", "table": "a.b"}),
    ]


def test_a_table_name_is_written_as_toml() -> None:
    assert config_file.toml_table(("plugins", "io.containerd.nri.v1.nri")) == 'plugins."io.containerd.nri.v1.nri"'
