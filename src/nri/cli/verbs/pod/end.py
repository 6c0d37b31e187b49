"""`nri pod stop` and `nri pod rm`. Next: `nri.pods.lifecycle`, which does it."""

from __future__ import annotations

import os
from typing import Any

import click

from nri.cli.errors import FAILED, USAGE, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option, pods_option
from nri.cli.support.verb import Verb

_grace = click.option(
    "--grace",
    type=click.IntRange(0, 86400),
    metavar="SECONDS",
    help="How long containers have to end by themselves. Default: that of their pod, else 30.",
)


@click.command(
    cls=Verb,
    short_help="stop pods, and keep their logs and states",
    examples=["nri pod stop web", "nri pod stop web db --grace 5"],
)
@click.argument("pods", nargs=-1, required=True, metavar="POD...")
@_grace
@cri_option
@click.pass_obj
def stop(settings: Settings, pods: tuple[str, ...], grace: int | None, cri_socket: str | None) -> None:
    """Stop pods: their containers may end by themselves for a while, then they are killed. Logs and states stay.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. They have terminationGracePeriodSeconds of
    the manifest, else 30 s.
    """
    from nri.pods import lifecycle

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        there = support.list_pods(cri)
        found = [support.find_pod(word, there) for word in pods]
        containers = support.list_containers(cri)
        for one in found:
            lifecycle.stop(cri, one, containers, grace)
            _say(out, one)


@click.command(
    cls=Verb,
    short_help="remove pods, with logs and volumes that are theirs",
    examples=["nri pod rm web", "nri pod rm -f default/web", "nri pod rm -f --all"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--force", "-f", is_flag=True, help="Also pods that run: they are stopped first.")
@click.option(
    "--all", "-a", "everything", is_flag=True, help="All pods of the runtime, also those that nri pod has not made."
)
@_grace
@pods_option
@cri_option
@click.pass_obj
def rm(
    settings: Settings,
    pods: tuple[str, ...],
    force: bool,
    everything: bool,
    grace: int | None,
    pods_dir: str | None,
    cri_socket: str | None,
) -> None:
    """Remove pods, and what nri pod run has made for them: logs, emptyDir volumes, their cgroup.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. A pod that runs is refused without -f.
    """
    from nri.pods import lifecycle

    if bool(pods) == everything:
        raise click.UsageError("give either pods or --all")
    out, folder = Output(settings), os.path.abspath(pods_dir or lifecycle.state_folder())
    with support.connect(settings, cri_socket) as cri:
        there = support.list_pods(cri)
        found = there if everything else [support.find_pod(word, there) for word in pods]
        running = [support.full_name(one) for one in found if support.state_name(one) == "ready"]
        if running and not force:
            raise Failure(f"{', '.join(running)}: still ready. Use -f, or first: nri pod stop {running[0]}", USAGE)
        containers = support.list_containers(cri) if running else []
        for one in found:
            lifecycle.stop(cri, one, containers, grace)
            lifecycle.remove(cri, one, folder)
            _say(out, one)
    if not found:
        raise Failure("the runtime has no pods", FAILED)


def _say(out: Output, pod: Any) -> None:
    """Print which pod it was."""
    name = support.full_name(pod)
    if out.human:
        out.names([pod.id if out.quiet else name])
    else:
        out.stream({"id": pod.id, "pod": name})
