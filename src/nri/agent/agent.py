"""Build all parts of the agent from its settings, start them in order, stop them in reverse, and report their health.

A missing runtime or apiserver does not delay the start: the part that needs it waits in its own thread. A part that
cannot be started fails the start, and the parts before it are stopped. Applied values stay when the agent ends.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry

from nri import host
from nri.agent.capabilities import capabilities
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor, RuntimeView
from nri.agent.history import History
from nri.agent.model import Subject
from nri.agent.observer import Observer, PublicMetrics
from nri.agent.other_agents import refuse
from nri.agent.ownership import check, check_apart
from nri.agent.parts import Parts
from nri.agent.pods import PodSource
from nri.agent.pods.manifest import key_of, uid_of
from nri.agent.profile import load, profile_of
from nri.agent.rules.origins import with_places
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.transports import Transport
from nri.agent.worker import Component
from nri.errors import NriError
from nri.interfaces import Reporter
from nri.service.http import Answer, Handler, Server, json_answer
from nri.service.probes import metrics, probes
from nri.service.systemd import notify
from nri.signals import Stop
from nri.text import count

_log = logging.getLogger(__name__)

#: The class of each mode's transport. A mode that the settings choose imports its class and calls it with the settings
#: and the `Parts`. A profile can add modes.
TRANSPORTS: Final[Mapping[str, str]] = {
    "nri": "nri.agent.transports.nri:NriTransport",
    "proxy": "nri.agent.transports.proxy:ProxyTransport",
    "standalone": "nri.agent.transports.standalone:Standalone",
}
#: Sources of rules, called with the settings and the store; imported on use, because some need other packages.
RULE_SOURCES: Final[Mapping[str, str]] = {
    "files": "nri.agent.rules.files:FileRules",
    "apiserver": "nri.agent.rules.apiserver:ApiserverRules",
}
#: Sources of pods, called with the settings; also imported on use.
POD_SOURCES: Final[Mapping[str, str]] = {
    "nri": "nri.agent.pods.nri:NriPods",
    "apiserver": "nri.agent.pods.apiserver:ApiserverPods",
    "kubelet": "nri.agent.pods.kubelet:KubeletPods",
    "cri": "nri.agent.pods.cri:CriPods",
    "files": "nri.agent.pods.files:FilePods",
}
_LOOPS: Final = "nri.agent.loops:Loops"
_CRI_UPDATES: Final = "nri.agent.writing.cri_updates:CriUpdates"
#: The modes that agents of several profiles can share.
_SHARED_MODES: Final = ("nri", "standalone")


class Row(NamedTuple):
    """The state of one part of the agent: its name, whether it works, and a description of one line."""

    part: str
    ready: bool
    state: str


@dataclass(frozen=True, slots=True)
class Health:
    """The state of all parts of the agent."""

    rows: tuple[Row, ...]

    @property
    def ready(self) -> bool:
        """Whether every part works."""
        return all(row.ready for row in self.rows)

    def __str__(self) -> str:
        return "".join(f"{'ready' if row.ready else 'not ready'}  {row.part}: {row.state}\n" for row in self.rows)


class Agent:
    """One agent on one machine.

    Args:
        settings: the configuration of the agent.
        root: the machine; None means the root folder of the settings.
        pods: the source of this node's pods; None means the source that the settings choose.
        tell: receives "READY=1" and "STOPPING=1"; by default systemd's notification socket.
        reporter: receives every step of every NRI event.

    Raises:
        ConfigError: the settings of a source or a transport are invalid.
        KnobConflict: two enabled hooks or strategies set the same knob of the same pods.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        root: host.Root | None = None,
        pods: PodSource | None = None,
        tell: Callable[[str], None] = notify,
        reporter: Reporter | None = None,
    ) -> None:
        self.settings, self._tell = settings, tell
        root = host.Root(settings.root) if root is None else root
        observer, history = Observer(), History()
        executor = Executor(
            root, refresh_s=settings.standalone.force_update, observer=observer, runtime=_runtime_view(settings)
        )
        profile = profile_of(settings.profile)
        check(profile.owners_on(settings.gates))
        store = RuleStore(profile.node(settings, root), profile.kinds)
        decisions = Decisions(profile, store, executor, history, observer, preview=settings.preview)
        driver = settings.standalone.cgroup_driver
        self.parts = Parts(
            profile, root, store, pods or pod_source(settings), decisions, executor, history, observer,
            "" if driver == "auto" else driver, reporter,
        )  # fmt: skip
        self._rules = rule_sources(settings, store)
        transports_by_mode = {**TRANSPORTS, **profile.transports}
        if unknown_modes := [mode for mode in settings.modes if mode not in transports_by_mode]:
            raise NriError(
                f"profile {profile.name} has no mode {unknown_modes[0]}; it has {', '.join(transports_by_mode)}"
            )
        self.transports: list[Transport] = [
            load(transports_by_mode[mode])(settings, self.parts) for mode in settings.modes
        ]
        # Strategies have the interface of a transport: they receive changed rules and report their health.
        values = next((transport.values for transport in self.transports if transport.values is not None), None)
        self._loops: list[Transport] = []
        self._schedule: Callable[[], list[dict[str, Any]]] = list
        self._unchanged: Callable[[str], list[dict[str, str]]] = lambda _uid: []
        if profile.strategies_on(settings.gates):
            loops = load(_LOOPS)(settings, self.parts, values)
            self.parts.pods.subscribe(loops.pods_changed)
            self._loops.append(loops)
            self._schedule, self._unchanged = loops.schedule, loops.unchanged
        self._registry, self._for_all = CollectorRegistry(), CollectorRegistry()
        self._registry.register(observer)
        self._for_all.register(PublicMetrics(observer))
        self._server: Server | None = None
        self._started_parts: list[Component | PodSource] = []
        self._stop = Stop()
        self._lock = threading.Lock()
        store.subscribe(self._rules_changed)
        self._add_gauges(observer, store, history, executor)

    def _add_gauges(self, observer: Observer, store: RuleStore, history: History, executor: Executor) -> None:
        """Add the metrics that are computed when they are read."""
        observer.gauge("ready", lambda: {row.part: float(row.ready) for row in self.health().rows})
        observer.gauge("rule_problems", lambda: Counter(problem.kind or "other" for problem in store.problems()))
        observer.gauge(
            "rule_keys_unread",
            lambda: {
                **{
                    f"{kind}: {unread.key}": 1.0
                    for kind, unread_keys in store.unread().items()
                    for unread in unread_keys
                },
                **dict.fromkeys(store.remarks(), 1.0),  # for example unknown kinds
            },
        )
        observer.gauge("pod_keys_unread", lambda: dict.fromkeys(history.pod_notes(), 1.0))
        observer.gauge("held", lambda: {"pods": len(history), "bytes": history.size, **executor.counts()})

    # -- start and stop -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all parts: rules and pods first, so that transports find them.

        Raises:
            ForeignAgentError: another agent, for example koordlet, runs here and the settings do not allow it.
            NriError: a part cannot be started; the parts before it are stopped again.
        """
        if not self.settings.beside_koordlet:
            refuse(self.parts.root, self.parts.profile.foreign)
        try:
            http = self.settings.http
            self._server = Server(
                self._private(), path=self.settings.socket, public=self._public(), address=http.address
            )
            parts: list[Component | PodSource] = [*self._rules, self.parts.pods, *self.transports, *self._loops]
            for part in parts:
                self._started_parts.append(part)
                part.start()
        except BaseException:
            self.stop()
            raise
        _log.info("started: %s", ", ".join(self.settings.modes))
        self._tell("READY=1")

    def stop(self) -> None:
        """Stop all parts in reverse order; applied values stay. A second call has no effect."""
        self._stop.take(signal.SIGTERM)
        with self._lock:
            started, self._started_parts = self._started_parts, []
            server, self._server = self._server, None
        if started:
            self._tell("STOPPING=1")
        for part in reversed(started):
            try:
                part.stop()
            except Exception:  # noqa: BLE001 - the other parts must be stopped too
                _log.exception("%s could not be stopped", type(part).__name__)
        if server is not None:
            server.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until `stop` is called or a signal arrives. Returns False at the timeout. Only for one thread."""
        if not self._stop:
            self._stop.wait(threading.TIMEOUT_MAX if timeout_s is None else timeout_s)
        return bool(self._stop)

    def run(self) -> int:
        """Start, serve until SIGTERM or SIGINT, stop, and return the exit code. Call it only in the main thread."""
        self._stop.listen()
        self.start()
        try:
            number = self._stop.wait_for_signal()
            _log.info("stopping after %s; applied values stay", signal.Signals(number).name)
        finally:
            self.stop()
        return self._stop.exit_code

    # -- health and explanations -------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Return the current state of each part."""
        rows = [Row(part.name, *_health(part)) for part in (*self.transports, *self._loops)]
        pods = self.parts.pods
        rows.append(Row("pods", pods.synced, pods.problem or count(len(pods.pods()), "pod")))
        # A document that cannot be read is only reported: its last good version stays in force, so the agent is ready.
        refused = [
            f"{problem.kind or 'a document'} of {problem.source}: {problem.error}"
            for problem in self.parts.store.problems()
        ]
        sources = [_health(source) for source in self._rules]
        rows.append(
            Row("rules", all(ready for ready, _ in sources), "; ".join([*(state for _, state in sources), *refused]))
        )
        return Health(tuple(rows))

    def _private(self) -> dict[str, Handler]:
        """Return the HTTP handlers that only root can reach."""
        agent_handlers = {"/explain": self._explain, "/capabilities": self._capabilities}
        return {**probes(lambda: self._state(str)), **metrics(self._registry), **agent_handlers}

    def _public(self) -> dict[str, Handler]:
        """Return the HTTP handlers for all users: state and metrics, without names and annotations of pods."""
        return {**probes(lambda: self._state(lambda _: "see the agent's socket")), **metrics(self._for_all)}

    def _state(self, shown: Callable[[str], str]) -> tuple[bool, str]:
        health = self.health()
        return health.ready, str(Health(tuple(row._replace(state=shown(row.state)) for row in health.rows)))

    def _explain(self, query: Mapping[str, str]) -> Answer:
        name = query.get("pod", "")
        if not name:
            return json_answer({"pods": self.parts.history.pods()})
        account = self.parts.history.account(name)
        if account is None:
            pods = self._undecided_pods(name)
            if len(pods) != 1:
                names = self.parts.history.running_pods(name) or sorted({f"{pod.namespace}/{pod.name}" for pod in pods})
                reason = f"is one of {', '.join(names)}" if names else "is unknown: no running pod has this name"
                return json_answer({"error": f"pod {name[:200]!r} {reason}"}, 404)
            account = self.parts.history.empty_account(pods[0])
        store = self.parts.store
        problems = [
            {"kind": problem.kind, "source": problem.source, "error": problem.error} for problem in store.problems()
        ]
        more = {
            "rule_problems": problems,
            "strategies": self._schedule(),
            "unchanged": [] if account["ended"] else self._unchanged(account["key"]),
        }
        return json_answer({**with_places(account, store, self.parts.profile), **more})

    def _undecided_pods(self, name: str) -> list[Subject]:
        """Return the running pods with this uid or name for which the history has no record."""
        if self.parts.history.running_pods(name):
            return []
        return [
            Subject(uid_of(pod), *key_of(pod).partition("/")[::2])
            for pod in self.parts.pods.pods()
            if isinstance(pod.get("metadata"), dict)
            and name in (uid_of(pod), key_of(pod), key_of(pod).partition("/")[2])
        ]

    def _capabilities(self, _: Mapping[str, str]) -> Answer:
        return json_answer([row._asdict() for row in capabilities(self.parts.root, self.parts.profile)])

    # -- rules --------------------------------------------------------------------------------------------------------

    def _rules_changed(self, kinds: frozenset[str]) -> None:
        for part in (*self.transports, *self._loops):
            try:
                part.rules_changed(kinds)
            except Exception:  # noqa: BLE001 - the other parts still get the rules
                _log.exception("%s failed to take over changed rules", part.name)


