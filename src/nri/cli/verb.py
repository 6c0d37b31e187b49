"""What all verbs share: the global options, which may stand before or after the verb, and help with examples first.

Rules: `Settings` is the only state; a verb gets it by `click.pass_obj`. Only click is imported at the top.
Next modules: `nri.cli.output` prints for people and programs, `nri.cli.errors` turns errors into lines and codes.
"""

from __future__ import annotations

import difflib
import shutil
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.output import Output


if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # generic since click 8.3 only


class Settings:
    """The global options. `socket_path` is None unless a flag or NRI_SOCKET gave it; `timeout_s` likewise.

    Attributes:
        socket_from: "--socket-path" or "NRI_SOCKET", whichever gave `socket_path`.
        verbose: how often -v was given; 2 shows tracebacks.
    """

    __slots__ = ("color", "log_format", "output", "quiet", "socket_from", "socket_path", "timeout_s", "verbose")

    def __init__(self) -> None:
        self.socket_path: str | None = None
        self.socket_from = ""
        self.output = "table"
        self.quiet = False
        self.verbose = 0
        self.log_format = "text"
        self.color = "auto"
        self.timeout_s: float | None = None

    @property
    def out(self) -> Output:
        """Where the verb prints; made anew, since options may still come after the verb."""
        from nri.cli.output import Output

        return Output(self)


class DurationType(_FloatType):
    """A duration on the command line: `5s`, `1m30s`, or a bare number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from nri.config.duration import parse_duration

        if isinstance(value, float):
            return value
        try:
            seconds = float(value) if value.replace(".", "", 1).isdigit() else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f'"{value}" is not a positive duration', param, ctx)
        return seconds


DURATION = DurationType()


def _store(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Keep what was given; say nothing where nothing was, so that an option before the verb holds after it."""
    settings = ctx.find_object(Settings)
    if settings is None or value is None or value is False or value == 0 or param.name is None:
        return
    if param.name == "verbose":
        value = settings.verbose + int(str(value))
    if param.name == "socket_path":
        from_environment = ctx.get_parameter_source(param.name) is click.core.ParameterSource.ENVIRONMENT
        if from_environment and settings.socket_path:
            return  # a flag before the verb comes first
        settings.socket_from = "NRI_SOCKET" if from_environment else "--socket-path"
    setattr(settings, param.name, value)


#: Declarations and attributes of the options that every verb takes. The environment is read once, before the verb.
GLOBAL_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--socket-path",), {"metavar": "PATH", "help": "The runtime's NRI socket (environment: NRI_SOCKET)."}),
    (("--output", "-o"), {"type": click.Choice(["table", "json", "yaml"]), "help": "How to print results."}),
    (("--quiet", "-q"), {"is_flag": True, "help": "Print names or ids only."}),
    (("--verbose", "-v"), {"count": True, "help": "Say more; twice: with tracebacks."}),
    (("--log-format",), {"type": click.Choice(["text", "json"]), "help": "How to print log lines."}),
    (
        ("--color",),
        {"type": click.Choice(["auto", "always", "never"]), "help": "Colours (also NO_COLOR, FORCE_COLOR)."},
    ),
    (("--timeout", "timeout_s"), {"type": DURATION, "metavar": "5s", "help": "How long to wait for the other side."}),
)


def global_options(*, environment: bool = False) -> list[click.Option]:
    """The options of `GLOBAL_OPTIONS` as click objects; with `environment`, NRI_SOCKET is read for --socket-path."""
    made = []
    for names, attributes in GLOBAL_OPTIONS:
        extra: dict[str, Any] = {"envvar": "NRI_SOCKET"} if environment and names[0] == "--socket-path" else {}
        made.append(click.Option(list(names), expose_value=False, callback=_store, **attributes, **extra))
    return made


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
        own = [param for param in self.get_params(ctx) if param not in self.shared]
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
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.shared = global_options()
        self.params.extend(self.shared)


class VerbGroup(_Helpful, click.Group):
    """A verb that has verbs of its own, or the command as a whole."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.shared = global_options(environment=True)
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # click's own ways of doing this differ between its releases
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Names and one-line summaries of the verbs."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, command.get_short_help_str(80)) for name, command in found if command]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(self.summaries(ctx))
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Verbs from their table, without importing them; click's own way would import all."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in self.summaries(ctx) if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), 1, 0.6)
            ctx.fail(f'no verb "{name}"{f", did you mean {near[0]}?" if near else ""}')
        return name, command, args[1:]
