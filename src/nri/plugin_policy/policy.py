"""The resolved policy of a plugin, and the policies of all plugins with their file.

Precedence of every key: the operator's value (the plugin's table, then ``[defaults]``), then the plugin's declaration,
then the default. `PluginPolicy` is a frozen value for the hot path: events have numbers, and no text is parsed or
looked up during a request. `Policies.refresh` costs one `stat`; users of a policy fetch it again when
`generation` has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from nri.api.events import ALL, BY_RPC, EVENTS, EventMask
from nri.api.messages import FailurePolicy
from nri.api.selectors import Filters, Pattern, matches
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.allow import Allow, EventName
from nri.plugin_policy.file import BreakerTable, RequiredTable, Table
from nri.rules import Rules

#: The default path of the operator's file.
DEFAULT_PATH = "/etc/nri/policy.toml"

#: The events that are refused while a required plugin is absent. Stop, Remove and Post events always pass, because a
#: node must be able to get rid of pods whatever its plugins do.
REQUIRED_EVENTS = EventMask.parse("RunPodSandbox,UpdatePodSandbox,CreateContainer,StartContainer,UpdateContainer")

#: The events that stop or remove pods and containers. A plugin's own declaration does not fail them.
DISPOSAL_EVENTS = EventMask.parse("StopPodSandbox,RemovePodSandbox,StopContainer,RemoveContainer")

_NONE = EventMask(0)
_RUNTIME_TIMEOUTS = (None,) * (len(EVENTS) + 1)

log = logging.getLogger("nri.plugin_policy.policy")
_ABSENT = "policy file %s not found: no policy is in force until it exists"


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """The rules for one plugin. The default values are the default policy.

    Attributes:
        timeout: request timeouts in seconds by number of the event; None for the runtime's timeout. Number 0 is for
            calls that are not events.
        keep_connected: a late answer does not disconnect the plugin.
        fail_request: the events whose request fails without the plugin's answer.
        required: while the plugin is absent, late or broken, `REQUIRED_EVENTS` are refused.
        exempt_namespaces: pods of these namespaces do not require the plugin.
        breaker_misses: the number of misses in a row that open the breaker; 0 switches the breaker off.
        breaker_retry_s: how long the breaker stays open, in seconds.
        restart: when a launched plugin is started again.
        shadow: the plugin is called, but its answer is only reported, never applied; it cannot fail requests.
        allow: what the plugin may change; None for everything.
        filters: the pods that the plugin sees; None for all.
        uid: the users whose processes may use its name; None for all users that may connect.
        launched: True: only a process that this runtime launched may use its name; False: only a process that connects.
        strict: no process may use its name, because only plugins with a table are accepted.
    """

    timeout: tuple[float | None, ...] = _RUNTIME_TIMEOUTS
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
        """The plugin's timeout for this event in seconds. Returns None for the runtime's timeout."""
        return self.timeout[event]

    def fails_request(self, event: int) -> bool:
        """Whether the request fails without the plugin's answer."""
        return bool(self.fail_request >> event - 1 & 1)

    def requires(self, event: int, namespace: str) -> bool:
        """Whether this event of a pod in this namespace is refused while the plugin is absent, late or broken."""
        if not self.required or not REQUIRED_EVENTS >> event - 1 & 1:
            return False
        return not (self.exempt_namespaces and matches(self.exempt_namespaces, namespace))

    def to_json(self) -> dict[str, object]:
        """The policy with the keys of the file, for `nri why` and inspectors."""
        shared = self.timeout[0]
        timeouts = {spec.rpc: self.timeout[spec.number] for spec in EVENTS if self.timeout[spec.number] != shared}
        fails = self.fail_request
        return {
            "timeout": {"default": shared, **timeouts} if timeouts else shared,
            "keep_connected": self.keep_connected,
            "fail_request": True if fails == ALL else [spec.rpc for spec in fails] or False,
            "required": {"exempt_namespaces": [str(pattern) for pattern in self.exempt_namespaces]}
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
    """The lists of an `Allow` or `Filters` that are set, as texts."""
    lists = {name: getattr(holder, name) for name in names}
    return {name: [str(entry) for entry in value] for name, value in lists.items() if value is not None}


def resolve(table: Table, declared: FailurePolicy | None = None, rules: Rules = Rules.DEFAULT) -> PluginPolicy:
    """Resolve one plugin's policy from the operator's table and the plugin's declaration.

    The protocol does not distinguish a declared false from no declaration, so only a declared true is used.
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
        return _RUNTIME_TIMEOUTS
    shared = by_name.get("default")
    seconds = [shared] * len(_RUNTIME_TIMEOUTS)
    for name, value in by_name.items():
        if name != "default":
            seconds[BY_RPC[name].number] = value
    return tuple(seconds)


def _log(error: ConfigError) -> None:
    log.error("%s; the previous policies stay in force", error)


class Policies:
    """All policies of a node, up to date with their file. Thread-safe, except `refresh`, which one thread may call.

    Without a file, the defaults apply; a file that appears later takes effect. When a file disappears, its policies end
    after a second check, because editors remove files for a moment. An invalid file is reported once, and the last
    valid file stays in force. Raises ConfigError for an invalid file when the runtime starts.

    Args:
        path: the file; None for no file.
        report: gets the error of an invalid file.
    """

    def __init__(
        self,
        path: str | None = DEFAULT_PATH,
        *,
        report: Callable[[ConfigError], None] = _log,
    ) -> None:
        self.path = path
        #: Increases whenever a new reading takes effect.
        self.generation = 0
        #: The error of the current file; None if the file is in force.
        self.error: ConfigError | None = None
        self._report = report
        self._tables: Mapping[str, Table] = {}
        self._policies_by_key: dict[tuple[object, ...], PluginPolicy] = {}
        self._required: tuple[tuple[str, PluginPolicy], ...] = ()
        self._missing = False
        self._fingerprint = None if path is None else fingerprint(path)
        if path is not None and self._fingerprint is not None:
            self._use_tables(policy_file.read(path))
        elif path not in (None, DEFAULT_PATH):  # the operator has configured it
            log.warning(_ABSENT, path)

    def refresh(self) -> int:
        """Check the file, and return the generation. Only one thread may call it."""
        self._check_file()
        return self.generation

    def _check_file(self) -> None:
        now = None if self.path is None else fingerprint(self.path)
        if now == self._fingerprint:
            self._missing = False
            return
        if now is None and not self._missing:
            self._missing = True  # check again before accepting it
            return
        self._fingerprint = now
        self._missing = False
        try:
            self._use_tables({} if self.path is None or now is None else policy_file.read(self.path))
        except ConfigError as error:
            self.error = error
            self._report(error)
            return
        if now is None:
            log.warning(_ABSENT, self.path)
        else:
            log.info("policies read again from %s: generation %d", self.path, self.generation)

    def _use_tables(self, tables: Mapping[str, Table]) -> None:
        resolved = ((name, resolve(table)) for name, table in tables.items() if name != policy_file.DEFAULTS)
        self._required = tuple((name, policy) for name, policy in resolved if policy.required)
        self._tables = tables
        self._policies_by_key = {}  # a new dict: another thread may still fill the old one
        self.error = None
        self.generation += 1

    def for_plugin(
        self, index: str, name: str, declared: FailurePolicy | None = None, rules: Rules = Rules.DEFAULT
    ) -> PluginPolicy:
        """The policy of a plugin. Returns the same object for the same arguments until the generation changes."""
        fail, keep = (declared.fail_request, declared.keep_connected) if declared is not None else (False, False)
        cache, tables = self._policies_by_key, self._tables
        label = f"{index}-{name}"
        if label not in tables:
            label = policy_file.DEFAULTS  # plugins choose their names: all plugins without a table share an entry
        key = (label, fail, keep, rules)
        policy = cache.get(key)
        if policy is None:
            policy = cache[key] = resolve(tables.get(label) or Table(), declared, rules)
        return policy

    @property
    def required(self) -> tuple[tuple[str, PluginPolicy], ...]:
        """``NN-name`` and policy of the plugins that the file requires, connected or not."""
        return self._required

    def required_names(self) -> tuple[str, ...]:
        """``NN-name`` of the plugins that the file requires, connected or not."""
        return tuple(name for name, _ in self._required)

    def to_json(self) -> dict[str, object]:
        """The policies and their file, for `nri why` and inspectors."""
        return {
            "path": self.path,
            "generation": self.generation,
            "error": None if self.error is None else str(self.error),
            "policies": {name: resolve(table).to_json() for name, table in self._tables.items()},
        }
