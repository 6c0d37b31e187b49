"""How events pass through the plugins along time (`nri.adaptation.peers.turns`).

It shows why every plugin sees all events in one order, while several events are under way.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.pictures.svg import Picture

ALT = (
    "Three plugins as lanes along time, with the events A, B and C. B waits in the queue of the slow plugin 20-pin "
    "until A has left. C does not go to 20-pin, but keeps its place. Every plugin sees A before B before C."
)
LEFT, TOP, LANE, UNIT = 130, 66, 98, 72
#: How far below the top of a lane an event waits, so that two that wait do not cover each other.
QUEUES = {"B": 4, "C": 27}
COLOURS = {"A": "blue", "B": "green", "C": "purple"}
PLUGINS = ("10-injector", "20-pin", "90-audit")


class Stay(NamedTuple):
    """An event at a plugin: asked from `begins` to `ends`; in its queue since `queued`. Equal ends: passes unasked."""

    event: str
    lane: int
    queued: float
    begins: float
    ends: float


STAYS = (
    Stay("A", 0, 0.0, 0.0, 1.6),
    Stay("A", 1, 1.6, 1.6, 5.4),
    Stay("A", 2, 5.4, 5.4, 6.6),
    Stay("B", 0, 0.5, 1.6, 2.8),
    Stay("B", 1, 2.8, 5.4, 7.4),
    Stay("B", 2, 7.4, 7.4, 8.6),
    Stay("C", 0, 2.2, 2.8, 4.2),
    Stay("C", 1, 4.2, 7.4, 7.4),
    Stay("C", 2, 7.4, 8.6, 9.8),
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 492, ALT)
    picture.words(LEFT, 28, "Three events at the same time, from three threads of the runtime", bold=True, size=15)
    picture.words(
        LEFT, 48, "each is at one plugin at a time, each plugin is asked one thing at a time", "soft", size=12
    )
    for number, plugin in enumerate(PLUGINS):
        y = TOP + number * LANE
        picture.line((LEFT, y + LANE - 9), (842, y + LANE - 9), colour="plain")
        picture.words(20, y + 67, plugin, bold=True, size=14)
    for stay in STAYS:
        show(picture, stay)
    y = TOP + len(PLUGINS) * LANE + 14
    picture.arrow((LEFT, y), (842, y))
    picture.words(LEFT - 12, y, "time", "soft", size=12.5, align="end")
    picture.box((LEFT, y + 18, 26, 18), (), "plain")
    picture.words(LEFT + 36, y + 27, "the plugin is at work on it", "soft", size=12.5)
    picture.box((LEFT + 250, y + 18, 26, 18), (), "plain", dashed=True)
    picture.words(LEFT + 286, y + 27, "in the plugin's queue, nothing is held", "soft", size=12.5)
    lines = (
        "A place in the next queue is taken before the plugin at hand is left. So nothing overtakes, and no deadlock",
        "is possible. A slow plugin holds up what is behind it, never what is ahead. C takes its place at `20-pin`",
        "too, which has not subscribed to it: without that, C would reach `90-audit` before B.",
    )
    for number, line in enumerate(lines):
        picture.words(20, y + 58 + number * 19, line, size=12.5)
    return picture


def show(picture: Picture, stay: Stay) -> None:
    """One event at one plugin."""
    y = TOP + stay.lane * LANE
    queued, begins, ends = (LEFT + 4 + moment * UNIT for moment in (stay.queued, stay.begins, stay.ends))
    colour = COLOURS[stay.event]
    if begins > queued:
        row = y + QUEUES[stay.event]
        picture.box((queued, row, begins - queued - 3, 20), (), colour, dashed=True)
        picture.words(queued + 7, row + 10, stay.event, colour, size=12, bold=True)
    if ends > begins:
        picture.box((begins, y + 50, ends - begins - 3, 34), stay.event, colour, size=15)
    else:
        picture.arrow((begins, y + QUEUES[stay.event]), (begins, y + LANE - 8), colour=colour)
        picture.words(begins + 8, y + 67, "C passes, unasked", colour, size=12, bold=True)
