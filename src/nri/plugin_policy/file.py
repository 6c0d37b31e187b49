"""The operator's ``policy.toml``: one checked table per plugin.

There is a TOML table for each ``NN-name``. ``[defaults]`` sets keys for all plugins, with the same rank as their
tables.
All mistakes of the file are reported together, each with line, key, value and a valid example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

from nri.api import naming
from nri.api.selectors import Filters, Pattern
from nri.config import Duration, Source, read_file
from nri.config.complaint import Problem, combined_error
from nri.config.layers import located_errors
from nri.config.syntax import parse_text
from nri.config.typed import Partial, build, check
from nri.plugin_policy.allow import Allow, EventName

#: The keys of a table, and its `timeout` by event.
_Checked = tuple[Partial, dict[str, float] | None]

#: The name of the table whose keys apply to every plugin.
DEFAULTS = "defaults"

#: The longest duration of any key, in seconds: a day. A longer one is probably written with a wrong unit.
_MAX_DURATION_S = 86_400.0

#: The limit of user ids: the last number means "no user".
_UID_LIMIT = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class RequiredTable:
    """The value ``required = { exempt_namespaces = [...] }``: required, except for pods of these namespaces."""

    exempt_namespaces: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class BreakerTable:
    """The value ``breaker = { misses = 5, retry = "30s" }``."""

    misses: int = 5
    retry: Duration = 30.0


class Table:
    """The keys of a plugin's table, or of ``[defaults]``. A key that is not set is None."""

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
    #: Only in ``[defaults]``: it applies to plugins without a table.
    strict: bool | None = None
    #: Seconds by event if `timeout` is a table; the key "default" applies to all other events.
    _timeouts: dict[str, float] | None = None

    @property
    def timeouts(self) -> dict[str, float]:
        """Seconds by the RPC name of the event. The key "default" applies to all other events."""
        if self._timeouts is not None:
            return self._timeouts
        return {} if self.timeout is None else {"default": self.timeout}


class _ByEvent:
    """A `timeout` that differs between events."""

    timeout: dict[Literal["default", EventName], Duration]


def read(path: str) -> dict[str, Table]:
    """Read the tables of a file by name, with the keys of `DEFAULTS` merged into every table.

    Raises ConfigError for the first mistake; its `others` are the other mistakes.
    """
    return parse(read_file(path, "toml"))


def parse(source: Source) -> dict[str, Table]:
    """Parse the tables of a text by name, as `read`."""
    tree = parse_text(source) or {}
    problems: list[Problem] = []
    tables: dict[str, Table] = {}
    defaults = tree.get(DEFAULTS)
    plugin_defaults = (
        {key: value for key, value in defaults.items() if key != "strict"} if isinstance(defaults, dict) else {}
    )
    common = _checked_table(
        plugin_defaults, (DEFAULTS,), []
    )  # checked once, so that its mistakes are reported only once
    empty = _checked_table({}, (DEFAULTS,), [])
    for name, value in tree.items():
        if name != DEFAULTS and not _is_plugin(name, value, problems):
            continue
        table = _table(name, value, empty if name == DEFAULTS else common, problems)
        if table is not None:
            tables[name] = table
    if problems:
        raise combined_error(located_errors(source, problems))
    return tables


def _is_plugin(name: str, value: object, problems: list[Problem]) -> bool:
    """Whether a top-level key is a plugin's table. Adds a problem if it is not."""
    if not isinstance(value, dict):
        problems.append(Problem((name,), "must be in a table", f'put it under [{DEFAULTS}] or ["NN-name"]'))
        return False
    try:
        naming.split_file_name(name)
    except ValueError:
        hint = (
            f"did you mean [{DEFAULTS}]?" if name.lower() == DEFAULTS else f'for example ["10-{name}"], or [{DEFAULTS}]'
        )
        problems.append(Problem((name,), "not the name of a plugin: expected its index and its name", hint))
        return False
    return True


def _table(name: str, tree: Any, common: _Checked, problems: list[Problem]) -> Table | None:
    """A plugin's table, with the keys of the common table."""
    values, timeouts = common[0].copy(), common[1]
    own_values, own_timeouts = _checked_table(tree, (name,), problems)
    values.update(own_values)
    before = len(problems)
    table = cast(Table | None, build(values, (name,), problems))
    if table is None or len(problems) > before:
        return None
    if "timeout" in (tree if isinstance(tree, dict) else {}):
        timeouts = own_timeouts
    if timeouts is not None:
        table._timeouts = timeouts
    _check_bounds(table, name, tree, problems)
    return table


def _checked_table(tree: Any, path: tuple[str, ...], problems: list[Problem]) -> _Checked:
    """Check the keys of a table. A `timeout` by event is checked separately: a union type would give unclear errors."""
    timeouts = None
    if isinstance(tree, dict) and isinstance(tree.get("timeout"), dict):
        by_event = {"timeout": tree["timeout"]}
        tree = {key: value for key, value in tree.items() if key != "timeout"}
        timeouts = check(_ByEvent, by_event, path, problems).values.get("timeout")
        if timeouts is not None:
            timeouts.pop(None, None)  # the key of unknown events, which are in `problems` already
    return check(Table, tree, path, problems), timeouts


def _check_bounds(table: Table, name: str, tree: Any, problems: list[Problem]) -> None:
    """Check limits beyond types. Only for the table's own keys, so that mistakes in [defaults] are reported once."""
    keys = tree if isinstance(tree, dict) else {}
    if "timeout" in keys:
        for event, seconds in table.timeouts.items():
            inner = (event,) if isinstance(keys["timeout"], dict) else ()
            _check_duration(seconds, (name, "timeout", *inner), problems)
    if "strict" in keys and name != DEFAULTS:
        reason = f"applies only to plugins without a table: move it to [{DEFAULTS}]"
        problems.append(Problem((name, "strict"), reason, ""))
    if "uid" in keys and table.uid is not None:
        wrong = [uid for uid in ([table.uid] if isinstance(table.uid, int) else table.uid) if not 0 <= uid < _UID_LIMIT]
        problems += [
            Problem((name, "uid"), f"{uid} is not a user id", "for example 0, or [0, 1000]") for uid in wrong[:1]
        ]
    if "breaker" in keys and isinstance(table.breaker, BreakerTable):
        _check_duration(table.breaker.retry, (name, "breaker", "retry"), problems)
        if not 1 <= table.breaker.misses <= 1_000_000:
            reason = f"expected 1 or more, not {table.breaker.misses}"
            problems.append(Problem((name, "breaker", "misses"), reason, "breaker = false switches it off"))


def _check_duration(seconds: float | None, path: tuple[str, ...], problems: list[Problem]) -> None:
    if seconds is not None and not (math.isfinite(seconds) and 0.001 <= seconds <= _MAX_DURATION_S):
        problems.append(
            Problem(path, f"expected between 1ms and 24h, not {seconds:g} s", 'for example 2, "500ms" or "1m30s"')
        )
