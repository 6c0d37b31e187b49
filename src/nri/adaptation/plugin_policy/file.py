"""The operator's file about plugins: ``policy.toml`` as one checked table per plugin.

One TOML table per ``NN-name``; ``[defaults]`` holds for every plugin, key by key, and counts as the operator's word
just the same. Every mistake of the file is reported at once, each with line, key, value and what to write instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

from nri.adaptation.plugin_policy.allow import Allow, EventName
from nri.api import naming
from nri.api.selectors import Filters, Pattern
from nri.config import Duration, Source, read_file
from nri.config.complaint import Problem, together
from nri.config.layers import located
from nri.config.syntax import parse_text
from nri.config.typed import Partial, build, check

__all__ = ["DEFAULTS", "BreakerTable", "RequiredTable", "Table", "parse", "read"]

#: The keys of one table, and its `timeout` by event.
_Checked = tuple[Partial, dict[str, float] | None]

#: Name of the table that holds for every plugin.
DEFAULTS = "defaults"

#: Longest time that any key may name, in seconds: a day. More is a slip of a unit.
_LONGEST_S = 86_400.0

#: User ids end below: the last number means none.
_UIDS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class RequiredTable:
    """``required = { exempt_namespaces = [...] }``: required, but not by pods of these namespaces."""

    exempt_namespaces: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class BreakerTable:
    """``breaker = { misses = 5, retry = "30s" }``."""

    misses: int = 5
    retry: Duration = 30.0


class Table:
    """The keys that a plugin's table, or ``[defaults]``, may hold. None: not given."""

    timeout: Duration | None = None
    keep_connected: bool | None = None
    fail_request: bool | list[EventName] | None = None
    required: bool | RequiredTable | None = None
    breaker: bool | BreakerTable | None = None
    restart: Literal["on-failure", "always", "never"] | None = None
    shadow: bool | None = None
    allow: Allow | None = None
    filters: Filters | None = None
    uid: int | list[int] | None = None
    launched: bool | None = None
    #: Of ``[defaults]`` alone: it is no rule for plugins that the file names.
    strict: bool | None = None
    #: Set from a `timeout` that is a table: seconds by event; "default" for all others.
    _timeouts: dict[str, float] | None = None

    @property
    def timeouts(self) -> dict[str, float]:
        """Seconds by the RPC name of the event; "default" for the events that are not named."""
        if self._timeouts is not None:
            return self._timeouts
        return {} if self.timeout is None else {"default": self.timeout}


class _ByEvent:
    """A `timeout` that differs between events."""

    timeout: dict[Literal["default", EventName], Duration]


def read(path: str) -> dict[str, Table]:
    """The tables of a file by name, `DEFAULTS` among them if given, and already part of every other.

    Raises ConfigError for the first mistake, with all others in `others`.
    """
    return parse(read_file(path, "toml"))


def parse(source: Source) -> dict[str, Table]:
    """The tables of a text by name, as `read` gives them."""
    tree = parse_text(source) or {}
    problems: list[Problem] = []
    tables: dict[str, Table] = {}
    defaults = tree.get(DEFAULTS)
    given = {key: value for key, value in defaults.items() if key != "strict"} if isinstance(defaults, dict) else {}
    common = _checked(given, (DEFAULTS,), [])  # once, and not for each table; its own mistakes are reported with it
    nothing = _checked({}, (DEFAULTS,), [])
    for name, value in tree.items():
        if name != DEFAULTS and not _is_plugin(name, value, problems):
            continue
        table = _table(name, value, nothing if name == DEFAULTS else common, problems)
        if table is not None:
            tables[name] = table
    if problems:
        raise together(located(source, problems))
    return tables


def _is_plugin(name: str, value: object, problems: list[Problem]) -> bool:
    """Whether a top-level key is a plugin's table; complains if not."""
    if not isinstance(value, dict):
        problems.append(Problem((name,), "is outside of a table", f'put it under [{DEFAULTS}] or ["NN-name"]'))
        return False
    try:
        naming.split_file_name(name)
    except ValueError:
        hint = f"did you mean [{DEFAULTS}]?" if name.lower() == DEFAULTS else f'such as ["10-{name}"], or [{DEFAULTS}]'
        problems.append(Problem((name,), "not the name of a plugin: expected its index and its name", hint))
        return False
    return True


def _table(name: str, tree: Any, common: _Checked, problems: list[Problem]) -> Table | None:
    """One table on top of the common one."""
    whole, timeouts = common[0].copy(), common[1]
    given, own_timeouts = _checked(tree, (name,), problems)
    whole.update(given)
    before = len(problems)
    made = cast(Table | None, build(whole, (name,), problems))
    if made is None or len(problems) > before:
        return None
    if "timeout" in (tree if isinstance(tree, dict) else {}):
        timeouts = own_timeouts
    if timeouts is not None:
        made._timeouts = timeouts
    _bounds(made, name, tree, problems)
    return made


def _checked(tree: Any, path: tuple[str, ...], problems: list[Problem]) -> _Checked:
    """The keys of one table, and apart from them a `timeout` by event: a union of the two would blur the complaints."""
    timeouts = None
    if isinstance(tree, dict) and isinstance(tree.get("timeout"), dict):
        by_event = {"timeout": tree["timeout"]}
        tree = {key: value for key, value in tree.items() if key != "timeout"}
        timeouts = check(_ByEvent, by_event, path, problems).values.get("timeout")
        if timeouts is not None:
            timeouts.pop(None, None)  # the key of names that are no events, which are in `problems` already
    return check(Table, tree, path, problems), timeouts


def _bounds(table: Table, name: str, tree: Any, problems: list[Problem]) -> None:
    """Check what types cannot say. Only for keys that the table gives itself, so that [defaults] is blamed once."""
    given = tree if isinstance(tree, dict) else {}
    if "timeout" in given:
        for event, seconds in table.timeouts.items():
            inner = (event,) if isinstance(given["timeout"], dict) else ()
            _duration(seconds, (name, "timeout", *inner), problems)
    if "strict" in given and name != DEFAULTS:
        reason = f"holds for plugins that no table names, and this one is named: it belongs under [{DEFAULTS}]"
        problems.append(Problem((name, "strict"), reason, ""))
    if "uid" in given and table.uid is not None:
        wrong = [uid for uid in ([table.uid] if isinstance(table.uid, int) else table.uid) if not 0 <= uid < _UIDS]
        problems += [Problem((name, "uid"), f"{uid} is not a user id", "such as 0, or [0, 1000]") for uid in wrong[:1]]
    if "breaker" in given and isinstance(table.breaker, BreakerTable):
        _duration(table.breaker.retry, (name, "breaker", "retry"), problems)
        if not 1 <= table.breaker.misses <= 1_000_000:
            reason = f"expected 1 or more, not {table.breaker.misses}"
            problems.append(Problem((name, "breaker", "misses"), reason, "breaker = false switches it off"))


def _duration(seconds: float | None, path: tuple[str, ...], problems: list[Problem]) -> None:
    if seconds is not None and not (math.isfinite(seconds) and 0.001 <= seconds <= _LONGEST_S):
        problems.append(
            Problem(path, f"expected between 1ms and 24h, not {seconds:g} s", 'such as 2, "500ms" or "1m30s"')
        )
