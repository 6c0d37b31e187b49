"""`nri predict`: which plugins will collide, told from recordings, and from what plugins declare.

Next: `nri.trace.prediction`, which finds them.
"""

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
    Column("SUCH AS", "example", 80),
    Column("REFUSED", "happened", extra=True),
    Column("KNOWN BY", "known_by", extra=True),
]


@click.command(
    cls=Verb,
    examples=[
        "nri predict traces                      # what has collided, and what was merged in time",
        "nri predict traces new                  # new: nri replay traces --plugin 30=new.py --record new",
        "nri predict --plugin 10=first.py --plugin 20=second.py    # what their classes declare as sets",
        "nri predict traces --plugin 20=new.py   # beside what others have set on the node",
        "nri predict traces -o json | jq '.[] | select(.happened == 0)'",
    ],
)
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, type=PATH)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="[NN=]PLUGIN",
    help="A plugin that takes part with what it declares (sets), as NAME, FILE or MODULE:CLASS; repeatable.",
)
@click.pass_obj
def command(settings: Settings, paths: tuple[str, ...], plugins: tuple[str, ...]) -> int:
    """Tell which plugins collide on which fields of which containers, before a pod fails because of it.

    Give recordings of the same containers: of the node, and of nri replay with a plugin that you want to add. Answers
    for one container are laid over each other, in the order of the plugins' indices; plugins with the same index and
    name are one. Values do not matter, so recordings made without --redact none serve as well.

    --plugin adds one that was not recorded, with all fields that its class declares (sets); its file is loaded, and
    none of its handlers runs. It may set these fields, but need not, so KNOWN BY has "declared" for them, and not
    "answers".

    Recordings of different nodes do not collide with each other: containers are compared by their id. The exit code
    is 4 if plugins collide, and 1 if none does but something could not be read.
    """
    from nri.trace.history import Trace
    from nri.trace.prediction import CollisionFinder

    out = Output(settings)
    unread = events = 0
    if not paths and not plugins:
        raise Failure("nothing to predict from: give recordings, or plugins with --plugin", USAGE)
    traces = [Trace(path) for path in paths]
    foresight = CollisionFinder(recording_bytes=sum(trace.size_bytes for trace in traces))
    for label, sets in _declarations(plugins):
        foresight.declare(label, sets)
    for trace in traces:
        for event in out.counted(trace.events(), "event"):
            events += 1
            foresight.take(event)
        for line in trace.problems:
            out.note(line)
        unread += len(trace.problems)
    found = foresight.collisions()
    if paths and not events and not found:  # plugins may collide by what they declare
        listed = " ".join(paths)
        raise Failure(f"nothing to predict from: no event could be read; nri trace show {listed} lists what can be")
    out.table(_COLUMNS, [_row(collision, human=out.human) for collision in found])
    if foresight.left_out:
        out.note(f"{count(foresight.left_out, 'event')} of further containers: not looked at")
    if foresight.left_out_names:
        out.note(f"{count(foresight.left_out_names, 'collision')} of further containers: not counted")
    if not found:
        out.note("no two plugins set the same field of the same container")
    return REJECTED if found else FAILED if unread or foresight.left_out else 0


def _declarations(targets: tuple[str, ...]) -> Iterator[tuple[str, Sequence[str]]]:
    """``NN-name`` and `sets` of each plugin of the command line. Failure for one that does not declare any."""
    from nri.plugins.loader import load
    from nri.testing.trial.plugins import name_in, trial_plugins

    for each in trial_plugins(targets, ()) if targets else ():
        step = "replay a recording with it (nri replay --plugin ... --record DIR), and predict from that"
        if each.is_program:
            raise Failure(f"{each.target}: a program cannot say what it sets; {step}", USAGE)
        plugin = load(each.target)
        if plugin.sets is None:
            raise Failure(f'{each.target}: {plugin.__name__} has no sets = ("env.*", ...); add it, or {step}', USAGE)
        yield f"{each.index}-{name_in(each.target) or plugin.name}", plugin.sets


def _row(collision: Collision, *, human: bool) -> dict[str, Any]:
    row: dict[str, Any] = {**collision._asdict(), "count": len(collision.containers)}
    row["known_by"] = "declared" if row.pop("declared") else "answers"
    if human:
        row["field"] = f"{collision.field} {collision.key}".rstrip()
        row["example"] = collision.containers[0] if collision.containers else "any that both change"
    return row
