"""`nri pod stop` and `nri pod rm`: stop and remove pods."""

from __future__ import annotations

import os
from typing import Any

import click

from nri.cli.errors import USAGE, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target, pods_option
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
@click.argument("pods", nargs=-1, metavar="[POD]...")
@_grace
@support.target_options(support.selector_option)
@click.pass_obj
def stop(settings: Settings, pods: tuple[str, ...], grace: int | None, target: Target) -> None:
    """Stop pods. Their containers are killed after a grace period; logs and states are kept.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. The grace period is --grace, or
    terminationGracePeriodSeconds of the manifest, or 30 s.
    """
    from nri.pods import lifecycle

    if bool(pods) == bool(target.selector):
        raise click.UsageError("give either pods or --selector")
    out = Output(settings)
    with target.connect(settings) as runtime:
        for pod in _existing(runtime.selected(pods), target):
            lifecycle.stop(runtime.cri, pod, runtime.containers, grace)
            _print_pod(out, pod)


@click.command(
    cls=Verb,
    short_help="remove pods with their logs and volumes",
    examples=["nri pod rm web", "nri pod rm -f default/web", "nri pod rm -f -l app=web", "nri pod rm -f --all"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--force", "-f", is_flag=True, help="Also remove running pods; they are stopped first.")
@click.option(
    "--all", "-a", "everything", is_flag=True, help="Remove all pods of the runtime, even pods of other clients."
)
@_grace
@pods_option
@support.target_options(support.selector_option)
@click.pass_obj
def rm(
    settings: Settings,
    pods: tuple[str, ...],
    force: bool,
    everything: bool,
    grace: int | None,
    pods_dir: str | None,
    target: Target,
) -> None:
    """Remove pods, with the logs, emptyDir volumes and cgroups that nri pod run created for them.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. Running pods are removed only with -f.
    """
    from nri.pods import lifecycle

    if bool(pods) + everything + (bool(target.selector) and not everything) != 1:
        raise click.UsageError("give either pods, --selector or --all")
    out, folder = Output(settings), os.path.abspath(pods_dir or lifecycle.state_folder())
    with target.connect(settings) as runtime:
        selected = _existing(runtime.selected(pods), target)
        running = [support.full_name(pod) for pod in selected if support.state_name(pod) == "ready"]
        if running and not force:
            raise Failure(f"{', '.join(running)}: still running. Use -f, or first: nri pod stop {running[0]}", USAGE)
        for pod in selected:
            lifecycle.stop(runtime.cri, pod, runtime.containers if running else [], grace)
            lifecycle.remove(runtime.cri, pod, folder)
            _print_pod(out, pod)


def _existing(pods: list[Any], target: Target) -> list[Any]:
    """The selected pods. Raises Failure if there are no pods."""
    if not pods:
        restricted = target.namespace is not None or target.selector
        raise Failure("no pod matches the options. try: nri pod ps -a" if restricted else "the runtime has no pods")
    return pods


def _print_pod(out: Output, pod: Any) -> None:
    """Print the name or id of a pod."""
    name = support.full_name(pod)
    if out.human:
        out.names([pod.id if out.quiet else name])
    else:
        out.stream({"id": pod.id, "pod": name})
