"""The plugins of a trial as the command line names them: index, configuration, program or Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.testing.trial.plugins import TrialPlugin, name_in, shared_indices, trial_plugins


def test_the_index_comes_from_the_option_the_file_name_or_the_position() -> None:
    plugins = trial_plugins(["40=a.py", "70-late.py", "b.py:Pin"], [])
    assert [(one.index, one.target) for one in plugins] == [("40", "a.py"), ("70", "70-late.py"), ("30", "b.py:Pin")]


@pytest.mark.parametrize(
    ("targets", "indices"),
    [
        (["a.py", "10=b.py"], ["11", "10"]),
        (["30=a.py", "b.py", "c.py"], ["30", "20", "31"]),
        (["99=a.py", *["b.py"] * 9, "98=c.py"], ["99", "18", "27", "36", "45", "54", "63", "72", "81", "90", "98"]),
    ],
)
def test_a_plugin_without_an_index_gets_a_free_index(targets: list[str], indices: list[str]) -> None:
    assert [one.index for one in trial_plugins(targets, [])] == indices


def test_a_hundred_plugins_get_an_index_and_one_more_is_an_error() -> None:
    assert len({one.index for one in trial_plugins(["a.py"] * 100, [])}) == 100
    with pytest.raises(ConfigError, match="there are only 100 indices"):
        trial_plugins(["a.py"] * 101, [])


@pytest.mark.parametrize(("target", "index"), [("5=a.py", "5"), ("100=a.py", "100")])
def test_an_index_without_two_digits_is_an_error(target: str, index: str) -> None:
    with pytest.raises(ConfigError) as caught:
        trial_plugins([target], [])
    assert str(caught.value) == f'{target}: invalid plugin index "{index}", must be 2 digits: write NN=a.py'


def test_plugins_with_a_shared_index_are_reported() -> None:
    shared = shared_indices(trial_plugins(["10=a.py", "10-b", "20=c.py"], []))
    assert shared == ["a.py and 10-b share index 10: the order of these plugins is undefined"]


def test_a_configuration_is_passed_to_the_plugin_with_its_index(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("x: 1\n")
    plugins = trial_plugins(["a.py", "b.py"], [f"20={tmp_path}/c.yaml"])
    assert [one.config_text for one in plugins] == ["", "x: 1\n"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("c.yaml", "expected an index and a file"),
        ("99={}", "no plugin has this index. Indices: 10, 20, 20"),
        ("20={}", "more than one plugin has this index"),
    ],
)
def test_a_configuration_without_a_plugin_is_an_error(tmp_path: Path, config: str, reason: str) -> None:
    (tmp_path / "c.yaml").touch()
    with pytest.raises(ConfigError, match=reason):
        trial_plugins(["a.py", "20=b.py", "20=c.py"], [config.format(tmp_path / "c.yaml")])


def test_programs_and_python_files_are_distinguished(tmp_path: Path) -> None:
    program, script = tmp_path / "10-a", tmp_path / "a.py"
    for path in (program, script):
        path.touch(mode=0o755)
    assert TrialPlugin("10", str(program)).is_program
    assert not TrialPlugin("10", str(script)).is_program
    assert not TrialPlugin("10", "module:Class").is_program


@pytest.mark.parametrize(
    ("target", "name"), [("x/10-a.py:Class", "a"), ("10-device-injector", "device-injector"), ("a.py", None)]
)
def test_the_name_is_taken_from_a_file_name_with_an_index(target: str, name: str | None) -> None:
    assert name_in(target) == name
