"""`nri pod`: pods by hand on any CRI socket, from Kubernetes manifests. Next: `nri.pods`, which does it."""

from __future__ import annotations

import click

from nri.cli.support.verb import VerbGroup
from nri.cli.verbs.pod import end, enter, inspect, logs, ps, run, stats


@click.group(
    cls=VerbGroup,
    examples=[
        "nri pod run -f web.yaml                 # sandbox, images, containers",
        "nri pod ps                              # pods with their containers",
        "nri pod exec -it web sh",
        "nri pod logs -f web",
        "nri pod rm -f web",
    ],
)
def command() -> None:
    """Run pods from Kubernetes manifests on the runtime of this machine, look at them, enter them, remove them.

    Any runtime that serves the CRI will do: nri engine, containerd, CRI-O. There is no kubelet in it: nothing probes,
    nothing starts again, and a kubelet that drives the same runtime removes pods that it does not know.
    """


for each in (run.command, ps.command, enter.exec_, enter.attach, logs.command, inspect.command, stats.command,
             end.stop, end.rm):  # fmt: skip
    command.add_command(each)
