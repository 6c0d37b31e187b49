"""`nri pod logs`: print the log of a container, from the file that its runtime writes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from nri.cli.errors import Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.text import escape

if TYPE_CHECKING:
    from nri.cri.client import CriClient
    from nri.cri.logs import LogEntry

EXAMPLES = [
    "nri pod logs web                            # a container, or a pod with one container",
    "nri pod logs -f --tail 10 -t 1f2e3d",
    "nri pod logs kube-proxy-x7x2p/kube-proxy    # POD/CONTAINER",
    "nri pod logs web -o json | jq -r 'select(.stream == \"stderr\").log'",
]

#: How often the state of a followed container is checked, in seconds.
_STATUS_INTERVAL_S = 1.0


@click.command("logs", cls=Verb, examples=EXAMPLES, short_help="print a container's log, and follow it")
@click.argument("container")
@click.option("--follow", "-f", is_flag=True, help="Wait for further lines until the container ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines.")
@click.option("--timestamps", "-t", is_flag=True, help="Print the time of each line.")
@support.target_options(support.container_option)
@click.pass_obj
def command(
    settings: Settings,
    container: str,
    follow: bool,
    tail: int | None,
    timestamps: bool,
    container_name: str,
    target: Target,
) -> None:
    """Print a container's log: its standard output to standard output, its standard error to standard error.

    CONTAINER is NAME, POD/NAME, NAMESPACE/POD/NAME, the beginning of an id, or a pod with one container. Run this
    command on the runtime's machine, where the log file is. On a terminal, unprintable characters are escaped.
    """
    from nri.cri.logs import read_log
    from nri.cri.pb import api_pb2 as pb

    out = Output(settings)
    with target.connect(settings) as runtime:
        cri, match = runtime.cri, runtime.container(container, container_name)
        status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=match.id)).status
        if not status.log_path:
            raise Failure(f"container {match.id[:13]} has no log: its pod was created without a log directory")
        is_running = _IsRunning(cri, match.id) if follow else None
        for entry in read_log(status.log_path, tail=tail, follow=is_running):
            _print(out, entry, timestamps)


class _IsRunning:
    """A function that returns whether a container is running, and asks the runtime once per second.

    After the end of the container it returns True once more, so that the last lines of the log are read.
    """

    def __init__(self, cri: CriClient, container_id: str) -> None:
        self._cri, self._id = cri, container_id
        self._next, self._ended = 0.0, False

    def __call__(self) -> bool:
        from nri.cri.pb import api_pb2 as pb
        from nri.errors import NriError, RpcError
        from nri.ttrpc.codes import Code

        if self._ended:
            return False
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _STATUS_INTERVAL_S
            try:
                request = pb.ContainerStatusRequest(container_id=self._id)
                self._ended = self._cri.call("ContainerStatus", request).status.state == pb.CONTAINER_EXITED
            except NriError as error:
                # A removed container has ended. For any other error, the runtime may be restarting while containers
                # keep running.
                self._ended = isinstance(error, RpcError) and error.code == Code.NOT_FOUND
        return True


def _print(out: Output, entry: LogEntry, timestamps: bool) -> None:
    """Print a line: escaped on a terminal, otherwise byte for byte."""
    if not out.human:
        text = entry.text.decode(errors="replace")
        out.stream({"time": entry.time, "stream": entry.stream, "log": text})
        return
    stream = sys.stderr if entry.stream == "stderr" else sys.stdout
    line = entry.text
    if stream.isatty():
        line = escape(line.decode(errors="replace").rstrip("\r")).encode()
    stream.flush()
    stream.buffer.write((f"{entry.time} ".encode() if timestamps else b"") + line + b"\n")
    stream.buffer.flush()
