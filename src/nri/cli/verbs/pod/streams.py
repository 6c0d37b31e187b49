"""`nri pod exec` and `nri pod attach`: connect to a program in a container over the runtime's streaming server."""

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
@click.argument("argv", nargs=-1, required=True, metavar="PROGRAM [ARGUMENT]...", type=click.UNPROCESSED)
@_stdin
@_tty
@cri_option
@click.pass_obj
def exec_(
    settings: Settings, container: str, argv: tuple[str, ...], stdin: bool, tty: bool, cri_socket: str | None
) -> int:
    """Run a program in a running container, and exit with its exit code.

    CONTAINER is an id or the beginning of one, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container. All
    options, including global options, must be before CONTAINER. All arguments after it belong to the program.
    """
    from nri.cri.pb import api_pb2 as pb

    if argv[0].startswith("-") and argv[0] != "--":
        step = f"put it before {container}; if it is the name of a program, put -- before it"
        raise click.UsageError(f"{argv[0]}: options must be before the container: {step}")
    argv = argv[1:] if argv[0] == "--" else argv
    if not argv:
        raise click.UsageError("a program is required after --")
    request = pb.ExecRequest(cmd=argv, stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _stream(settings, cri_socket, container, "Exec", request)


@click.command(
    cls=Verb,
    short_help="connect to the output and input of a container's program",
    examples=["nri pod attach web", "nri pod attach -it web/app"],
)
@click.argument("container")
@_stdin
@_tty
@cri_option
@click.pass_obj
def attach(settings: Settings, container: str, stdin: bool, tty: bool, cri_socket: str | None) -> int:
    """Connect to the main program of a container: print its further output, and with -i pass input to it.

    CONTAINER is as for nri pod exec. Use -t if the manifest sets tty, and -i if it sets stdin. To disconnect without
    stopping the program, press Ctrl-P Ctrl-Q with -t, or Ctrl-C without -t.
    """
    from nri.cri.pb import api_pb2 as pb

    request = pb.AttachRequest(stdin=stdin, stdout=True, tty=tty, stderr=not tty)
    return _stream(settings, cri_socket, container, "Attach", request, leave=True)


def _stream(settings: Settings, path: str | None, name: str, method: str, request: Any, *, leave: bool = False) -> int:
    """Start a stream of the runtime, and copy bytes until the program ends."""
    converse, ends = _streams()
    with support.connect(settings, path) as cri:
        pods = {pod.id: pod for pod in support.list_pods(cri)}
        container = support.find_container(name, support.list_containers(cri), pods)
        if support.state_name(container) != "running":
            raise Failure(f"container {name} is not running: it is {support.state_name(container)}", FAILED)
        request.container_id = container.id
        # The terminal is opened first, because a wrong -t must not start a program.
        with ends(stdin=request.stdin, tty=request.tty, leave=leave and request.tty) as streams:
            return converse(cri.call(method, request).url, streams, tty=request.tty)


def _streams() -> tuple[Callable[..., int], Callable[..., Any]]:
    """The client of streams, which requires the extra `engine`."""
    from nri.cri.client import INSTALL

    try:
        from nri.pods.stream import converse, ends
    except ImportError as error:
        raise NriError(f"streams require {error.name}, which is not installed. Install the extra: {INSTALL}") from None
    return converse, ends
