"""`nri pod port-forward`: forward local ports to ports of a pod."""

from __future__ import annotations

from contextlib import ExitStack

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.cli.verbs.pod.streams import stream_client

_MAX_PORT = 65535


def _parse_ports(text: str) -> tuple[int, int]:
    """The local and the remote port of LOCAL:REMOTE, PORT or :REMOTE. Raises click.UsageError."""
    local, colon, remote = text.partition(":")
    words = (local or "0", remote) if colon else (text, text)
    numbers = [int(word) if word.isascii() and word.isdigit() and len(word) < 6 else -1 for word in words]
    if not 0 <= numbers[0] <= _MAX_PORT or not 1 <= numbers[1] <= _MAX_PORT:
        raise click.UsageError(f"{text}: ports are PORT, LOCAL:REMOTE or :REMOTE, with numbers up to {_MAX_PORT}")
    return numbers[0], numbers[1]


@click.command(
    "port-forward",
    cls=Verb,
    short_help="forward local ports to ports of a pod",
    examples=[
        "nri pod port-forward web 8080:80        # localhost:8080 is port 80 of the pod",
        "nri pod port-forward web 5432 :9090     # the same port; a free local port",
    ],
)
@click.argument("pod")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]PORT...")
@click.option("--address", default="127.0.0.1", metavar="IP", help="The local address. Default: 127.0.0.1.")
@support.target_options()
@click.pass_obj
def port_forward(settings: Settings, pod: str, ports: tuple[str, ...], address: str, target: Target) -> None:
    """Forward connections to local ports to ports on the loopback of a pod, until Ctrl-C.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. LOCAL is 0 or empty for a free port.
    """
    from nri.cri.pb import api_pb2 as pb

    pairs = [_parse_ports(text) for text in ports]
    stream_client()
    from nri.pods.forward import forward, listen

    out = Output(settings)
    with target.connect(settings) as runtime, ExitStack() as stack:
        match = runtime.ready_pod(pod)

        def open_url(port: int) -> str:
            request = pb.PortForwardRequest(pod_sandbox_id=match.id, port=[port])
            return str(runtime.cri.call("PortForward", request).url)

        listeners = {}
        for local, remote in pairs:
            listener = stack.enter_context(listen(address, local))
            listeners[listener] = remote
            host, number = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            if out.human:
                out.lines(f"Forwarding from {shown}:{number} -> {remote}")
            else:
                out.stream({"address": host, "local_port": number, "port": remote})
        out.flush()
        forward(listeners, open_url, out.note)
