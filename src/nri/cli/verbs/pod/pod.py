"""`nri pod`: run and manage pods on any CRI socket, from Kubernetes manifests."""

from __future__ import annotations

import click

from nri.cli.support.verb import VerbGroup
from nri.cli.verbs.pod import cp, describe, events, forward, images, inspect, logs, ps, removal, run, stats, streams


@click.group(
    cls=VerbGroup,
    examples=[
        "nri pod run -f web.yaml                 # pull images, create sandbox and containers",
        "nri pod ps                              # list pods with their containers",
        "nri pod exec -it web sh",
        "nri pod logs -f web",
        "nri pod cp web:/etc/hosts .",
        "nri pod port-forward web 8080:80",
        "nri pod rm -f web",
    ],
)
def command() -> None:
    """Run pods from Kubernetes manifests on this machine's runtime; list, inspect, enter and remove them.

    Verbs, options and columns have the names that they have in kubectl and crictl.

    Works with every runtime that serves the CRI: nri engine, containerd, CRI-O. nri pod does not replace a kubelet:
    containers are neither probed nor restarted, and a kubelet that uses the same runtime removes these pods.
    """


for subcommand in (
    run.command, ps.command, describe.describe, inspect.command, logs.command, stats.command, events.events,
    streams.exec_, streams.attach, cp.cp, forward.port_forward, removal.stop, removal.rm,
    images.images, images.pull, images.rmi,
):  # fmt: skip
    command.add_command(subcommand)
