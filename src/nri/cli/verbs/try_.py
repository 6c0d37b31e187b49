"""`nri try`: show the changes that plugins would make to a pod, without a runtime (`nri.testing.trial`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, REJECTED
from nri.cli.output import Output, PaintedText, readable
from nri.cli.settings import Settings
from nri.cli.support.completion import complete_target
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.adaptation.audit import Change, ShadowReport
    from nri.testing.trial.outcome import Outcome, Result

EXAMPLES = [
    "nri try pod_name.py --pod web.yaml",
    "nri try 10=inject.py 20=pin.py:Pin --pod web.yaml --config 20=pin.yaml",
    "nri try device-injector --pod web.yaml             # a bundled plugin: nri plugins list",
    "nri try ./10-my-program --pod web.yaml --image-config config.json -o json",
    "kubectl get pod web -o yaml | nri try pod_name.py --pod -",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("plugins", nargs=-1, required=True, metavar="[NN=]PLUGIN...", shell_complete=complete_target)
@click.option(
    "--pod",
    "manifest",
    required=True,
    metavar="FILE|-",
    help="YAML or JSON of pods, or of resources with a pod template.",
)
@click.option(
    "--image-config", metavar="FILE", help="The image's configuration, with its environment and command line."
)
@click.option(
    "--config", "configs", multiple=True, metavar="NN=FILE", help="The configuration for the plugin with this index."
)
@click.option("--policy", metavar="FILE", help="A file with the operator's policy for plugins.")
@click.pass_obj
def command(
    settings: Settings,
    plugins: tuple[str, ...],
    manifest: str,
    image_config: str | None,
    configs: tuple[str, ...],
    policy: str | None,
) -> int:
    """Show what plugins would do to the containers of pods. Needs neither a runtime nor root.

    PLUGIN is the name of a bundled plugin (nri plugins list), FILE.py, FILE.py:CLASS, MODULE:CLASS, or a program. Its
    index is NN, or the number at the beginning of its file name, or its position on the command line. --timeout limits
    the time for each answer, 2 s by default as in a real runtime.

    The exit code is 4 if plugins conflict or refuse the pod, and 1 if a plugin fails or does not answer in time.
    Answers of shadow plugins are shown, but have no effect. -q prints only the names of changed and refused containers.
    """
    from nri.api.naming import REQUEST_TIMEOUT_S
    from nri.cli.support.inputs import read_source
    from nri.config import read_file
    from nri.kube.manifest import ImageConfig, read_image_config, read_manifests
    from nri.testing.trial.plugins import shared_indices, trial_plugins
    from nri.testing.trial.trial import run

    out = Output(settings)
    image = read_image_config(image_config) if image_config else ImageConfig()
    workloads = read_manifests(read_source(manifest), image)
    taking_part = trial_plugins(plugins, configs)
    notes = [note for workload in workloads for note in workload.notes] + shared_indices(taking_part)
    for note in notes:
        out.note(f"note: {note}")
    if policy:
        read_file(policy)  # an error if the file is missing; a runtime would treat it as a file without policies
    timeout_s = settings.timeout_s or REQUEST_TIMEOUT_S
    outcome = run(taking_part, workloads, policy, timeout_s, verbose=settings.verbose)
    if not out.human:
        out.document(outcome.to_json())
    elif out.quiet:
        out.names(result.name for result in outcome.results if result.steps or result.failure)
    else:
        _show(out, outcome)
    return REJECTED if outcome.refused else FAILED if outcome.failed else 0


def _show(out: Output, outcome: Outcome) -> None:
    """Print the changes pod by pod, container by container, plugin by plugin."""
    for pod in outcome.pods:
        out.text(PaintedText(f"pod {pod.pod.name}", "bold"))
        _show_result(out, pod.pod, outcome)
        for result in pod.containers:
            out.text(PaintedText(f"container {result.name}", "bold"))
            _show_result(out, result, outcome)
            if result.unchanged:
                out.text("  ", PaintedText("nothing changes", "dim"))


def _show_result(out: Output, result: Result, outcome: Outcome) -> None:
    """Print the result for a pod or container: changes, then evictions, then failures."""
    shown = ""
    for step in result.steps:
        heading = f"{step.plugin}{_WHEN.get(step.event, f' at {step.event}')}"
        if heading != shown:
            out.text("  ", PaintedText(heading, "cyan"))
            shown = heading
        _show_change(out, step.change)
    names = {one.id: one.name for one in outcome.results}
    for target, reason in result.evictions:
        out.text("  ", PaintedText(f"evicts container {names.get(target, target)}: {reason}", "yellow"))
    for report in result.shadows:
        _show_shadow(out, report, {key: name for key, name in names.items() if key != result.id})
    for plugin, event in result.left_out:
        line = f"{plugin} updates a container that does not exist in {event}: the update is ignored"
        out.text("  ", PaintedText(line, "yellow"))
    for miss in result.misses:
        out.text("  ", PaintedText(f"{miss.plugin}: {miss.reason}", "red"))
    if result.failure:
        out.text("  ", PaintedText("refused:", "red"), f" {result.failure}")


def _show_shadow(out: Output, report: ShadowReport, name_by_id: dict[str, str]) -> None:
    """Print what a shadow plugin would have done. `name_by_id` has all containers except the container of the event."""
    when = _WHEN.get(report.event, f" at {report.event}")
    out.text("  ", PaintedText(f"{report.plugin}{when}, a shadow: its answers have no effect", "cyan"))
    for change in report.changes:
        _show_change(out, change, name_by_id.get(change.container, ""))
    lines = [f"in conflict with {holder}: {field} {key}".rstrip() for field, key, holder in report.conflicts]
    lines += [f"evicts container {target}: {reason}" for target, reason in report.evictions]
    lines += [f"fails: {report.failed}"] if report.failed else []
    for line in lines:
        out.text("    ", PaintedText(line, "yellow"))


#: Fields of a kubelet's request in which 0 means that nothing is requested.
_ZERO_IS_UNSET = frozenset({"CPUPeriod", "CPUQuota", "CPUShares", "MemLimit", "MemSwapLimit", "PidsLimit"})
#: The suffix of a plugin's name for an event; "" for the creation of a container, where most changes happen.
_WHEN = {"CreateContainer": "", "UpdateContainers": " by itself"}


def _show_change(out: Output, change: Change, container: str = "") -> None:
    """Print a change as lines of a diff. `container` is set if it is not the container of the heading."""
    what = f"{change.field} {change.key}".rstrip() + (f" of container {container}" if container else "")
    sides: list[tuple[str, Any, str]] = [("-", change.before, "red"), ("+", change.after, "green")]
    for sign, value, style in sides:
        if value is not None:
            unset = sign == "-" and value == 0 and change.field in _ZERO_IS_UNSET
            text = "unset" if unset else json.dumps(readable(value), ensure_ascii=False)
            out.text("    ", PaintedText(f"{sign} {what} {text}", style))
