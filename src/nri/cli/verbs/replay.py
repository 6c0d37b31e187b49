"""`nri replay`: run a recording again with other plugins, and say where they answer otherwise.

Next: `nri.testing.replay`, which does it; this module only talks to people. The plugins are started as those of a trial
are (`nri.testing.trial`).
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import DIFFERS, FAILED, USAGE, Failure
from nri.cli.output import Output, Painted
from nri.cli.settings import PATH, Settings
from nri.cli.support.recording import only_looks, record_options, recorded
from nri.cli.support.verb import Verb
from nri.text import count, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nri.testing import Replay
    from nri.testing.replay import Outcome

EXAMPLES = [
    "nri replay traces --plugin 10=inject.py",
    "nri replay traces --plugin 10=inject.py --plugin 20=./my-program --config 20=pin.yaml",
    "nri replay traces --plugin 30=new.py --record new && nri predict traces new",
    "nri replay web.nritrace --plugin 10=inject.py -o json | jq 'select(.differences | length > 0)'",
]

#: Plugins that a recording is said to have.
_MOST_NAMES = 256


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="[NN=]PLUGIN",
    help="A plugin that takes part, as in nri try; repeatable.",
)
@click.option(
    "--config", "configs", multiple=True, metavar="NN=FILE", help="The configuration of the plugin with this index."
)
@click.option("--policy", metavar="FILE", help="The operator's policy file.")
@click.option("--real-time", is_flag=True, help="Run events as far apart as they were, not one right after the other.")
@record_options
@click.pass_obj
def command(
    settings: Settings,
    /,
    path: str,
    plugins: tuple[str, ...],
    configs: tuple[str, ...],
    policy: str | None,
    real_time: bool,
    **recording: Any,
) -> int:
    """Run a recording's events again through a real runtime side, and compare each outcome with the recorded one.

    Needs no container runtime and no root. Give the plugins that are to take part, with the indices that they had;
    plugins of the recording that are not given do not. Record with --redact none: an event whose values were replaced
    cannot be run again, nor can one of which a part is missing. --record writes a recording of what happens now.

    With -o json, a line for each event. The exit code is 5 if an outcome differs, and 1 if nothing differs but events
    could not be run again, or are missing because the recorder could not keep up.
    """
    from nri.api.naming import REQUEST_TIMEOUT_S
    from nri.config import read_file
    from nri.testing import Replay
    from nri.testing.trial.plugins import trial_plugins
    from nri.testing.trial.trial import Trial, TrialObserver

    out = Output(settings)
    if not plugins:
        raise Failure(f"no plugin: give at least one with --plugin NN=PLUGIN{_had(path, out)}", USAGE)
    taking_part = trial_plugins(plugins, configs)
    if policy:
        read_file(policy)  # a runtime takes a missing file for one without policies
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if settings.verbose else logging.CRITICAL)
    watching = TrialObserver()
    timeout_s = settings.timeout_s or REQUEST_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        reporters = stack.enter_context(recorded(recording, "replay", policy_path=policy))
        options: dict[str, Any] = {"policy_path": policy, "request_timeout_s": timeout_s, "observer": watching}
        runtime = Replay(path, reporters=reporters, name="nri-replay", **options)
        stack.callback(runtime.adaptation.stop)  # and no waiting for a plugin that is stuck in a handler
        trial = Trial(runtime, watching, stack)
        for plugin in taking_part:
            trial.add(plugin)
        indices = {plugin.index for plugin in taking_part}
        outcomes = (outcome for outcome in runtime.outcomes(real_time=real_time) if watching.take())
        return _show(out, runtime, outcomes, indices)


def _had(path: str, out: Output) -> str:
    """Which plugins the recording had, as the end of a sentence. What cannot be read is named; Failure if it is all."""
    from nri.trace.history import Event, Trace

    found, items, names = Trace(path), 0, dict[str, None]()
    for item in found.items():
        items += 1
        told = [step.plugin for step in item.steps] if isinstance(item, Event) else [item.plugin]  # also of nri run
        names.update(dict.fromkeys(each for each in told if each and len(names) < _MOST_NAMES and not only_looks(each)))
    *rest, last = found.problems or [""]
    for line in rest if not items else found.problems:
        out.note(line)
    if last and not items:
        raise Failure(last)
    return f". The recording has {', '.join(map(plain, sorted(names)))}" if names else ""


def _show(out: Output, runtime: Replay, outcomes: Iterator[Outcome], indices: set[str]) -> int:
    """Print differences as they come, and the sum; returns the exit code. `indices`: of the plugins that take part."""
    same = differing = 0
    absent: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for outcome in out.counted(outcomes, "event"):
        _count(missed, outcome.missed)
        if outcome.left_out:
            _count(left_out, (outcome.left_out,))
        elif outcome.differences:
            differing += 1
            asked = ((step.plugin, step.plugin.partition("-")[0]) for step in outcome.event.steps)
            missing = ((name, index) for name, index in asked if index.isdecimal() and index not in indices)
            for name, index in missing:
                if not only_looks(name) and len(absent) < _MOST_NAMES:
                    absent[name] = index
        else:
            same += 1
        if not out.human:
            out.stream(_document(outcome))
        elif outcome.differences:
            out.text(Painted(outcome.subject, "bold"))
            for line in outcome.differences:
                out.text("  ", Painted(line, "yellow"))
    if not (same or differing or left_out):
        out.note(
            f"no event of a pod or a container could be read; nri trace show {runtime.trace.path} lists what can be"
        )
    _tell(out, runtime, left_out, missed, absent)
    sum_line = f"{count(same + differing, 'event')} run again: {same} the same, {differing} different"
    if out.human:
        out.text(sum_line)
    else:
        out.note(sum_line)
    return DIFFERS if differing else FAILED if left_out or runtime.lost or runtime.trace.problems or not same else 0


def _count(counter: Counter[str], names: Iterable[str]) -> None:
    """Count names, of which a recording may have any number."""
    for name in names:
        counter[name if name in counter or len(counter) < _MOST_NAMES else "others"] += 1


def _tell(out: Output, runtime: Replay, left_out: Counter[str], missed: Counter[str], absent: dict[str, str]) -> None:
    """Say what the recording lacks, and which plugins were asked in it: events by reason and by plugin."""
    for line in runtime.trace.problems:
        out.note(line)
    if runtime.lost:
        out.note(f"at least {count(runtime.lost, 'step')} missing: the recorder could not keep up on the node")
    for reason, events in left_out.items():
        out.note(f"{count(events, 'event')} left out: {reason}")
    for name, events in missed.items():
        out.note(f"{name} gave no answer to {count(events, 'event')} when this was recorded, which went on without it")
    for name, index in absent.items():
        out.note(f"{name} was asked in the recording, and not now: add --plugin {index}=PLUGIN to have it take part")


def _document(outcome: Outcome) -> dict[str, object]:
    event = outcome.event
    pod, container = event.pod, event.container
    return {
        "event": event.name,
        "serial": event.serial,
        "recording": event.recording,
        "namespace": pod.namespace if pod else "",
        "pod": pod.name if pod else "",
        "container": container.name if container else "",
        "left_out": outcome.left_out,
        "differences": list(outcome.differences),
        "missed": outcome.missed,
    }
