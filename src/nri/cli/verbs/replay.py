"""`nri replay`: run the events of a recording again with other plugins, and show where the outcomes differ."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import DIFFERS, FAILED, USAGE, Failure
from nri.cli.output import Output, PaintedText
from nri.cli.settings import PATH, Settings
from nri.cli.support.recording import is_observer, record_options, recorded
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

#: At most this many plugins of a recording are listed; a recording may name any number.
_MAX_NAMES = 256


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="[NN=]PLUGIN",
    help="A plugin to run, written as in nri try; repeatable.",
)
@click.option(
    "--config", "configs", multiple=True, metavar="NN=FILE", help="The configuration for the plugin with this index."
)
@click.option("--policy", metavar="FILE", help="A file with the operator's policy for plugins.")
@click.option("--real-time", is_flag=True, help="Keep the recorded time between events.")
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
    """Run the events of a recording again, and compare each outcome with the recorded one.

    Needs neither a container runtime nor root. Only the plugins of --plugin take part; give them the same indices as in
    the recording. Events with replaced values or missing records cannot be run again, so record with --redact none.
    --record records the new run.

    -o json prints one line for each event. The exit code is 5 if an outcome differs. It is 1 if no outcome differs, but
    events could not be run again, or are missing because the recorder could not keep up.
    """
    from nri.api.naming import REQUEST_TIMEOUT_S
    from nri.config import read_file
    from nri.testing import Replay
    from nri.testing.trial.plugins import trial_plugins
    from nri.testing.trial.trial import Trial, TrialObserver

    out = Output(settings)
    if not plugins:
        raise Failure(f"a plugin is required: --plugin NN=PLUGIN{_recorded_plugins(path, out)}", USAGE)
    taking_part = trial_plugins(plugins, configs)
    if policy:
        read_file(policy)  # an error if the file is missing; a runtime would treat it as a file without policies
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if settings.verbose else logging.CRITICAL)
    trial_observer = TrialObserver()
    timeout_s = settings.timeout_s or REQUEST_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        reporters = stack.enter_context(recorded(recording, "replay", policy_path=policy))
        options: dict[str, Any] = {"policy_path": policy, "request_timeout_s": timeout_s, "observer": trial_observer}
        runtime = Replay(path, reporters=reporters, name="nri-replay", **options)
        stack.callback(runtime.adaptation.stop)  # does not wait for a plugin that is stuck in a handler
        trial = Trial(runtime, trial_observer, stack)
        for plugin in taking_part:
            trial.add(plugin)
        indices = {plugin.index for plugin in taking_part}
        outcomes = (outcome for outcome in runtime.outcomes(real_time=real_time) if trial_observer.take())
        return _show(out, runtime, outcomes, indices)


def _recorded_plugins(path: str, out: Output) -> str:
    """The recording's plugins, as an additional sentence. Prints problems; raises Failure if nothing can be read."""
    from nri.trace.history import Event, Trace

    trace, items, names = Trace(path), 0, dict[str, None]()
    for item in trace.items():
        items += 1
        # A recording of nri run has records of plugins instead of events.
        plugins = [step.plugin for step in item.steps] if isinstance(item, Event) else [item.plugin]
        names.update(
            dict.fromkeys(
                plugin for plugin in plugins if plugin and len(names) < _MAX_NAMES and not is_observer(plugin)
            )
        )
    *first_problems, last_problem = trace.problems or [""]
    for line in first_problems if not items else trace.problems:
        out.note(line)
    if last_problem and not items:
        raise Failure(last_problem)
    return f". The recording has {', '.join(map(plain, sorted(names)))}" if names else ""


def _show(out: Output, runtime: Replay, outcomes: Iterator[Outcome], indices: set[str]) -> int:
    """Print differences as they occur, and their number. `indices` are the replayed plugins'. Returns the exit code."""
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
            calls = ((step.plugin, step.plugin.partition("-")[0]) for step in outcome.event.steps)
            missing = ((name, index) for name, index in calls if index.isdecimal() and index not in indices)
            for name, index in missing:
                if not is_observer(name) and len(absent) < _MAX_NAMES:
                    absent[name] = index
        else:
            same += 1
        if not out.human:
            out.stream(_document(outcome))
        elif outcome.differences:
            out.text(PaintedText(outcome.subject, "bold"))
            for line in outcome.differences:
                out.text("  ", PaintedText(line, "yellow"))
    if not (same or differing or left_out):
        out.note(
            f"no event of a pod or a container could be read. nri trace show {runtime.trace.path} lists readable events"
        )
    _print_gaps(out, runtime, left_out, missed, absent)
    sum_line = f"{count(same + differing, 'event')} run again: {same} the same, {differing} different"
    if out.human:
        out.text(sum_line)
    else:
        out.note(sum_line)
    return DIFFERS if differing else FAILED if left_out or runtime.lost or runtime.trace.problems or not same else 0


def _count(counter: Counter[str], names: Iterable[str]) -> None:
    """Count names. Names beyond `_MAX_NAMES` are counted together."""
    for name in names:
        counter[name if name in counter or len(counter) < _MAX_NAMES else "others"] += 1


def _print_gaps(
    out: Output, runtime: Replay, left_out: Counter[str], missed: Counter[str], absent: dict[str, str]
) -> None:
    """Print gaps of the recording, and differences between its plugins and those of this run."""
    for line in runtime.trace.problems:
        out.note(line)
    if runtime.lost:
        out.note(f"at least {count(runtime.lost, 'step')} missing: the recorder could not keep up on the node")
    for reason, events in left_out.items():
        out.note(f"{count(events, 'event')} left out: {reason}")
    for name, events in missed.items():
        out.note(
            f"{name} did not answer {count(events, 'event')} in the recording; the runtime continued without its answer"
        )
    for name, index in absent.items():
        out.note(f"{name} took part in the recording, but not in this run: add it with --plugin {index}=PLUGIN")


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
