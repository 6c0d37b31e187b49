"""The numbers of a run: a line for the terminal, and the three tables of tests/torture/RESULTS.md.

The tables stand between marks of the page, and only rows that were measured are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.torture import judge
from tests.torture.course import Outcome
from tests.torture.engine_course import EngineOutcome
from tests.torture.plugin_course import PluginOutcome

PAGE = Path(__file__).resolve().parent / "RESULTS.md"
REGION = r"(<!-- measured: {} -->\n).*?(<!-- end -->)"
NODES, PLUGINS, ENGINES = "attacks-on-nodes", "attacks-on-plugins", "attacks-on-the-engine"
HEADS: Mapping[str, Sequence[str]] = {
    NODES: (
        "| attack | what a plugin does | what happens | events | failed | worst event | memory | log lines |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ),
    PLUGINS: (
        "| attack | what a runtime does | what happens | served again after | memory | log lines |",
        "|---|---|---|---:|---:|---:|",
    ),
    ENGINES: (
        "| attack | what it does | what happens | visits of polite pods | longest visit | memory | log lines |",
        "|---|---|---|---:|---:|---:|---:|",
    ),
}


def line(outcome: Outcome) -> str:
    """One outcome for a terminal."""
    events = sum(map(len, outcome.events))
    counted = " ".join(f"{name}={number}" for name, number in sorted(outcome.count.items()))
    return (
        f"{outcome.attack.name:<24} events {events:>6}, failed {outcome.refused:>5}, worst {outcome.worst_s:>6.2f} s, "
        f"memory {outcome.memory_mib:>+7.1f} MiB, log {outcome.log_lines:>5} lines  {counted[:60]}"
    )


def plugin_line(outcome: PluginOutcome) -> str:
    """One outcome of a hostile runtime for a terminal."""
    return (
        f"{outcome.attack.name:<24} {outcome.seconds:>6.1f} s, memory {outcome.memory_mib:>+7.1f} MiB, "
        f"log {outcome.log_lines:>5} lines"
    )


def row(outcome: Outcome) -> str:
    """One outcome as a row of the page; what does not hold is called open."""
    attack, events = outcome.attack, sum(map(len, outcome.events))
    happens = _open(judge.faults(outcome)) or attack.happens
    return (
        f"| `{attack.name}` | {attack.does} | {happens} | {events:,} | {outcome.refused:,} "
        f"| {outcome.worst_s:.2f} s | {max(0.0, outcome.memory_mib):.0f} MiB | {outcome.log_lines:,} |"
    )


def plugin_row(outcome: PluginOutcome) -> str:
    """One outcome of a hostile runtime as a row of the page."""
    attack = outcome.attack
    after = f"{outcome.seconds:.1f} s" if attack.exits is None else "ends"
    happens = _open(outcome.wrong) or attack.happens
    return (
        f"| `{attack.name}` | {attack.does} | {happens} | {after} | {max(0.0, outcome.memory_mib):.0f} MiB "
        f"| {outcome.log_lines:,} |"
    )


def engine_line(outcome: EngineOutcome) -> str:
    """One outcome of an attack on the engine for a terminal."""
    return (
        f"{outcome.attack.name:<24} done {outcome.done:>4}, visits {outcome.visits:>4}, "
        f"longest {outcome.worst_s:>6.2f} s, memory {outcome.memory_mib:>+7.1f} MiB, log {outcome.log_lines:>5} lines"
    )


def engine_row(outcome: EngineOutcome) -> str:
    """One outcome of an attack on the engine as a row of the page."""
    attack = outcome.attack
    happens = _open(outcome.wrong) or attack.happens
    return (
        f"| `{attack.name}` | {attack.does} | {happens} | {outcome.visits} | {outcome.worst_s:.2f} s "
        f"| {max(0.0, outcome.memory_mib):.0f} MiB | {outcome.log_lines:,} |"
    )


def _open(faults: Sequence[str]) -> str:
    """What does not hold, fit for a cell; "" if all does."""
    text = re.split(r", as |, the first |: \[|: b'|Traceback|traceback", faults[0])[0] if faults else ""
    return f"**open:** {re.sub(r'[|`<>*_]', ' ', text)[:120].strip(' :')}" if text else ""


def write(nodes: Iterable[Outcome], plugins: Iterable[PluginOutcome], engines: Iterable[EngineOutcome] = ()) -> None:
    """Put the rows into the page; rows of attacks that were not run stay."""
    from tests.torture import engine_attacks, runtimes
    from tests.torture.attacks import ROWS

    text = PAGE.read_text(encoding="utf-8")
    text = _replaced(text, NODES, {node.attack.name: row(node) for node in nodes}, [node.name for node in ROWS])
    order = [node.name for node in runtimes.ROWS]
    text = _replaced(text, PLUGINS, {node.attack.name: plugin_row(node) for node in plugins}, order)
    order = [node.name for node in engine_attacks.ROWS]
    text = _replaced(text, ENGINES, {node.attack.name: engine_row(node) for node in engines}, order)
    PAGE.write_text(text, encoding="utf-8")


def _replaced(text: str, table: str, rows: Mapping[str, str], order: Sequence[str]) -> str:
    match = re.search(REGION.format(table), text, re.DOTALL)
    assert match is not None, f"{PAGE} has no place for the table {table}"
    names = {name[1]: line for line in match[0].splitlines() if (name := re.match(r"\| `([a-z0-9-]+)` \|", line))}
    names.update(rows)
    body = "\n".join([*HEADS[table], *(names[name] for name in order if name in names)])
    return text[: match.start()] + f"{match[1]}{body}\n{match[2]}" + text[match.end() :]
