"""The classes of all verbs: help in the order in which it is needed, examples first, and the global options.

Rules: only click is imported at the top, for `nri --help` has to start fast. Next: `nri.cli.settings` has the options.
"""

from __future__ import annotations

import difflib
import shutil
from typing import TYPE_CHECKING, Any

import click

from nri.cli.settings import global_options

if TYPE_CHECKING:
    from collections.abc import Sequence


def _context(more: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a verb for click, by which -h is help as well."""
    return {**more, "context_settings": {"help_option_names": ["-h", "--help"], **more.get("context_settings", {})}}


class _Helpful(click.Command):
    """Help in the order in which it is needed: what it does, examples, usage, options, global options."""

    examples: Sequence[str] = ()
    shared: Sequence[click.Option] = ()

    def get_help(self, ctx: click.Context) -> str:
        formatter = click.HelpFormatter(width=min(shutil.get_terminal_size().columns, 100))
        self.format_help(ctx, formatter)
        return formatter.getvalue().rstrip("\n")

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for number, paragraph in enumerate((self.help or "").split("\n\n")):
            if number:
                formatter.write_paragraph()
            formatter.write_text(" ".join(paragraph.split()))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [each for each in self.get_params(ctx) if each not in self.shared and isinstance(each, click.Option)]
        for title, params in (("Options", own), ("Global options, before or after the verb", self.shared)):
            records = [record for param in params if (record := param.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            formatter.write_paragraph()
            for line in self.epilog.splitlines():
                formatter.write(f"{line}\n")


class Verb(_Helpful):
    """A verb. `examples` are whole command lines; the first says most."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **_context(kwargs))
        self.examples = examples
        self.shared = global_options()
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # an option without its value knows no verb, whose help is the one to read
            raise


class VerbGroup(_Helpful, click.Group):
    """A verb that has verbs of its own, or the command as a whole."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **_context({"subcommand_metavar": "VERB ...", **kwargs}))
        self.examples = examples
        self.shared = global_options(environment=True)
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # click's own ways of doing this differ between its releases
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def summaries(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return names and one-line summaries of the verbs, by the title of their group."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return {"Verbs": [(name, _summary(command)) for name, command in found if command]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = self.summaries(ctx)
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete verbs from their table, without importing them; click's own way would import all."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        rows = [row for group in self.summaries(ctx).values() for row in group]
        return [CompletionItem(name, help=text) for name, text in rows if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            meant = " or ".join(_meant(ctx, self, name))
            ctx.fail(f'no verb "{name}"' + (f", did you mean {meant}?" if meant else ""))
        return name, command, args[1:]


def _meant(ctx: click.Context, group: click.Group, name: str) -> list[str]:
    """Return the command lines that a word may mean that is no verb here: one in another group, or a near one.

    A verb of that very name comes first, whichever group has it; then one that is spelt alike, the group's own first.
    """
    root = ctx.find_root()
    own = [f"{ctx.command_path} {verb}" for verb in group.list_commands(ctx)]
    others: list[str] = []
    waiting: list[tuple[str, click.Command | None]] = [(str(root.info_name), root.command)]
    while waiting:
        path, command = waiting.pop(0)
        if isinstance(command, click.Group):
            verbs = [(f"{path} {verb}", command.get_command(root, verb)) for verb in command.list_commands(root)]
            others += [each for each, _ in verbs if each not in own]
            waiting += verbs
    same = [each for each in others if each.rpartition(" ")[2] == name]
    if same:
        return same
    for paths in (own, others):
        words = {each.rpartition(" ")[2]: each for each in reversed(paths)}
        near = difflib.get_close_matches(name, words, 1, 0.6)
        if near:
            return [words[near[0]]]
    return []


def _summary(command: click.Command) -> str:
    """A verb's purpose in one line, all in the same form: no capital at its beginning, no full stop at its end."""
    text = command.get_short_help_str(80)
    return text[:1].lower() + text[1:].removesuffix(".")
