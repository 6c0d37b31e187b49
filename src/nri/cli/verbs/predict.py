"""`nri predict`: which plugins will collide, told from recordings. Next: `nri.trace.predict`, which finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, REJECTED
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from nri.trace.predict import Collision

_COLUMNS = [
    Column("FIELD", "field", 60),
    Column("PLUGIN", "first"),
    Column("AND", "second"),
    Column("EVENT", "event"),
    Column("CONTAINERS", "count"),
    Column("SUCH AS", "example", 80),
    Column("REFUSED", "happened", extra=True),
]


@click.command(
    cls=Verb,
    examples=[
        "nri predict traces                      # what has collided, and what was merged in time",
        "nri predict traces new                  # new: nri replay traces --plugin 30=new.py --record new",
        "nri predict traces -o json | jq '.[] | select(.happened == 0)'",
    ],
)
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def command(settings: Settings, paths: tuple[str, ...]) -> int:
    """Tell which plugins collide on which fields of which containers, before a pod fails of it.

    Give recordings of the same containers: of the node, and of nri replay with a plugin that is to come. Answers for
    one container are laid over each other, in the order of the plugins' indices; plugins with the same index and name
    are one. Values do not matter, so recordings made without --redact none serve as well.

    With several recordings at different nodes nothing collides: containers are known by their id. The exit code is 4
    if plugins collide, and 1 if none does but something could not be read.
    """
    from nri.trace.history import Trace
    from nri.trace.predict import Foresight

    out, foresight = Output(settings), Foresight()
    unread = 0
    traces = [Trace(path) for path in paths]
    for trace in traces:
        for event in trace.events():
            foresight.take(event)
        for line in trace.problems:
            out.note(line)
        unread += len(trace.problems)
    found = foresight.collisions()
    out.table(_COLUMNS, [_row(collision, human=out.human) for collision in found])
    if foresight.left:
        out.note(f"{count(foresight.left, 'event')} of further containers: not looked at")
    if not found:
        out.note("no two plugins set the same field of the same container")
    return REJECTED if found else FAILED if unread or foresight.left else 0


def _row(collision: Collision, *, human: bool) -> dict[str, Any]:
    row: dict[str, Any] = {**collision._asdict(), "count": len(collision.containers)}
    if human:
        row["field"] = f"{collision.field} {collision.key}".rstrip()
        row["example"] = collision.containers[0]
    return row
