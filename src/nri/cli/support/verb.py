"""The base classes of verbs: they add the global options, and print examples before usage and options in the help."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING, Any

import click

from nri.cli.settings import global_options
from nri.text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


def _context(more: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a verb for click, with -h as a short form of --help."""
    return {**more, "context_settings": {"help_option_names": ["-h", "--help"], **more.get("context_settings", {})}}


class _Helpful(click.Command):
    """A command whose help has this order: purpose, examples, usage, options, global options."""

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
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        verb_options = [option for option in options if option not in self.shared]
        for title, params in (("Options", verb_options), ("Global options, before or after the verb", self.shared)):
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
    """A verb. `examples` are complete command lines, the most useful first.

    With `reloads`, SIGHUP waits until the verb handles it by `nri.signals.Stop.call_after`.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), reloads: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **_context(kwargs))
        self.examples, self._reloads = examples, reloads
        self.shared = global_options()
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click leaves the context out if an option lacks its value; it names the help
            raise

    def invoke(self, ctx: click.Context) -> Any:
        if not self._reloads:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        return super().invoke(ctx)


class VerbGroup(_Helpful, click.Group):
    """A verb with subordinate verbs, or the `nri` command itself."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **_context({"subcommand_metavar": "VERB ...", **kwargs}))
        self.examples = examples
        self.shared = global_options(environment=True)
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # without arguments, releases of click behave differently
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def summaries(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return names and one-line summaries of the verbs, by the title of their group."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return {"Verbs": [(name, _summary(command)) for name, command in commands if command]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = self.summaries(ctx)
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete verbs from their table, because click would import all of them."""
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
            suggestions = " or ".join(_suggestions(ctx, self, name))
            ctx.fail(f'no verb "{name}"' + (f", did you mean {suggestions}?" if suggestions else ""))
        return name, command, args[1:]


def _suggestions(ctx: click.Context, group: click.Group, name: str) -> list[str]:
    """The command lines to suggest for an unknown verb of a group.

    A verb of the same name in another group comes first, then verbs with a similar name in any group.
    """
    root = ctx.find_root()
    group_paths = [f"{ctx.command_path} {verb}" for verb in group.list_commands(ctx)]
    other_paths: list[str] = []
    queue: list[tuple[str, click.Command | None]] = [(str(root.info_name), root.command)]
    while queue:
        path, command = queue.pop(0)
        if isinstance(command, click.Group):
            verbs = [(f"{path} {verb}", command.get_command(root, verb)) for verb in command.list_commands(root)]
            other_paths += [verb_path for verb_path, _ in verbs if verb_path not in group_paths]
            queue += verbs
    same_name = [verb_path for verb_path in other_paths if verb_path.rpartition(" ")[2] == name]
    if same_name:
        return same_name
    for paths in (group_paths, other_paths):
        path_by_name = {verb_path.rpartition(" ")[2]: verb_path for verb_path in reversed(paths)}
        if suggestion := nearest(name, path_by_name):
            return [path_by_name[suggestion]]
    return []


def _summary(command: click.Command) -> str:
    """A verb's purpose in one line, without a capital at the beginning and without a full stop."""
    text = command.get_short_help_str(80)
    return text[:1].lower() + text[1:].removesuffix(".")
