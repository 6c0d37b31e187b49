"""One attack as a row: what the hostile plugin does, what the node must make of it, and how much that may cost.

The bounds are of the node's process and of the whole attack. Times are never asserted but as multiples of a timeout.
Next: `tests.torture.attacks`, the rows; `tests.torture.course`, which runs one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.course import Outcome
    from tests.torture.hostile import Target

#: The index and name of the hostile plugin where an attack chooses no other.
INDEX, NAME = "20", "hostile"


@dataclass(frozen=True)
class Attack:
    """One way to hurt a node.

    Attributes:
        name: for the command line and the test's id.
        does: what the hostile plugin does, for the table.
        happens: what the node makes of it, for the table.
        run: the attack; runs in a process of its own until `Target.over`.
        refusals: texts, of which one is in the error of each event that may fail; none: no event may fail.
        fails: some event must fail, or the attack was none.
        worst: how many request timeouts the worst event may take.
        memory_mib: how much the node's memory may grow, at its peak.
        after_mib: how much of that may stay in the allocator's pools when all is given back.
        log_lines: how many lines the node may log in a second of the attack, beside a hundred.
        node: more options of the node's process (`tests.torture.node.Options`).
        check: more that must hold, as assertions on the outcome.
        prepare: called with the node's folder before it starts.
        root: its preparation gives files to another user.
        short: it is part of the short run, which CI has.
    """

    name: str
    does: str
    happens: str
    run: Callable[[Target], object]
    refusals: tuple[str, ...] = ()
    fails: bool = True
    worst: float = 2.0
    memory_mib: int = 128
    after_mib: int = 48
    log_lines: int = 50
    node: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Outcome], object] | None = None
    prepare: Callable[[Path], object] | None = None
    root: bool = False
    short: bool = True
