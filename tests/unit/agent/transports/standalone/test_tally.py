"""The counters of a round."""

from __future__ import annotations

from nri.agent.transports.standalone.tally import Tally
from nri.host import Outcome, Result


def test_a_round_is_shown_in_one_line_with_the_first_error() -> None:
    tally = Tally()
    tally.items += 3
    tally.wrote([Result("a", "cpu.shares", 1, Outcome.APPLIED), Result("b", "cpu.shares", 1, Outcome.REFUSED, "no")])
    assert str(tally) == "3 decisions, 1 written, 1 refused or clamped"
    tally.failed("ns/p\n", ["bad\x1b[31m", "worse"])
    assert str(tally).endswith(", 2 errors (ns/p\\n: bad\\x1b[31m)")
    tally.failed("x", ["y" * 1000])
    assert len(str(tally)) < 300