class Agents:
    """Several agents on one machine, each with its own profile, registration, socket, history and metrics.

    Args:
        settings: the settings of each agent; their names and sockets differ (`nri.agent.settings.load_each`).
        reporter: as for `Agent`; receives the events of all agents.
        tell: as for `Agent`.

    Raises:
        ConfigError: the settings of an agent are invalid.
        KnobConflict: two enabled hooks or strategies, of one profile or of two, set the same knob.
        NriError: several agents use a mode that only one agent can use, for example `proxy`.
    """

    def __init__(
        self,
        settings: Sequence[AgentSettings],
        *,
        reporter: Reporter | None = None,
        tell: Callable[[str], None] = notify,
    ) -> None:
        check_apart(profile_of(setting.profile).owners_on(setting.gates) for setting in settings)
        if any(mode not in _SHARED_MODES for setting in settings for mode in setting.modes):
            raise NriError(f"several profiles can only run in modes {' and '.join(_SHARED_MODES)}")
        self.agents = [Agent(setting, reporter=reporter, tell=lambda _: None) for setting in settings]
        self._tell = tell

    def start(self) -> None:
        """Start all agents. If an agent raises an error, stop the agents that were already started."""
        try:
            for agent in self.agents:
                agent.start()
        except BaseException:
            self.stop()
            raise
        self._tell("READY=1")

    def stop(self) -> None:
        """Stop all agents in reverse order. A second call has no effect."""
        self._tell("STOPPING=1")
        for agent in reversed(self.agents):
            agent.stop()

    def run(self) -> int:
        """Start, serve until SIGTERM or SIGINT, stop, and return the exit code. Call it only in the main thread."""
        stop = Stop()
        stop.listen()
        self.start()
        try:
            number = stop.wait_for_signal()
            _log.info("stopping after %s; applied values stay", signal.Signals(number).name)
        finally:
            self.stop()
        return stop.exit_code

    def health(self) -> Health:
        """Return the state of each part of each agent; the profile precedes the name of the part."""
        return Health(
            tuple(
                row._replace(part=f"{agent.settings.profile}: {row.part}")
                for agent in self.agents
                for row in agent.health().rows
            )
        )


def _runtime_view(settings: AgentSettings) -> RuntimeView | None:
    """Return the object that reports cgroup writes to the runtime, or None if the settings do not ask for it."""
    if settings.standalone.apply != "cri":
        return None
    view: RuntimeView = load(_CRI_UPDATES)(settings.cri_socket, runtime_alone=settings.pods.source in ("cri", "nri"))
    return view


def _health(part: Component) -> tuple[bool, str]:
    try:
        return part.health()
    except Exception as error:  # noqa: BLE001 - a part whose check fails is not ready
        _log.exception("cannot check the state of %s", type(part).__name__)
        return False, type(error).__name__


def rule_sources(settings: AgentSettings, store: RuleStore) -> list[Component]:
    """Return the sources that put rules into the store. Raises ConfigError if their settings are invalid."""
    return [load(RULE_SOURCES[settings.rules.source])(settings, store)]


def pod_source(settings: AgentSettings) -> PodSource:
    """Return the source of this node's pods. Raises ConfigError if its settings are invalid."""
    source: PodSource = load(POD_SOURCES[settings.pods.source])(settings)
    return source
