"""`nri pod`: run and manage pods on any CRI socket, from Kubernetes manifests."""

from __future__ import annotations

import click

from nri.cli.support.verb import VerbGroup
from nri.cli.verbs.pod import inspect, logs, ps, run, stats
from nri.cli.verbs.pod import removal as end
from nri.cli.verbs.pod import streams as enter


@click.group(
    cls=VerbGroup,
    examples=[
        "nri pod run -f web.yaml                 # pull images, create sandbox and containers",
        "nri pod ps                              # list pods with their containers",
        "nri pod exec -it web sh",
        "nri pod logs -f web",
        "nri pod rm -f web",
    ],
)
def command() -> None:
    """Run pods from Kubernetes manifests on this machine's runtime; list, inspect, enter and remove them.

    Works with every runtime that serves the CRI: nri engine, containerd, CRI-O. nri pod does not replace a kubelet:
    containers are neither probed nor restarted, and a kubelet that uses the same runtime removes these pods.
    """


for subcommand in (run.command, ps.command, enter.exec_, enter.attach, logs.command, inspect.command, stats.command,
                   end.stop, end.rm):  # fmt: skip
    command.add_command(subcommand)
