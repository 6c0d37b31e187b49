"""`nri pod exec` and `nri pod attach`: a program in a container, and the one that it was made for.

Next: `nri.pods.stream` speaks to the runtime's streaming server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb
from nri.errors import NriError

_stdin = click.option("--stdin", "-i", is_flag=True, help="Pass standard input to the program.")
_tty = click.option("--tty", "-t", is_flag=True, help="Give the program this terminal.")


@click.command(
    "exec",
    cls=Verb,
    short_help="run a program in a container",
    context_settings={"allow_interspersed_args": False},
    examples=[
        "nri pod exec web ls -l /",
        "nri pod exec -it web/app sh",
        "echo hello | nri pod exec -i web cat",
    ],
)
@click.argument("container")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND [ARGUMENT]...", type=click.UNPROCESSED)
@_stdin
@_tty
@cri_option
@click.pass_obj
def exec_(
    settings: Settings, container: str, words: tuple[str, ...], stdin: bool, tty: bool, cri_socket: str | None
) -> int:
    """Run a program in a container that runs, and exit with its exit code.

    CONTAINER is an id or the beginning of one, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container.
    All options go before it, global ones, too; what follows it is the program's, after a -- if you like.
    """
    from nri.cri.pb import api_pb2 as pb

    if words[0].startswith("-") and words[0] != "--":
        step = f"put it before {container}, or -- before a program of that name"
        raise click.UsageError(f"{words[0]}: options go before the container: {step}")
    words = words[1:] if words[0] == "--" else words
    if not words:
        raise click.UsageError("name a program after the --")
    request = pb.ExecRequest(cmd=words, stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _talk(settings, cri_socket, container, "Exec", request)


@click.command(
    cls=Verb,
    short_help="connect to the program of a container: its output and input",
    examples=["nri pod attach web", "nri pod attach -it web/app"],
)
@click.argument("container")
@_stdin
@_tty
@cri_option
@click.pass_obj
def attach(settings: Settings, container: str, stdin: bool, tty: bool, cri_socket: str | None) -> int:
    """Join the program that a container runs: print its output from now on, and with -i pass input to it.

    CONTAINER is as for nri pod exec. Give -t if the manifest has tty, and -i if it has stdin. With -t, Ctrl-P Ctrl-Q
    leaves and the program runs on; without, Ctrl-C does.
    """
    from nri.cri.pb import api_pb2 as pb

    request = pb.AttachRequest(stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _talk(settings, cri_socket, container, "Attach", request, leave=True)


def _talk(settings: Settings, path: str | None, word: str, method: str, request: Any, *, leave: bool = False) -> int:
    """Have the runtime begin, and carry bytes until the program ends."""
    converse, ends = _streams()
    with support.connect(settings, path) as cri:
        pods = {one.id: one for one in support.list_pods(cri)}
        found = support.find_container(word, support.list_containers(cri), pods)
        if support.state_name(found) != "running":
            raise Failure(f"container {word} does not run: it is {support.state_name(found)}", FAILED)
        request.container_id = found.id
        # The terminal first: a wrong -t must not start a program.
        with ends(stdin=request.stdin, tty=request.tty, leave=leave and request.tty) as streams:
            return converse(cri.call(method, request).url, streams, tty=request.tty)


def _streams() -> tuple[Callable[..., int], Callable[..., Any]]:
    """The client of streams, which needs the extra `engine`."""
    from nri.cri.client import INSTALL

    try:
        from nri.pods.stream import converse, ends
    except ImportError as error:
        raise NriError(f"streams need {error.name}, which is not installed. Install the extra: {INSTALL}") from None
    return converse, ends
