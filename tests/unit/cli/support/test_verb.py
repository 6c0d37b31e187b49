"""The classes of all verbs: the order of help, and suggestions."""

from __future__ import annotations

import click
import pytest

from nri.cli.settings import Settings
from nri.cli.support.verb import Verb, VerbGroup


@click.group(cls=VerbGroup, examples=["x greet Ada"], epilog="One line.\nAnother.")
def x() -> None:
    """Do things."""


@x.command(cls=Verb, examples=["x greet Ada   # politely"])
@click.argument("name")
@click.option("--loud", is_flag=True, help="Shout.")
def greet(name: str, loud: bool) -> None:
    """Greet someone.

    A second paragraph.
    """


def help_of(command: click.Command) -> str:
    return command.get_help(click.Context(command, info_name="x", obj=Settings()))


def test_help_has_description_examples_usage_and_options() -> None:
    text = help_of(greet)
    parts = ["Greet someone.", "A second paragraph.", "Examples:", "x greet Ada   # politely", "Usage:", "Options:"]
    places = [text.index(part) for part in [*parts, "--loud", "Global options", "--socket-path"]]
    assert places == sorted(places)


def test_a_groups_help_lists_its_verbs_and_ends_with_its_epilog() -> None:
    text = help_of(x)
    assert "Verbs:\n  greet  greet someone" in text
    assert text.endswith("One line.\nAnother.")


@x.group("list", cls=VerbGroup)
def list_() -> None:
    """List things."""


@list_.command("people", cls=Verb)
def people() -> None:
    """List people."""


@x.group(cls=VerbGroup)
def show() -> None:
    """Show things."""


show.add_command(people)


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["gret"], ", did you mean x greet?"),
        (["people"], ", did you mean x list people or x show people?"),
        (["peopel"], ", did you mean x list people?"),
        (["list", "greet"], ", did you mean x greet?"),
        (["list", "peopel"], ", did you mean x list people?"),
        (["zzz"], ""),
    ],
)  # fmt: skip
def test_an_unknown_verb_is_searched_in_all_groups(words: list[str], suggestion: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        x.main(words, prog_name="x", obj=Settings(), standalone_mode=False)
    assert caught.value.message == f'no verb "{words[-1]}"{suggestion}'


def test_a_group_alone_shows_its_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert x.main([], obj=Settings(), standalone_mode=False) == 2
    assert "Examples:" in capsys.readouterr().err


def test_completion_lists_the_verbs_of_the_table() -> None:
    context = click.Context(x, info_name="x", obj=Settings())
    assert [item.value for item in x.shell_complete(context, "gr")] == ["greet"]
    assert "--verbose" in [item.value for item in x.shell_complete(context, "--verb")]


def test_an_option_without_a_value_names_the_verbs_help(nri) -> None:
    result = nri("engine", "serve", "--dry")
    assert (result.returncode, result.stderr.splitlines()[-1]) == (
        2, "error: option '--dry' requires an argument. try: nri engine serve --help",
    )  # fmt: skip
