"""The command line's reference as Markdown, from the verbs themselves: nothing here can be out of date.

`docs/conf.py` puts it into the page `reference/cli`; tests/docs/test_cli_reference.py tries it.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from nri.cli.main import EXIT_CODES, VERBS, nri
from nri.cli.settings import Settings, global_options
from nri.stub.program.options import FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterable


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    """A Markdown table of two columns."""
    lines = [head, ("---", "---"), *((f"`{left}`", prose(right).replace("|", "\\|")) for left, right in rows)]
    return "".join(f"| {left.replace('|', chr(92) + '|')} | {right} |\n" for left, right in lines)


def prose(text: str) -> str:
    """Help text as Markdown: options are code, or their dashes would become one."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"`\1`", inspect.cleandoc(text).replace("\b", ""))


def option_rows(context: click.Context, shared: Iterable[str]) -> list[tuple[str, str]]:
    """Name and help of each option that is not global."""
    own = [option for option in context.command.get_params(context) if isinstance(option, click.Option)]
    found = [option for option in own if option.name not in shared and option.opts != ["--help"]]
    return [record for option in found if (record := option.get_help_record(context))]


def section(name: str, command: click.Command, level: int, shared: tuple[str, ...]) -> str:
    """One verb: what it does, examples, usage, options; then its own verbs."""
    context = click.Context(command, info_name=name, obj=Settings())
    usage = " ".join([name, *command.collect_usage_pieces(context)]).replace("[OPTIONS] ", "")
    out = [f"{'#' * level} {name}\n", f"{prose(command.help or '')}\n"]
    out.append(f"```text\n{usage}\n```\n")
    if rows := option_rows(context, shared):
        out.append(table(("option", "meaning"), rows))
    examples = getattr(command, "examples", ())
    if examples:
        out.append("```console\n" + "".join(f"$ {example}\n" for example in examples) + "```\n")
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                out.append(section(f"{name} {inner}", found, level + 1, shared))
    return "\n".join(out)


def reference() -> str:
    """All verbs, then the options that all of them take, then the exit codes."""
    shared = tuple(str(option.name) for option in global_options())
    context = click.Context(nri, info_name="nri", obj=Settings())
    out = [table(("verb", "does"), [(f"nri {name}", row.summary) for name, row in VERBS.items()])]
    for name in VERBS:
        command = nri.get_command(context, name)
        assert command is not None
        out.append(section(f"nri {name}", command, 2, shared))
    rows = [record for option in global_options() if (record := option.get_help_record(context))]
    out += ["## Options of every verb\n", table(("option", "meaning"), rows), "## Exit codes\n", EXIT_CODES]
    return "\n".join(out)


def plugin_flags() -> str:
    """The flags of a plugin that is started as a program."""
    rows = [(f"--{flag} {value}".strip(), text) for flag, (_, value, text) in FLAGS.items()]
    return table(("flag", "meaning"), rows)
