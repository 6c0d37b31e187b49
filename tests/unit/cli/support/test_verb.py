"""The classes of all verbs: the order of help, and words that are nearly a verb."""

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


def test_help_says_what_it_does_then_shows_examples_usage_and_options() -> None:
    text = help_of(greet)
    parts = ["Greet someone.", "A second paragraph.", "Examples:", "x greet Ada   # politely", "Usage:", "Options:"]
    places = [text.index(part) for part in [*parts, "--loud", "Global options", "--socket-path"]]
    assert places == sorted(places)


def test_a_groups_help_lists_its_verbs_and_ends_with_its_epilog() -> None:
    text = help_of(x)
    assert "Verbs:\n  greet  greet someone" in text
    assert text.endswith("One line.\nAnother.")


def test_a_word_that_is_nearly_a_verb_is_suggested() -> None:
    with pytest.raises(click.UsageError, match='no verb "gret", did you mean greet\\?'):
        x.main(["gret"], obj=Settings(), standalone_mode=False)


def test_a_group_alone_shows_its_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert x.main([], obj=Settings(), standalone_mode=False) == 2
    assert "Examples:" in capsys.readouterr().err


def test_completion_knows_the_verbs_from_their_table() -> None:
    context = click.Context(x, info_name="x", obj=Settings())
    assert [item.value for item in x.shell_complete(context, "gr")] == ["greet"]
    assert "--verbose" in [item.value for item in x.shell_complete(context, "--verb")]
