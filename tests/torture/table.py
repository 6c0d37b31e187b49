"""The numbers of a run: a line for the terminal, and the table of docs/reliability.md.

The table stands between two marks of the page, and only what was measured is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.torture.course import Outcome

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
REGION = re.compile(r"(<!-- measured: torture -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = (
    "| attack | what it does | what happens | events, failed in its name | worst event | memory | log lines |",
    "|---|---|---|---|---|---|---|",
)


def line(outcome: Outcome) -> str:
    """One outcome for a terminal."""
    events = sum(map(len, outcome.events))
    counted = " ".join(f"{name}={number}" for name, number in sorted(outcome.count.items()))
    return (
        f"{outcome.attack.name:<24} events {events:>6}, failed {outcome.refused:>5}, worst {outcome.worst_s:>6.2f} s, "
        f"memory {outcome.memory_mib:>+7.1f} MiB, log {outcome.log_lines:>5} lines  {counted[:90]}"
    )


def row(outcome: Outcome) -> str:
    """One outcome as a row of the page."""
    attack = outcome.attack
    events = f"{sum(map(len, outcome.events)):,}, {outcome.refused:,}"
    return (
        f"| `{attack.name}` | {attack.does} | {attack.happens} | {events} | {outcome.worst_s:.2f} s "
        f"| {max(0.0, outcome.memory_mib):+.0f} MiB | {outcome.log_lines:,} |"
    )


def write(outcomes: Iterable[Outcome]) -> None:
    """Put the rows into the page; rows of attacks that were not run stay."""
    text = PAGE.read_text(encoding="utf-8")
    match = REGION.search(text)
    assert match is not None, f"{PAGE} has no place for the table"
    rows = {name: each for each in match[0].splitlines() if (name := _name(each))}
    rows.update((outcome.attack.name, row(outcome)) for outcome in outcomes)
    from tests.torture.attacks import ROWS

    kept = [rows[each.name] for each in ROWS if each.name in rows]
    body = "\n".join([*HEAD, *kept])
    PAGE.write_text(text[: match.start()] + f"{match[1]}{body}\n{match[2]}" + text[match.end() :], encoding="utf-8")


def _name(each: str) -> str:
    match = re.match(r"\| `([a-z0-9-]+)` \|", each)
    return match[1] if match else ""
