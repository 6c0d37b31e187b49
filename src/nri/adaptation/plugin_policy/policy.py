"""The policy of one plugin, as the operator and the plugin declared it, and the file that it comes from.

Order for every key: the operator's value (the plugin's table, else ``[defaults]``), else what the plugin declared when
it subscribed, else the default. `PluginPolicy` is a frozen value made for the hot path: events go by number, and
nothing is parsed or looked up by name when a request is on its way. `Policies` keeps the file: `refresh` costs one
`stat`; a part that holds a policy asks for it again when `generation` has moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from nri.adaptation.plugin_policy import file as policy_file
from nri.adaptation.plugin_policy.allow import Allow, EventName
from nri.adaptation.plugin_policy.file import BreakerTable, RequiredTable, Table
from nri.api.events import ALL, BY_RPC, EVENTS, EventMask
from nri.api.messages import FailurePolicy
from nri.api.selectors import Filters, Pattern, matches
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.rules import Rules

__all__ = ["DEFAULT_PATH", "DISPOSAL_EVENTS", "REQUIRED_EVENTS", "PluginPolicy", "Policies", "resolve"]

#: Where the operator writes.
DEFAULT_PATH = "/etc/nri/policy.toml"

#: The events that are refused while a required plugin is absent. Stop, Remove and what comes after the fact always
#: pass: a node must be able to get rid of pods whatever its plugins do.
REQUIRED_EVENTS = EventMask.parse("RunPodSandbox,UpdatePodSandbox,CreateContainer,StartContainer,UpdateContainer")

#: The events by which a node gets rid of pods. A plugin's own declaration does not fail them.
DISPOSAL_EVENTS = EventMask.parse("StopPodSandbox,RemovePodSandbox,StopContainer,RemoveContainer")

_NONE = EventMask(0)
_RUNTIMES = (None,) * (len(EVENTS) + 1)

log = logging.getLogger("nri.adaptation.plugin_policy.policy")
_ABSENT = "the policy file %s does not exist: no policy is in force until it does"


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """The rules for one plugin. Without arguments: the defaults.

    Attributes:
        timeout: request timeout in seconds by number of the event, None for the runtime's; place 0 is for other calls.
        keep_connected: a late answer costs this event, not the plugin.
        fail_request: events whose request fails when the plugin fails to answer.
        required: while it is absent, late or broken, `REQUIRED_EVENTS` are refused.
        exempt_namespaces: pods of these need it not.
        breaker_misses: misses in a row that open the breaker; 0 switches it off.
        breaker_retry_s: how long it stays open, in seconds.
        restart: when a launched plugin is started again.
        shadow: called and recorded, its answer never applied; it then can fail no request either.
        allow: what it may touch; None for everything.
        filters: which pods it gets to see; None for all.
        uid: users whose processes may bear its name; None for all that may connect.
        launched: True: only one that this runtime has launched may bear its name; False: only one that connects.
        strict: no process may: the operator names plugins, and not this one.
    """

    timeout: tuple[float | None, ...] = _RUNTIMES
    keep_connected: bool = True
    fail_request: EventMask = _NONE
    required: bool = False
    exempt_namespaces: tuple[Pattern, ...] = ()
    breaker_misses: int = 5
    breaker_retry_s: float = 30.0
    restart: Literal["on-failure", "always", "never"] = "on-failure"
    shadow: bool = False
    allow: Allow | None = None
    filters: Filters | None = None
    uid: tuple[int, ...] | None = None
    launched: bool | None = None
    strict: bool = False

    def timeout_s(self, event: int = 0) -> float | None:
        """Seconds that the plugin has to answer this event; None for the runtime's timeout."""
        return self.timeout[event]

    def fails_request(self, event: int) -> bool:
        """Whether the request fails when the plugin fails to answer it."""
        return bool(self.fail_request >> event - 1 & 1)

    def requires(self, event: int, namespace: str) -> bool:
        """Whether this event of a pod in this namespace is refused while the plugin is absent, late or broken."""
        if not self.required or not REQUIRED_EVENTS >> event - 1 & 1:
            return False
        return not (self.exempt_namespaces and matches(self.exempt_namespaces, namespace))

    def to_json(self) -> dict[str, object]:
        """The policy in the words of the file, for `nri why` and inspectors."""
        shared = self.timeout[0]
        timeouts = {spec.rpc: self.timeout[spec.number] for spec in EVENTS if self.timeout[spec.number] != shared}
        fails = self.fail_request
        return {
            "timeout": {"default": shared, **timeouts} if timeouts else shared,
            "keep_connected": self.keep_connected,
            "fail_request": True if fails == ALL else [spec.rpc for spec in fails] or False,
            "required": {"exempt_namespaces": [str(one) for one in self.exempt_namespaces]}
            if self.required and self.exempt_namespaces
            else self.required,
            "breaker": {"misses": self.breaker_misses, "retry": self.breaker_retry_s} if self.breaker_misses else False,
            "restart": self.restart,
            "shadow": self.shadow,
            "allow": None if self.allow is None else _lists(self.allow, "events", "namespaces", "fields"),
            "filters": None if self.filters is None else _lists(self.filters, "namespace", "label", "annotation"),
            "uid": None if self.uid is None else list(self.uid),
            "launched": self.launched,
            "strict": self.strict,
        }


def _lists(holder: object, *names: str) -> dict[str, list[str]]:
    """The lists of an `Allow` or `Filters` that are given, as texts."""
    given = {name: getattr(holder, name) for name in names}
    return {name: [str(one) for one in value] for name, value in given.items() if value is not None}


