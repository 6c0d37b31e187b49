"""Make a found case small: take parts away as long as the difference stays.

Works on the JSON of the case, whatever drew it: whole plugins first, then keys and elements from the outside in, then
simpler values. Next: `__main__`, or the tests.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.differential.generate import Case

Path = tuple[str | int, ...]

#: Without these a line is not a case.
_NEEDED = ("id", "op", "plugins", "name", "index", "spec")


def shrink(case: Case, still_differs: Callable[[Case], bool], limit: int = 3000) -> Case:
    """The smallest case found with at most so many tries; `case` itself is not changed."""
    best = {key: value for key, value in case.items() if key != "expect"}
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(best):
            tries += 1
            if tries > limit:
                return best
            if still_differs(candidate):
                best, smaller = candidate, True
                break
    return best


def _candidates(case: Case) -> Iterator[Case]:
    paths = sorted(_paths(case, ()), key=len)
    for path in paths:
        if not (len(path) == 1 and path[0] in _NEEDED) and not (len(path) == 3 and path[2] in _NEEDED):
            yield _without(case, path)
    for path in paths:
        value = _at(case, path)
        for simple in _simpler(value, path):
            changed = copy.deepcopy(case)
            _at(changed, path[:-1])[path[-1]] = simple
            yield changed


def _simpler(value: Any, path: Path) -> list[Any]:
    if path in {("id",), ("op",)} or path[-1] in {"name", "index"}:
        return []
    if isinstance(value, dict) and value and path[:-1] != ("plugins",):
        return [{}]
    if isinstance(value, str) and len(value) > 1:
        return ["1"] if value.lstrip("-").isdigit() else []
    return []


def _paths(value: Any, path: Path) -> Iterator[Path]:
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield (*path, key)
        yield from _paths(entry, (*path, key))


def _at(case: Any, path: Path) -> Any:
    for key in path:
        case = case[key]
    return case


def _without(case: Case, path: Path) -> Case:
    changed = copy.deepcopy(case)
    del _at(changed, path[:-1])[path[-1]]
    return changed
