"""Agent: all parts made from the settings, started in order, stopped in reverse, and one view of their health.

Rules: what is missing when it starts (a runtime, an apiserver) is waited for beside the rest, never before it; one part
that cannot be started is the error of the start, and what was started before it is stopped again. Nothing that was
applied is taken back at the end: pods run on by what they were given. Next: `nri.cli.verbs.agent`.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from nri import host
from nri.agent import serve
from nri.agent.capabilities import capabilities
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.explain import History
from nri.agent.koordlet import refuse_koordlet
from nri.agent.machine import with_machine
from nri.agent.observe import Observer
from nri.agent.parts import Parts
from nri.agent.pods import PodSource
from nri.agent.rules.book import RuleBook
from nri.agent.settings import AgentSettings, base_node
from nri.agent.shapes import Component
from nri.agent.sources import load, pod_source, rule_sources
from nri.agent.transports import Transport
from nri.stub.program.health import notify
from nri.stub.program.stop import LOOK_UP_S, Stop

__all__ = ["Agent", "Health", "Row"]

_log = logging.getLogger(__name__)

#: The class of each transport, loaded when its mode is chosen, and made with the settings and the parts.
TRANSPORTS: Final[Mapping[str, str]] = {
    "nri": "nri.agent.transports.nri:NriTransport",
    "proxy": "nri.agent.transports.proxy:ProxyTransport",
    "hooks": "nri.agent.transports.hooks:HooksTransport",
    "standalone": "nri.agent.transports.standalone:Standalone",
}
_LOOPS: Final = "nri.agent.loops:Loops"
_PUBLIC: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class Row(NamedTuple):
    """One part: its name, whether it does its work, and how it is in one line."""

    part: str
    ready: bool
    state: str


@dataclass(frozen=True, slots=True)
class Health:
    """The state of all parts."""

    rows: tuple[Row, ...]

    @property
    def ready(self) -> bool:
        """Whether every part does its work."""
        return all(row.ready for row in self.rows)

    def __str__(self) -> str:
        return "".join(f"{'ready' if row.ready else 'not ready'}  {row.part}: {row.state}\n" for row in self.rows)


class Agent:
    """One agent on one machine.

    Args:
        settings: what it is to do.
        root: the machine; None for the root of the settings.
        pods: this node's pods; None for the source of the settings.
        tell: told "READY=1" and "STOPPING=1"; systemd, if it has started us.

    Raises:
        ConfigError: a source or a transport cannot be made as the settings say.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        root: host.Root | None = None,
        pods: PodSource | None = None,
        tell: Callable[[str], None] = notify,
    ) -> None:
        self.settings, self._tell = settings, tell
        root = host.Root(settings.root) if root is None else root
        observer, history = Observer(), History()
        executor = Executor(root, refresh_s=settings.standalone.force_update, observer=observer)
        book = RuleBook(with_machine(base_node(settings), root))
        decisions = Decisions(book, executor, history, observer)
        driver = settings.standalone.cgroup_driver
        self.parts = Parts(
            root, book, pods or pod_source(settings), decisions, executor, history, observer,
            "" if driver == "auto" else driver,
        )  # fmt: skip
        self._rules = rule_sources(settings, book)
        self.transports: list[Transport] = [load(TRANSPORTS[mode])(settings, self.parts) for mode in settings.modes]
        # Strategies have the shape of a transport: they are told of rules, and have a health.
        self._loops: list[Transport] = [load(_LOOPS)(settings, self.parts)] if settings.loops_on else []
        self._server: serve.Server | None = None
        self._started: list[Component | PodSource] = []
        self._stop = Stop(lambda: None)
        self._lock = threading.Lock()
        book.subscribe(self._rules_changed)
        observer.gauge("ready", lambda: {row.part: float(row.ready) for row in self.health().rows})
        observer.gauge("rule_problems", lambda: Counter(each.kind or "other" for each in book.problems()))
        observer.gauge("held", lambda: {"pods": len(history), "bytes": history.size, **executor.held()})

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all parts: rules and pods first, so that transports find them.

        Raises:
            KoordletError: a koordlet runs here, and the settings do not allow that.
            NriError: a part cannot be started; those before it are stopped again.
        """
        if not self.settings.beside_koordlet:
            refuse_koordlet(self.parts.root)
        try:
            self._server = serve.Server(
                self._handlers(),
                path=self.settings.socket,
                address=self.settings.http.address,
                public=_PUBLIC,
                brief={"/readyz": self._ready_briefly},
            )
            parts: list[Component | PodSource] = [*self._rules, self.parts.pods, *self.transports, *self._loops]
            for part in parts:
                self._started.append(part)
                part.start()
        except BaseException:
            self.stop()
            raise
        _log.info("started: %s", ", ".join(self.settings.modes))
        self._tell("READY=1")

    def stop(self) -> None:
        """Stop all parts, the last first; what was applied stays. A second time does nothing."""
        self._stop.take(signal.SIGTERM)
        with self._lock:
            started, self._started = self._started, []
            server, self._server = self._server, None
        if started:
            self._tell("STOPPING=1")
        for part in reversed(started):
            try:
                part.stop()
            except Exception:  # noqa: BLE001 - the others have to be stopped as well
                _log.exception("%s could not be stopped", type(part).__name__)
        if server is not None:
            server.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until `stop` is called, or a signal has come; return whether that is so. For one thread."""
        if not self._stop:
            self._stop.wait(threading.TIMEOUT_MAX if timeout_s is None else timeout_s)
        return bool(self._stop)

    def run(self) -> int:
        """Start, serve until SIGTERM or SIGINT, stop; returns the exit code. Only in the main thread."""
        self._stop.listen()
        self.start()
        try:
            while not self.wait(LOOK_UP_S):
                pass  # a signal that came in the instant before the wait has its handler run now
            _log.info("stopping after %s; what was set stays", signal.Signals(self._stop.signal).name)
        finally:
            self.stop()
        return self._stop.exit_code

    # -- what it says of itself ---------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Return the state of each part as it is now."""
        rows = [Row(part.name, *_health(part)) for part in (*self.transports, *self._loops)]
        pods = self.parts.pods
        rows.append(Row("pods", pods.synced, pods.problem or f"{len(pods.pods())} pods"))
        # A document that cannot be read is told, and takes nothing away: its last good form is in force.
        refused = [f"{each.kind or 'a document'} of {each.source}: {each.error}" for each in self.parts.book.problems()]
        sources = [_health(source) for source in self._rules]
        rows.append(
            Row("rules", all(ready for ready, _ in sources), "; ".join([*(said for _, said in sources), *refused]))
        )
        return Health(tuple(rows))

    def _handlers(self) -> dict[str, serve.Handler]:
        return {
            "/healthz": lambda _: serve.text_answer("ok\n"),
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/explain": self._explain,
            "/capabilities": self._capabilities,
        }

    def _ready(self, _: Mapping[str, str]) -> serve.Answer:
        health = self.health()
        return serve.text_answer(str(health), 200 if health.ready else 503)

    def _ready_briefly(self, _: Mapping[str, str]) -> serve.Answer:
        """The state without reasons, which name pods and hold parts of their annotations."""
        health = self.health()
        brief = Health(tuple(row._replace(state="see the agent's socket") for row in health.rows))
        return serve.text_answer(str(brief), 200 if health.ready else 503)

    def _metrics(self, _: Mapping[str, str]) -> serve.Answer:
        status, _kind, content = serve.text_answer(self.parts.observer.text())
        return status, "text/plain; version=0.0.4; charset=utf-8", content

    def _explain(self, given: Mapping[str, str]) -> serve.Answer:
        name = given.get("pod", "")
        if not name:
            return serve.json_answer({"pods": self.parts.history.pods()})
        found = self.parts.history.of(name)
        if found is None:
            among = ", ".join(self.parts.history.named(name))
            told = f"is one of {among}" if among else "is unknown: nothing was decided for it, or it is forgotten"
            return serve.json_answer({"error": f"pod {name[:200]!r} {told}"}, 404)
        book = self.parts.book
        problems = [{"kind": each.kind, "source": each.source, "error": each.error} for each in book.problems()]
        return serve.json_answer({**found, "rules": book.sources(), "rule_problems": problems})

    def _capabilities(self, _: Mapping[str, str]) -> serve.Answer:
        return serve.json_answer([row._asdict() for row in capabilities(self.parts.root)])

    # -- rules --------------------------------------------------------------------------------------------------------

    def _rules_changed(self, kinds: frozenset[str]) -> None:
        for part in (*self.transports, *self._loops):
            try:
                part.rules_changed(kinds)
            except Exception:  # noqa: BLE001 - none keeps the others from it
                _log.exception("%s could not be told of changed rules", part.name)


def _health(part: Component) -> tuple[bool, str]:
    try:
        return part.health()
    except Exception as error:  # noqa: BLE001 - a part that cannot say how it is, is not well
        _log.exception("the state of %s is not known", type(part).__name__)
        return False, type(error).__name__
