"""`nri pod logs`: the log of a container, read from the file that its runtime writes.

Next: `nri.cri.logs` reads the format, `nri.cli.support.cri` finds the container.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from nri.cli.errors import Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb
from nri.text import escape

if TYPE_CHECKING:
    from nri.cri.client import CriClient
    from nri.cri.logs import LogEntry

EXAMPLES = [
    "nri pod logs web                            # of the container, or of the pod's only one",
    "nri pod logs -f --tail 10 -t 1f2e3d",
    "nri pod logs kube-proxy-x7x2p/kube-proxy    # POD/CONTAINER",
    "nri pod logs web -o json | jq -r 'select(.stream == \"stderr\").log'",
]

#: How often a followed container is asked after, in seconds.
_ASK_S = 1.0


@click.command("logs", cls=Verb, examples=EXAMPLES, short_help="print a container's log, and follow it")
@click.argument("container")
@click.option("--follow", "-f", is_flag=True, help="Wait for more lines, until the container ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--timestamps", "-t", is_flag=True, help="Print each line's time before it.")
@cri_option
@click.pass_obj
def command(
    settings: Settings, container: str, follow: bool, tail: int | None, timestamps: bool, cri_socket: str | None
) -> None:
    """Print a container's log: its standard output to standard output, its errors to standard error.

    CONTAINER is an id or the beginning of one, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container. The
    log is a file on the runtime's machine, so run this there. On a terminal, unprintable characters are escaped.
    """
    from nri.cri.logs import read_log
    from nri.cri.pb import api_pb2 as pb

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        pods = {one.id: one for one in support.list_pods(cri)}
        found = support.find_container(container, support.list_containers(cri), pods)
        status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=found.id)).status
        if not status.log_path:
            raise Failure(f"container {found.id[:13]} has no log: its pod was made without a log directory")
        lives = _IsRunning(cri, found.id) if follow else None
        for entry in read_log(status.log_path, tail=tail, follow=lives):
            _print(out, entry, timestamps)


class _IsRunning:
    """Whether a container lives, asked once a second; after its end the log is read once more."""

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
            self._next = time.monotonic() + _ASK_S
            try:
                request = pb.ContainerStatusRequest(container_id=self._id)
                self._ended = self._cri.call("ContainerStatus", request).status.state == pb.CONTAINER_EXITED
            except NriError as error:
                # It is over if it was removed. A runtime that cannot be asked starts again, and containers run on.
                self._ended = isinstance(error, RpcError) and error.code == Code.NOT_FOUND
        return True


def _print(out: Output, entry: LogEntry, timestamps: bool) -> None:
    """Print a line, byte for byte where no person watches."""
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
