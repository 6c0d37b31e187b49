"""What happens to the request and to the plugin when a plugin is late: the failure policy as three questions.

Numbers and texts are those of the code (`nri.adaptation.dispatch.invoker`).
"""

from __future__ import annotations

from nri.adaptation.peers.breaker import Breaker
from nri.adaptation.peers.state import State
from nri.api import naming
from tools.pictures.svg import Picture

BREAKER = Breaker()
ALT = (
    "A plugin has not answered within its timeout. If the runtime's own deadline has passed, the request fails and no "
    "plugin is blamed. Otherwise the request continues, or fails if the policy says so; the plugin stays and is late, "
    f"and after {BREAKER.misses} misses it is left out for {BREAKER.retry_s:g} seconds."
)
ASKED, DUE, LATE = 110, 400, 640


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 560, ALT)
    draw_time(picture)
    picture.arrow((DUE, 92), (DUE, 120), colour="amber")
    picture.box((DUE - 150, 120, 300, 36), "has the runtime's own deadline passed?", "amber")
    picture.arrow((DUE + 150, 138), (588, 138), colour="amber")
    picture.words(DUE + 169, 126, "yes", "amber", size=12.5, align="middle")
    picture.box(
        (588, 114, 252, 48), ["the request fails", "`DeadlineExceeded`, no plugin is blamed"], "red", bold=True, size=13
    )
    picture.arrow((DUE, 156), (DUE, 194), colour="amber")
    picture.words(DUE + 12, 174, "no", "amber", size=12.5)
    picture.box((DUE - 60, 194, 120, 32), "a miss", "amber", size=14)
    draw_plugin(picture)
    draw_request(picture)
    picture.words(
        24,
        538,
        "Who decides: the operator's `policy.toml`, else what the plugin has declared, else the default.",
        size=12.5,
    )
    return picture


def draw_time(picture: Picture) -> None:
    """The plugin's time."""
    picture.arrow((60, 70), (812, 70))
    picture.box((ASKED, 58, DUE - ASKED, 24), "the plugin is at work", "blue", size=12.5)
    picture.box((DUE, 58, LATE - DUE, 24), (), "plain", dashed=True)
    for x, words, colour in (
        (ASKED, "asked", "ink"),
        (DUE, f"`timeout`: {naming.REQUEST_TIMEOUT_S:g} s", "amber"),
        (LATE, "a late answer is dropped", "soft"),
    ):
        picture.line((x, 50), (x, 90), colour="amber" if colour == "amber" else "plain")
        picture.words(x, 38, words, colour, size=12.5, align="middle", bold=colour == "amber")


def draw_plugin(picture: Picture) -> None:
    """The left half: the plugin."""
    picture.arrow((DUE - 60, 210), (200, 210), (200, 250), colour="amber")
    picture.words(24, 234, "the plugin", bold=True, size=15)
    picture.box((40, 250, 320, 34), "may it stay? `keep_connected`", "amber")
    picture.arrow((120, 284), (120, 322), colour="green")
    picture.words(128, 303, "yes, by default", "green", size=12.5)
    picture.box((24, 322, 212, 58), ["stays", f"{State.LATE.value}, until it answers again"], "green", bold=True)
    picture.arrow((120, 380), (120, 430), colour="amber")
    picture.words(128, 404, f"{BREAKER.misses} in a row: `breaker`", "amber", size=12.5)
    lines = ["left out", f"{State.OPEN.value} for {BREAKER.retry_s:g} s,", "then tried with one request"]
    picture.box((24, 430, 212, 76), lines, "amber", bold=True)
    picture.arrow((310, 284), (310, 322), colour="red")
    picture.words(318, 303, "no", "red", size=12.5)
    picture.box((252, 322, 150, 58), ["disconnected", "may connect again"], "red", bold=True)


def draw_request(picture: Picture) -> None:
    """The right half: the runtime's request."""
    picture.arrow((DUE + 60, 210), (640, 210), (640, 250), colour="amber")
    picture.words(836, 234, "the request", bold=True, size=15, align="end")
    picture.box((450, 250, 386, 34), "must it answer here? `fail_request`, `required`", "amber")
    picture.arrow((540, 284), (540, 322), colour="green")
    picture.words(548, 303, "no, by default", "green", size=12.5)
    picture.box(
        (450, 322, 184, 76), ["continues", "with the next plugin, as if", "it had not been asked"], "green", bold=True
    )
    picture.arrow((746, 284), (746, 322), colour="red")
    picture.words(754, 303, "yes", "red", size=12.5)
    picture.box((652, 322, 184, 58), ["fails", "naming the plugin"], "red", bold=True)
    lines = (
        "Stopping and removing never wait for a `required` plugin.",
        "A validator that is late refuses. A shadow fails nothing.",
        "An error is an answer, and no miss: the request fails",
        "with it, and the plugin stays.",
    )
    for number, line in enumerate(lines):
        picture.words(450, 432 + number * 20, line, "soft", size=12.5)
