"""The documentation's page on runtimes, written from the table of the tests.

    python -m tests.real.support_page [--write]

Rules: pure text from `support_matrix`; a test holds the page to it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.real.adjustments import CASES
from tests.real.support_matrix import ADJUSTMENTS, EVENTS, FACTS, RUNTIMES, UPDATES, Row

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/runtimes.md"

TEMPLATE = """\
# What each containerd supports

Measured on the real runtimes by the tests in `tests/real`, which hold every cell of these tables, the ones that say
*ignored* and *no* included. `python -m tests.real.support_page --write` writes this page; do not edit it.

| | containerd | from | NRI library |
|---|---|---|---|
| **1.7** | 1.7.24 | Debian 13 (trixie) | 0.6.1 |
| **2.1** | 2.1.9 | Debian unstable | 0.8.0 |
| **2.4** | 2.4.2 | built from its Go module | 0.12.5 |

*ignored* means that the runtime takes the field and does nothing, without an error: neither the plugin nor the
container's owner is told. A protobuf field that a runtime does not know is lost in the same way.

## Events, in the order in which they come

{events}
The plugin library asks each runtime only for events that it knows. `ValidateContainerAdjustment` needs an answer in
time, and a plugin's handlers run one at a time: one that is late in `create_container` is late here as well, and the
container is refused whatever its failure policy says.

## Around the events

{facts}
## Adjustments

Read back from inside the container, from its process, from its cgroup, or, where none of them shows it, from the OCI
spec.

{adjustments}
## Updates of running containers, unsolicited or returned by handlers

{updates}
Containerd keeps memory limit, CPU shares, quota, period and cpuset, huge pages and unified values of an update; the
rest is dropped.
"""


def page() -> str:
    """The text of docs/reference/runtimes.md."""
    return TEMPLATE.format(
        events=_table("event", [(row.name, row) for row in EVENTS]),
        facts=_table("", [(row.name, row) for row in FACTS.values()]),
        adjustments=_table(
            "adjustment", [(row.name, row) for row in ADJUSTMENTS.values()], [case.where for case in CASES.values()]
        ),
        updates=_table("update", [(row.name, row) for row in UPDATES.values()]),
    )


def _table(first: str, rows: list[tuple[str, Row]], where: list[str] | None = None) -> str:
    """Rows as Markdown, with a column for where it is read back if that is given."""
    head = [first, *RUNTIMES, *(["read back from"] if where else []), "note"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for number, (name, row) in enumerate(rows):
        cells = [cell.partition(":")[0] for cell in row.cells]
        lines.append(f"| {' | '.join([name, *cells, *([where[number]] if where else []), row.note])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} instead of printing it")
    if parser.parse_args().write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
