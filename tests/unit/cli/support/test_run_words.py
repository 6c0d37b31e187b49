"""Whose a word of `nri run` is: the command's, or the plugin's own."""

from __future__ import annotations

import pytest

from nri.cli.support.run_words import split

OPTIONS = {"--idx": True, "-i": True, "--config": True, "--reload": False, "-v": False, "--output": True}
OWN = {"add-env": ("add_env", "NAME", ""), "verbose-level": ("level", "N", ""), "yaml": ("yaml", "", "")}


def of(text: str) -> tuple[str, list[tuple[str, str]]]:
    ours, wanted = split(text.split(), OPTIONS, lambda target: OWN)
    return " ".join(ours), [(one.target, " ".join(one.words)) for one in wanted]


@pytest.mark.parametrize(
    ("words", "ours", "own"),
    [
        ("p --idx 10", "p", "--idx 10"),
        ("--idx 10 p --reload", "--idx 10 p --reload", ""),
        ("p --add-env A --output x", "p --output x", "--add-env A"),
        ("p -add-env=A -yaml --output=x", "p --output=x", "-add-env=A -yaml"),
        ("p -verbose-level 2 -vv", "p -vv", "-verbose-level 2"),
        ("p --unknown", "p", "--unknown"),
        ("p -- --output x", "p", "--output x"),
        ("p --add-env", "p", "--add-env"),
    ],
)
def test_what_the_command_knows_is_its_own_and_all_else_the_plugins(words: str, ours: str, own: str) -> None:
    assert of(words) == (ours, [("p", own)])


def test_a_flag_before_any_plugin_is_the_commands_mistake() -> None:
    assert of("--add-env A p")[0] == "--add-env A p"


def test_behind_each_of_several_plugins_stands_what_is_its_own() -> None:
    ours, wanted = of("-v 10-p --config a.yaml q -i 20 --add-env A --output x r")
    assert ours == "-v 10-p q --output x r"
    assert wanted == [("10-p", "--config a.yaml"), ("q", "-i 20 --add-env A"), ("r", "")]
