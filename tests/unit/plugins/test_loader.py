"""Plugin classes are found in files and modules; mistakes are errors of one line."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri
from nri.errors import ConfigError, NriError
from nri.plugins.loader import load

ONE = "import nri\nclass One(nri.Plugin):\n    pass\n"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Loading adds to the path and to the modules of this process."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def to_file(text: str, name: str = "loader_case.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return to_file


def test_the_only_plugin_class_of_a_file_is_loaded(write) -> None:
    kind = load(write(ONE))
    assert (kind.__name__, kind.__module__) == ("One", "loader_case")
    assert issubclass(kind, nri.Plugin)


def test_the_most_derived_class_is_loaded_unless_another_is_named(write) -> None:
    path = write(ONE + "class Two(One):\n    pass\n")
    assert load(path).__name__ == "Two"
    assert load(f"{path}:One").__name__ == "One"


def test_imported_classes_are_ignored(write) -> None:
    write(ONE, "loader_base.py")
    path = write("from loader_base import One\nclass Three(One):\n    pass\n")
    assert load(path).__name__ == "Three"


def test_a_module_is_found_from_the_current_folder(write) -> None:
    write(ONE, "loader_module.py")
    assert load("loader_module:One").__module__ == "loader_module"


def test_a_file_with_dashes_is_a_module_with_underscores(write) -> None:
    assert load(write(ONE, "10-loader-case.py")).__module__ == "10_loader_case"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = (\n", "loader_case.py:1: "),
        ("\nraise ValueError('no')\n", "loader_case.py:2: ValueError: no"),
        ("x = 1\n", "no class that inherits from nri.Plugin"),
        (ONE + "class Two(nri.Plugin):\n    pass\n", "several plugin classes: One, Two. Choose a class: "),
    ],
)
def test_a_mistake_is_an_error_with_its_line(write, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(text))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("gone.py", "gone.py: no such file"),
        (".", ".: a folder, not a file"),
        ("no_such_module:X", "no_such_module: neither a file nor a module of this name exists"),
        ("json:JSONDecoder", "json: JSONDecoder is not a plugin class: it must inherit"),
    ],
)
def test_a_missing_target_is_an_error_with_its_name(target: str, reason: str) -> None:
    with pytest.raises(NriError) as caught:
        load(target)
    assert reason in str(caught.value)


@pytest.mark.parametrize("beginning", ["", "./"], ids=["by its name", "by its path"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_target_that_is_not_a_regular_file_is_an_error_with_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, beginning: str
) -> None:
    monkeypatch.chdir(tmp_path)
    listening = socket.socket(socket.AF_UNIX)
    make = {
        "pipe": lambda: os.mkfifo(kind),
        "socket": lambda: listening.bind(kind),
        "device": lambda: os.symlink("/dev/zero", kind),
    }
    make[kind]()
    with pytest.raises(NriError) as caught:
        load(beginning + kind)
    listening.close()
    assert str(caught.value) == f"{beginning}{kind}: a {kind}, not a file"


def test_an_empty_target_is_an_error() -> None:
    with pytest.raises(NriError, match=r'^"": no file, module or plugin of this name exists'):
        load("")
