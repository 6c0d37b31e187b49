"""`nri pod exec` and `nri pod attach`: connect to a program in a container over the runtime's streaming server."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import click

from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.errors import NriError


class _ProgramVerb(Verb):
    """A verb with the arguments CONTAINER PROGRAM [ARGUMENT]...; its options are before or after CONTAINER."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before = _leading_options(self, args)
        container = args[before : before + 1]
        if container and container != ["--"]:
            after = before + 1 + _leading_options(self, args[before + 1 :])
            args = args[:before] + args[before + 1 : after] + container + args[after:]
        return super().parse_args(ctx, args)


_stdin = click.option("--stdin", "-i", is_flag=True, help="Pass standard input to the program.")
_tty = click.option("--tty", "-t", is_flag=True, help="Give the program this terminal.")


@click.command(
    "exec",
    cls=_ProgramVerb,
    short_help="run a program in a container",
    context_settings={"allow_interspersed_args": False},
    examples=[
        "nri pod exec web ls -l /",
        "nri pod exec -it web/app sh",
        "nri pod exec web -c app -it -- sh       # as in kubectl",
        "echo hello | nri pod exec -i web cat",
    ],
)
@click.argument("container")
@click.argument("argv", nargs=-1, required=True, metavar="PROGRAM [ARGUMENT]...", type=click.UNPROCESSED)
@_stdin
@_tty
@support.target_options(support.container_option)
@click.pass_obj
def exec_(
    settings: Settings,
    container: str,
    argv: tuple[str, ...],
    stdin: bool,
    tty: bool,
    container_name: str,
    target: Target,
) -> int:
    """Run a program in a running container, and exit with its exit code.

    CONTAINER is NAME, POD/NAME, NAMESPACE/POD/NAME, the beginning of an id, or a pod with one container. Options may be
    before or after CONTAINER. PROGRAM and all arguments after it, and all arguments after --, belong to the program.
    """
    from nri.cri.pb import api_pb2 as pb

    argv = argv[1:] if argv[0] == "--" else argv
    if not argv:
        raise click.UsageError("a program is required after --")
    request = pb.ExecRequest(cmd=argv, stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _stream(settings, target, (container, container_name), "Exec", request)


@click.command(
    cls=Verb,
    short_help="connect to the output and input of a container's program",
    examples=["nri pod attach web", "nri pod attach -it web/app"],
)
@click.argument("container")
@_stdin
@_tty
@support.target_options(support.container_option)
@click.pass_obj
def attach(settings: Settings, container: str, stdin: bool, tty: bool, container_name: str, target: Target) -> int:
    """Connect to the main program of a container: print its further output, and with -i pass input to it.

    CONTAINER has the same forms as in nri pod exec. Use -t if the container's manifest sets tty, and -i if it sets
    stdin. To disconnect without stopping the program, press Ctrl-P Ctrl-Q with -t, or Ctrl-C without -t.
    """
    from nri.cri.pb import api_pb2 as pb

    request = pb.AttachRequest(stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _stream(settings, target, (container, container_name), "Attach", request, leave=True)


def _stream(
    settings: Settings, target: Target, names: tuple[str, str], method: str, request: Any, *, leave: bool = False
) -> int:
    """Start a stream of the runtime, and copy bytes until the program ends."""
    client = stream_client()
    with target.connect(settings) as runtime:
        request.container_id = runtime.running_container(*names).id
        # The terminal is opened first, because a wrong -t must not start a program.
        with client.ends(stdin=request.stdin, tty=request.tty, leave=leave and request.tty) as streams:
            return int(client.converse(runtime.cri.call(method, request).url, streams, tty=request.tty))


def stream_client() -> ModuleType:
    """Import the client of streams. Raises NriError if the extra `engine` is not installed."""
    from nri.cri.client import INSTALL

    try:
        from nri.pods import stream
    except ImportError as error:
        raise NriError(f"streams require {error.name}, which is not installed. Install the extra: {INSTALL}") from None
    return stream


def _leading_options(verb: click.Command, args: list[str]) -> int:
    """The number of arguments at the beginning that are options of a verb, or values of these options."""
    takes_value = {
        name: not (param.is_flag or param.count)
        for param in verb.params
        if isinstance(param, click.Option)
        for name in param.opts
    }
    position = 0
    while position < len(args) and args[position].startswith("-") and args[position] not in ("-", "--"):
        word = args[position]
        if word.startswith("--"):
            needs_next = takes_value.get(word, False)
        else:
            letters = [f"-{letter}" for letter in word[1:]]
            first = next((index for index, name in enumerate(letters) if takes_value.get(name)), len(letters))
            needs_next = first == len(letters) - 1
        position += 1 + needs_next
    return min(position, len(args))
