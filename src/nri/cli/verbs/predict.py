"""`nri predict`: find plugins that set the same fields, from recordings and from declarations of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, REJECTED, USAGE, Failure
from nri.cli.output import Column, Output
from nri.cli.settings import PATH, Settings
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.trace.prediction import Collision

_COLUMNS = [
    Column("FIELD", "field", 60),
    Column("PLUGIN", "first"),
    Column("AND", "second"),
    Column("EVENT", "event"),
    Column("CONTAINERS", "count"),
    Column("EXAMPLE", "example", 80),
    Column("REFUSED", "happened", extra=True),
    Column("KNOWN BY", "known_by", extra=True),
]


@click.command(
    cls=Verb,
    examples=[
        "nri predict traces                      # conflicts that happened, or may happen",
        "nri predict traces new                  # new: nri replay traces --plugin 30=new.py --record new",
        "nri predict --plugin 10=first.py --plugin 20=second.py    # what their classes declare as sets",
        "nri predict traces --plugin 20=new.py   # together with the recorded plugins",
        "nri predict traces -o json | jq '.[] | select(.happened == 0)'",
    ],
)
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, type=PATH)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="[NN=]PLUGIN",
    help="Add a plugin with the fields that its class declares (sets): NAME, FILE or MODULE:CLASS; repeatable.",
)
@click.pass_obj
def command(settings: Settings, paths: tuple[str, ...], plugins: tuple[str, ...]) -> int:
    """Predict which plugins will conflict on which fields of which containers, before a pod fails.

    Give recordings of the same containers, for example the node's recording and the recording that nri replay wrote
    with the plugin that you want to add. Answers for a container are combined in the order of the plugins' indices.
    Plugins with the same index and name count as one plugin. Values are not compared, so recordings with replaced
    values can be used.

    --plugin adds a plugin that was not recorded, with all fields that its class declares (sets). Its file is loaded,
    but its handlers are not run. KNOWN BY is "declared" for these fields, because the plugin need not set them.

    Containers are compared by id, so recordings of different nodes do not conflict. The exit code is 4 if plugins
    conflict. It is 1 if no plugins conflict, but a part of a recording could not be read.
    """
    from nri.trace.history import Trace
    from nri.trace.prediction import CollisionFinder

    out = Output(settings)
    problem_count = events = 0
    if not paths and not plugins:
        raise Failure("nothing to compare: give recordings, or plugins with --plugin", USAGE)
    traces = [Trace(path) for path in paths]
    finder = CollisionFinder(recording_bytes=sum(trace.size_bytes for trace in traces))
    for label, sets in _declarations(plugins):
        finder.declare(label, sets)
    for trace in traces:
        for event in out.counted(trace.events(), "event"):
            events += 1
            finder.take(event)
        for line in trace.problems:
            out.note(line)
        problem_count += len(trace.problems)
    collisions = finder.collisions()
    if paths and not events and not collisions:  # plugins may collide by what they declare
        listed = " ".join(paths)
        raise Failure(f"nothing to compare: no event could be read. nri trace show {listed} lists readable events")
    out.table(_COLUMNS, [_row(collision, human=out.human) for collision in collisions])
    if finder.left_out:
        out.note(f"{count(finder.left_out, 'event')} of further containers: not compared")
    if finder.left_out_names:
        out.note(f"{count(finder.left_out_names, 'collision')} of further containers: not counted")
    if not collisions:
        out.note("no two plugins set the same field of the same container")
    return REJECTED if collisions else FAILED if problem_count or finder.left_out else 0


def _declarations(targets: tuple[str, ...]) -> Iterator[tuple[str, Sequence[str]]]:
    """``NN-name`` and `sets` of each plugin of the command line. Raises Failure for a plugin without declarations."""
    from nri.plugins.loader import load
    from nri.testing.trial.plugins import name_in, trial_plugins

    for trial_plugin in trial_plugins(targets, ()) if targets else ():
        step = "replay a recording with it (nri replay --plugin ... --record DIR), and predict from that recording"
        if trial_plugin.is_program:
            raise Failure(f"{trial_plugin.target}: a program cannot declare its fields; {step}", USAGE)
        plugin = load(trial_plugin.target)
        if plugin.sets is None:
            raise Failure(
                f'{trial_plugin.target}: {plugin.__name__} has no sets = ("env.*", ...); add it, or {step}', USAGE
            )
        yield f"{trial_plugin.index}-{name_in(trial_plugin.target) or plugin.name}", plugin.sets


def _row(collision: Collision, *, human: bool) -> dict[str, Any]:
    row: dict[str, Any] = {**collision._asdict(), "count": len(collision.containers)}
    row["known_by"] = "declared" if row.pop("declared") else "answers"
    if human:
        row["field"] = f"{collision.field} {collision.key}".rstrip()
        row["example"] = collision.containers[0] if collision.containers else "any that both change"
    return row
