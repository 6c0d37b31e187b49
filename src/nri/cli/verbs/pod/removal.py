"""`nri pod stop` and `nri pod rm`: stop and remove pods."""

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
    help="How long to wait before containers are killed. Default: the pod's grace period, or 30.",
)


@click.command(
    cls=Verb,
    short_help="stop pods; logs and states are kept",
    examples=["nri pod stop web", "nri pod stop web db --grace 5"],
)
@click.argument("pods", nargs=-1, required=True, metavar="POD...")
@_grace
@cri_option
@click.pass_obj
def stop(settings: Settings, pods: tuple[str, ...], grace: int | None, cri_socket: str | None) -> None:
    """Stop pods. Their containers are killed after a grace period; logs and states are kept.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. The grace period is --grace, or
    terminationGracePeriodSeconds of the manifest, or 30 s.
    """
    from nri.pods import lifecycle

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        all_pods = support.list_pods(cri)
        selected = [support.find_pod(word, all_pods) for word in pods]
        containers = support.list_containers(cri)
        for pod in selected:
            lifecycle.stop(cri, pod, containers, grace)
            _print_pod(out, pod)


@click.command(
    cls=Verb,
    short_help="remove pods with their logs and volumes",
    examples=["nri pod rm web", "nri pod rm -f default/web", "nri pod rm -f --all"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--force", "-f", is_flag=True, help="Also remove running pods; they are stopped first.")
@click.option(
    "--all", "-a", "everything", is_flag=True, help="Remove all pods of the runtime, even pods of other clients."
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
    """Remove pods, with the logs, emptyDir volumes and cgroups that nri pod run created for them.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. Running pods are removed only with -f.
    """
    from nri.pods import lifecycle

    if bool(pods) == everything:
        raise click.UsageError("give either pods or --all")
    out, folder = Output(settings), os.path.abspath(pods_dir or lifecycle.state_folder())
    with support.connect(settings, cri_socket) as cri:
        all_pods = support.list_pods(cri)
        selected = all_pods if everything else [support.find_pod(word, all_pods) for word in pods]
        running = [support.full_name(pod) for pod in selected if support.state_name(pod) == "ready"]
        if running and not force:
            raise Failure(f"{', '.join(running)}: still running. Use -f, or first: nri pod stop {running[0]}", USAGE)
        containers = support.list_containers(cri) if running else []
        for pod in selected:
            lifecycle.stop(cri, pod, containers, grace)
            lifecycle.remove(cri, pod, folder)
            _print_pod(out, pod)
    if not selected:
        raise Failure("the runtime has no pods", FAILED)


def _print_pod(out: Output, pod: Any) -> None:
    """Print the name or id of a pod."""
    name = support.full_name(pod)
    if out.human:
        out.names([pod.id if out.quiet else name])
    else:
        out.stream({"id": pod.id, "pod": name})
