"""Command lines, configuration snippets and links of pages are correct."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from nri.cli.main import nri as command_line
from nri.cli.settings import Settings
from nri.cli.verbs.run import Run
from nri.stub.program.options import parse
from tests.support.pages import read_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])
SPAN = re.compile(r"`((?:nri|python) [^`]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
OPERATORS = {"|", "||", "&&", ">", "<", ";", "2>/dev/null"}


def shown_commands(page: Path) -> list[str]:
    """Command lines of console blocks, and those between backticks."""
    text = page.read_text(encoding="utf-8")
    commands = SPAN.findall(text)
    for block in read_blocks(page):
        if block.language == "console":
            joined = block.text.replace("\\\n", " ")
            commands += [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("sudo ") for line in commands]


def words_of(line: str) -> list[str]:
    """The words of the first command, without comment and redirections."""
    words = shlex.split(line, comments=True)
    ends = [number for number, word in enumerate(words) if word in OPERATORS or word == "..."]
    return words[: ends[0]] if ends else words


def check_nri(words: list[str]) -> None:
    """Raise UsageError unless click would take these words. Files and values are not looked at."""
    settings = Settings()
    command: click.Command = command_line
    context = click.Context(command, info_name="nri", obj=settings)
    while True:
        if isinstance(command, Run):
            words, _ = command.split(context, words)
        _, remaining, _ = command.make_parser(context).parse_args(list(words))
        if not isinstance(command, click.Group) or not remaining:
            return
        _, verb, words = command.resolve_command(context, remaining)
        assert verb is not None
        context = click.Context(verb, parent=context, obj=settings, **{"info_name": verb.name, **verb.context_settings})
        command = verb


COMMANDS = sorted(
    {
        (page.relative_to(ROOT).as_posix(), line)
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for line in shown_commands(page)
    }
)
NRI = [(page, line) for page, line in COMMANDS if line.startswith("nri ") and "VERB" not in line]
PLUGINS = [(page, line) for page, line in COMMANDS if re.match(r"python \S+\.py\b.*--?idx", line)]


def test_commands_on_pages_have_valid_verbs_and_options() -> None:
    wrong = []
    for page, line in NRI:
        try:
            check_nri(words_of(line)[1:])
        except click.UsageError as error:
            wrong.append(f"{page}: {line}: {error.format_message()}")
    assert len(NRI) > 100
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("page", "line"), PLUGINS)
def test_plugin_starts_on_pages_have_valid_flags(page: str, line: str) -> None:
    words = words_of(line)
    assert parse(words[2:], {}, words[1], "plugin").index, f"{page}: {line}"


def sections_of(text: str) -> list[str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(text)
    return parser.sections()


def documents_of(text: str) -> list[object] | None:
    return [document for document in yaml.safe_load_all(text) if document is not None] or None


LANGUAGES = {"yaml": documents_of, "toml": tomllib.loads, "json": json.loads, "ini": sections_of}
SNIPPETS = [(page, block) for page in PAGES for block in read_blocks(page) if block.language in LANGUAGES]


def test_configurations_on_pages_are_valid() -> None:
    wrong = []
    for page, block in SNIPPETS:
        try:
            assert LANGUAGES[block.language](block.text) is not None, "it is empty"
        except Exception as error:
            wrong.append(f"{page.relative_to(ROOT)}:{block.line}: {error}")
    assert len(SNIPPETS) > 50
    assert not wrong, "\n".join(wrong)


def test_links_lead_to_existing_files() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))
        if not (page.parent / target).exists()
    ]
    assert not missing, "\n".join(missing)
