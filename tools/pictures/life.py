"""The states of a plugin's registration, from `nri.adaptation.peers.state`, and what ends it."""

from __future__ import annotations

from nri.adaptation.peers.state import State
from tools.pictures.svg import Picture

ALT = (
    "A plugin is connected, then registered, configured after Configure, and active after Synchronize. It is gone if "
    "it is silent for 5 seconds, has a bad name or index, fails Configure, or loses its connection; then it connects "
    "again."
)
STEPS = (
    (State.CONNECTED, "RegisterPlugin", "silent for 5 s"),
    (State.REGISTERED, "Configure", "a bad name or index"),
    (State.CONFIGURED, "Synchronize", "an error, or too late"),
    (State.ACTIVE, "", "connection lost"),
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 250, ALT)
    width, gap = 140, 72
    for number, (state, call, end) in enumerate(STEPS):
        x = 28 + number * (width + gap)
        colour = "green" if state is State.ACTIVE else "purple"
        picture.box((x, 60, width, 44), state.value, colour, bold=True, size=14)
        picture.arrow((x + width / 2, 104), (x + width / 2, 182), colour="red", dashed=True)
        picture.words(x + width / 2 + 8, 142, end, "red", size=11.5)
        if call:
            picture.arrow((x + width, 82), (x + width + gap - 2, 82), colour="purple")
            picture.words(x + width + gap / 2, 40, call, "ink", size=12, align="middle")
    end_text = f"{State.GONE.value}: what it has adjusted stays; it connects again"
    picture.box((28, 184, 776, 40), end_text, "red", size=13.5)
    picture.words(734, 40, "events, updates", "green", size=12, align="middle")
    picture.arrow((28 + 20, 184), (28 + 20, 106), colour="plain")
    return picture
