"""`nri try`: show the changes that plugins would make to a pod, with a real runtime side and no containers.

The pod comes from a Kubernetes manifest (`nri.kube.manifest`), the runtime is the one of our tests
(`nri.testing.FakeRuntime`), the diff is its provenance. Python plugins run inside this process, programs as installed
plugins are run. Next: `nri.cli.support.trial`, which does it; this module only talks to people.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Output, safe
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.adaptation.audit.explanation import Step
    from nri.cli.support.trial import Outcome, Result

EXAMPLES = [
    "nri try pod_name.py --pod web.yaml",
    "nri try 10=inject.py 20=pin.py:Pin --pod web.yaml --config 20=pin.yaml",
    "nri try ./10-device-injector --pod web.yaml --image-config config.json -o json",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("plugins", nargs=-1, required=True, metavar="[NN=]PLUGIN...")
@click.option(
    "--pod", "manifest", required=True, metavar="FILE", help="A Pod, or anything with a pod template, as YAML."
)
@click.option("--image-config", metavar="FILE", help="The image's configuration, for environment and command line.")
@click.option(
    "--config", "configs", multiple=True, metavar="NN=FILE", help="Configuration of the plugin of that index."
)
@click.option("--policy", metavar="FILE", help="The operator's policy.toml.")
@click.pass_obj
def command(
    settings: Settings,
    plugins: tuple[str, ...],
    manifest: str,
    image_config: str | None,
    configs: tuple[str, ...],
    policy: str | None,
) -> int:
    """Show what plugins would do to the containers of a pod. Needs no runtime and no root.

    PLUGIN is FILE.py, FILE.py:CLASS, MODULE:CLASS, or a program. Its index is the NN before it, else that of the file's
    name, else its place. Ends with 4 if the plugins are in conflict, or refuse the pod.
    """
    from nri.cli.support import trial
    from nri.config import read_file
    from nri.kube.image_config import ImageConfig, read_image_config
    from nri.kube.manifest import read_manifest

    out = Output(settings)
    image = read_image_config(image_config) if image_config else ImageConfig()
    workload = read_manifest(manifest, image)
    for note in workload.notes:
        out.note(f"note: {note}")
    contestants = trial.contestants(plugins, configs)
    text = read_file(policy).text if policy else None
    outcome = trial.run(contestants, workload, text, settings.timeout_s or 10.0, verbose=settings.verbose)
    if out.human:
        _show(out, outcome)
    else:
        out.document(outcome.to_json())
    return outcome.exit_code


def _show(out: Output, outcome: Outcome) -> None:
    """Print the changes container by container, plugin by plugin."""
    out.text(out.paint(safe(f"pod {outcome.pod}"), "bold"))
    if outcome.failed:
        out.text(f"  {out.paint('refused:', 'red')} {safe(outcome.failed)}")
    for result in outcome.results:
        out.text(out.paint(safe(f"container {result.name}"), "bold"))
        _show_result(out, result)


def _show_result(out: Output, result: Result) -> None:
    shown = ""
    for step in result.steps:
        heading = step.plugin if step.event == "CreateContainer" else f"{step.plugin} at {step.event}"
        if heading != shown:
            out.text(f"  {out.paint(safe(heading), 'cyan')}")
            shown = heading
        for line, style in _lines(step):
            out.text(f"    {out.paint(safe(line), style)}")
    for target, reason in result.evictions:
        out.text(f"  {out.paint(safe(f'evicts container {target}: {reason}'), 'yellow')}")
    if result.failed:
        out.text(f"  {out.paint('refused:', 'red')} {safe(result.failed)}")
    elif not (result.steps or result.evictions):
        out.text(f"  {out.paint('nothing changes', 'dim')}")


def _lines(step: Step) -> list[tuple[str, str]]:
    """Write a change as lines of a diff."""
    change = step.change
    what = f"{change.field} {change.key}".rstrip()
    sides: list[tuple[str, Any, str]] = [("-", change.before, "red"), ("+", change.after, "green")]
    return [
        (f"{sign} {what} {json.dumps(value, ensure_ascii=False)}", style)
        for sign, value, style in sides
        if value is not None
    ]
