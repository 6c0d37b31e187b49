"""The handshake between a plugin and the runtime, from the connection to the first event.

The plugin's states are those of `nri.adaptation.peers.state`.
"""

from __future__ import annotations

from nri.adaptation.peers.state import State
from tools.pictures.svg import Picture

PLUGIN, RUNTIME, NOTES = 190, 520, 560
ALT = (
    "The plugin calls RegisterPlugin; the runtime calls Configure, whose reply names the events, and then Synchronize "
    "with all pods and containers. Events for the plugin wait meanwhile. Then the plugin gets events, and may send "
    "UpdateContainers."
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 610, ALT)
    for x, name, words, colour in (
        (PLUGIN, "plugin", "`nri.stub`", "green"),
        (RUNTIME, "runtime", "`nri.adaptation`", "blue"),
    ):
        picture.box((x - 75, 20, 150, 46), [name, words], colour, bold=True, size=14)
        picture.line((x, 66), (x, 592), colour=colour)
    message(picture, 100, "connects", to_runtime=True)
    state(picture, 112, State.CONNECTED)
    note(picture, 104, ["silent for 5 s: closed"])
    message(picture, 142, "`RegisterPlugin`  name, index", to_runtime=True)
    state(picture, 154, State.REGISTERED)
    note(picture, 150, ["a name that is taken, or wrong:", "refused, with the reason"])
    message(picture, 178, "its reply, perhaps only after Configure", reply=True)
    message(picture, 216, "`Configure`  configuration, timeouts")
    message(picture, 252, "events wanted, failure policy", to_runtime=True, reply=True)
    state(picture, 264, State.CONFIGURED)
    picture.box((RUNTIME - 12, 278, 24, 64), (), "amber")
    picture.words(NOTES, 291, "the sync gate: alone for a moment", "amber", size=12.5, bold=True)
    note(picture, 309, ["no event is under way; the state is read,", "and the plugin enters the chain"])
    state(picture, 336, State.SYNCHRONIZING)
    message(picture, 372, "`Synchronize`  all pods and containers")
    note(picture, 372, ["events for it wait at its lock, in order;", "other plugins are asked as always"])
    picture.words((PLUGIN + RUNTIME) / 2, 390, "in several parts, if it is much", "soft", size=12, align="middle")
    message(picture, 422, "updates that it asks for", to_runtime=True, reply=True)
    state(picture, 434, State.ACTIVE)
    message(picture, 478, "`CreateContainer`  and other events")
    note(picture, 478, ["first those that have waited"])
    message(picture, 514, "its answer", to_runtime=True, reply=True)
    message(picture, 556, "`UpdateContainers`  at any time", to_runtime=True)
    note(picture, 556, ["applied by a worker, beside events"])
    picture.words(16, 90, "its state", "soft", size=12)
    return picture


def message(picture: Picture, y: float, words: str, *, to_runtime: bool = False, reply: bool = False) -> None:
    """An arrow between the two sides with words over it; a reply is dashed."""
    ends = [(PLUGIN + 2, y), (RUNTIME - 2, y)]
    if not to_runtime:
        ends.reverse()
    picture.arrow(*ends, colour="green" if to_runtime else "blue", dashed=reply)
    picture.words((PLUGIN + RUNTIME) / 2, y - 11, words, align="middle", size=13, room=RUNTIME - PLUGIN - 10)


def state(picture: Picture, y: float, reached: State) -> None:
    """The state that the plugin is in from here on."""
    picture.words(16, y, reached.value, "purple", size=12.5, bold=True, room=120)
    picture.line((130, y), (PLUGIN - 6, y), colour="plain", dashed=True)


def note(picture: Picture, y: float, lines: list[str]) -> None:
    """Words beside the runtime."""
    for number, line in enumerate(lines):
        picture.words(NOTES, y + number * 17, line, "soft", size=12.5)