def resolve(table: Table, declared: FailurePolicy | None = None, rules: Rules = Rules.DEFAULT) -> PluginPolicy:
    """One plugin's policy from the operator's table and from what the plugin declared on the wire.

    The wire cannot tell a declared false from nothing declared, so only a declared true counts.
    """
    if table.fail_request is not None:
        fail_request = _events(table.fail_request)
    elif declared is not None and declared.fail_request:
        fail_request = ALL - DISPOSAL_EVENTS if rules.declared_failure_spares_stop else ALL
    else:
        fail_request = _NONE
    keep_connected = table.keep_connected
    if keep_connected is None:
        keep_connected = rules.late_answer_costs_event or (declared is not None and declared.keep_connected)
    breaker = BreakerTable() if table.breaker in (None, True) else table.breaker
    shadow = bool(table.shadow)
    return PluginPolicy(
        timeout=_timeouts(table.timeouts),
        keep_connected=keep_connected,
        fail_request=_NONE if shadow else fail_request,
        required=bool(table.required) and not shadow,
        exempt_namespaces=table.required.exempt_namespaces if isinstance(table.required, RequiredTable) else (),
        breaker_misses=breaker.misses if isinstance(breaker, BreakerTable) else 0,
        breaker_retry_s=breaker.retry if isinstance(breaker, BreakerTable) else BreakerTable().retry,
        restart=table.restart or "on-failure",
        shadow=shadow,
        allow=table.allow,
        filters=table.filters,
        uid=(table.uid,) if isinstance(table.uid, int) else None if table.uid is None else tuple(table.uid),
        launched=table.launched,
        strict=bool(table.strict),
    )


def _events(value: bool | list[EventName]) -> EventMask:
    return (ALL if value else _NONE) if isinstance(value, bool) else EventMask.of(*value)


def _timeouts(by_name: Mapping[str, float]) -> tuple[float | None, ...]:
    if not by_name:
        return _RUNTIMES
    shared = by_name.get("default")
    seconds = [shared] * len(_RUNTIMES)
    for name, value in by_name.items():
        if name != "default":
            seconds[BY_RPC[name].number] = value
    return tuple(seconds)


def _log(error: ConfigError) -> None:
    log.error("%s; the policies read before stay in force", error)


class Policies:
    """All policies of a node, kept up to date with their file. Thread-safe, but for `refresh`: that is for one thread.

    Without a file there are only defaults; a file that appears later counts, one that goes away ends its policies
    (not at once: editors take a file away for a moment). A file that cannot be used is reported once, and the last
    good one stays in force. Raises ConfigError if the file is there and cannot be used when the runtime starts.

    Args:
        path: the file; None for none.
        report: gets the error of a file that cannot be used.
    """

    def __init__(
        self,
        path: str | None = DEFAULT_PATH,
        *,
        report: Callable[[ConfigError], None] = _log,
    ) -> None:
        self.path = path
        #: Moves whenever a new reading takes effect.
        self.generation = 0
        #: Why the file as it is now is not in force; None if it is.
        self.error: ConfigError | None = None
        self._report = report
        self._tables: Mapping[str, Table] = {}
        self._made: dict[tuple[object, ...], PluginPolicy] = {}
        self._required: tuple[tuple[str, PluginPolicy], ...] = ()
        self._missing = False
        self._seen = None if path is None else fingerprint(path)
        if path is not None and self._seen is not None:
            self._use(policy_file.read(path))
        elif path not in (None, DEFAULT_PATH):  # somebody has named it
            log.warning(_ABSENT, path)

    def refresh(self) -> int:
        """Look at the file, and return the generation. For one thread, and not several times in an instant."""
        self._look()
        return self.generation

    def _look(self) -> None:
        now = None if self.path is None else fingerprint(self.path)
        if now == self._seen:
            self._missing = False
            return
        if now is None and not self._missing:
            self._missing = True  # look again before believing it
            return
        self._seen = now
        self._missing = False
        try:
            self._use({} if self.path is None or now is None else policy_file.read(self.path))
        except ConfigError as error:
            self.error = error
            self._report(error)
            return
        if now is None:
            log.warning(_ABSENT, self.path)
        else:
            log.info("policies read again from %s: generation %d", self.path, self.generation)

    def _use(self, tables: Mapping[str, Table]) -> None:
        resolved = ((name, resolve(table)) for name, table in tables.items() if name != policy_file.DEFAULTS)
        self._required = tuple((name, policy) for name, policy in resolved if policy.required)
        self._tables = tables
        self._made = {}  # a new dict: a thread that is just filling the old one does no harm
        self.error = None
        self.generation += 1

    def for_plugin(
        self, index: str, name: str, declared: FailurePolicy | None = None, rules: Rules = Rules.DEFAULT
    ) -> PluginPolicy:
        """The policy of a plugin. The same object for the same question until the generation moves."""
        fail, keep = (declared.fail_request, declared.keep_connected) if declared is not None else (False, False)
        made, tables = self._made, self._tables
        label = f"{index}-{name}"
        if label not in tables:
            label = policy_file.DEFAULTS  # plugins choose their names: one entry for all that the file does not name
        key = (label, fail, keep, rules)
        policy = made.get(key)
        if policy is None:
            policy = made[key] = resolve(tables.get(label) or Table(), declared, rules)
        return policy

    @property
    def required(self) -> tuple[tuple[str, PluginPolicy], ...]:
        """``NN-name`` and policy of the plugins that the file names and requires, present or not."""
        return self._required

    def required_names(self) -> tuple[str, ...]:
        """``NN-name`` of the plugins that the file names and requires, present or not."""
        return tuple(name for name, _ in self._required)

    def to_json(self) -> dict[str, object]:
        """The policies and the file that they come from, for `nri why` and inspectors."""
        return {
            "path": self.path,
            "generation": self.generation,
            "error": None if self.error is None else str(self.error),
            "policies": {name: resolve(table).to_json() for name, table in self._tables.items()},
        }
