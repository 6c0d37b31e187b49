"""Run a trial: connect plugins to a `FakeRuntime`, send the events of pods that start, and record the changes.

If a container is refused, the others are still tried, so that one run shows all conflicts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple, cast

from nri.adaptation.audit import ShadowReport
from nri.adaptation.launch import MAGIC, PluginFile, Process
from nri.errors import LATE, ConfigError, LocalProtocolError, NriError, RpcError, describe
from nri.files import open_regular
from nri.metrics import Observer
from nri.plugins.loader import author_error, load
from nri.stub.program.options import Options
from nri.testing import FakeRuntime
from nri.testing.trial.outcome import MissingAnswer, Outcome, PodResult, Result
from nri.testing.trial.plugins import name_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.kube.manifest import Workload
    from nri.stub.plugin import Plugin
    from nri.testing import FakeRuntime
    from nri.testing.trial.plugins import TrialPlugin

#: The source in error texts of `nri.stub` for the configuration text of the runtime.
_RUNTIME_SOURCE = "the runtime's configuration"
#: The trial ends when plugins have made no request for this long after the last event, in seconds.
QUIET_S = 0.25


def run(
    plugins: Sequence[TrialPlugin],
    workloads: Sequence[Workload],
    policy_path: str | None,
    timeout_s: float,
    *,
    verbose: int = 0,
) -> Outcome:
    """Try the plugins. Raises NriError if a plugin cannot be started, or does not become active.

    Args:
        plugins: the plugins to try.
        workloads: pods with their containers, which are started one after the other.
        policy_path: the operator's policy file, or None.
        timeout_s: how long a plugin may take to answer, in seconds.
        verbose: 0 hides the log of plugins and runtime, except warnings of plugins.
    """
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if verbose else logging.CRITICAL)
    plugin_log = logging.getLogger("nri.plugin")
    before = plugin_log.level
    observer = TrialObserver()
    runtime = FakeRuntime(policy_path=policy_path, request_timeout_s=timeout_s, observer=observer, name="nri-try")
    with contextlib.ExitStack() as stack:
        stack.callback(plugin_log.setLevel, before)
        if not verbose:
            plugin_log.setLevel(logging.WARNING)  # for example, the reason why a plugin changes nothing
        stack.callback(runtime.adaptation.stop)  # does not wait for a plugin that is stuck in a handler
        trial = Trial(runtime, observer, stack)
        for plugin in plugins:
            trial.add(plugin)
        return trial.start(workloads, timeout_s)


class Trial:
    """A runtime with the plugins to try.

    Args:
        runtime: the runtime in which they are tried.
        observer: the runtime's observer.
        stack: ends the programs that are started.
    """

    def __init__(self, runtime: FakeRuntime, observer: TrialObserver, stack: contextlib.ExitStack) -> None:
        self._runtime = runtime
        self._observer = observer
        self._stack = stack
        self._plugins: list[Plugin] = []

    def add(self, plugin: TrialPlugin) -> None:
        """Connect a plugin, and wait until it is active. Raises NriError if it does not become active."""
        if plugin.is_program:
            self._stack.enter_context(program(self._runtime, plugin))
            return
        kind = load(plugin.target)
        if plugin.index_requested:
            kind._check_index(plugin.index)
        name = name_in(plugin.target) or kind.name
        options = Options()
        options.index, options.name = plugin.index, name
        try:
            for instance, instance_options in cast(
                "list[tuple[Plugin, Options]]", kind._connections(options)
            ):  # usually one
                self._runtime.add(instance, instance_options.index, name, config=plugin.config_text)
                self._plugins.append(instance)
        except ConfigError as error:
            raise _with_file_name(error, plugin) from None
        except LocalProtocolError:  # the text of this error has no reason
            reason = next(
                (row.last_error for row in self._runtime.plugins if row.plugin == f"{plugin.index}-{name}"), ""
            )
            raise NriError(f"plugin {plugin.index}-{name} does not take part: {reason or 'never registered'}") from None
        except NriError:
            raise
        except Exception as error:
            raise NriError(str(author_error(error, plugin.target))) from error

    def start(self, workloads: Sequence[Workload], timeout_s: float) -> Outcome:
        """Send the events of all pods. Returns the outcome."""
        outcome = Outcome([health.plugin for health in self._runtime.plugins])
        self._observer.take()
        for workload in workloads:
            self._start_pod(workload, outcome)
        self._take_turns()
        self._wait_until_idle(timeout_s)
        self._add_observations(outcome, outcome.results[-1])
        for result in outcome.results:
            result.evictions += [
                (one.container_id, one.reason) for one in self._runtime.evictions if one.container_id == result.id
            ]
            self._explain(result)
        return outcome

    def _start_pod(self, workload: Workload, outcome: Outcome) -> None:
        """Start a pod, and unless it is refused, its containers."""
        pod = workload.pod
        pod_result = PodResult(Result(pod.id, f"{pod.namespace}/{pod.name}"))
        outcome.pods.append(pod_result)
        try:
            self._runtime.run_pod_sandbox(pod)
        except NriError as error:
            outcome.record_error(pod_result.pod, error)
        self._add_observations(outcome, pod_result.pod)
        if pod_result.pod.failure:
            return
        for container in workload.containers:
            result = Result(container.id, container.name)
            pod_result.containers.append(result)
            try:
                created = self._runtime.create_container(pod, container)
                created.commit()
                result.evictions = [(one.container_id, one.reason) for one in created.evictions]
                for event in ("post_create_container", "start_container", "post_start_container"):
                    getattr(self._runtime, event)(pod, created.container)
            except NriError as error:
                outcome.record_error(result, error)
            self._add_observations(outcome, result)

    def _add_observations(self, outcome: Outcome, result: Result) -> None:
        """Add the observations since the last call to the result of a pod or container."""
        observed = self._observer.take()
        reasons = {row.plugin: row.last_error for row in self._runtime.plugins}
        misses = []
        for plugin, event, error in observed.silent:
            cause = reasons.get(plugin) or error
            closed_reason = f"no answer to {event}, the plugin disconnected: {cause}; see its own output"
            reason = f"{cause}; do slow work in a thread" if isinstance(error, LATE) else closed_reason
            misses.append(MissingAnswer(plugin, event, reason))
        outcome.record_misses(result, misses)
        result.shadows += observed.shadows
        result.left_out += observed.left_out

    def _take_turns(self) -> None:
        """Call background work again, because its first call was before the pods. Raises NriError if it fails."""
        for row in self._runtime.plugins:
            try:
                self._runtime.tick(row.plugin)
            except Exception as error:
                raise NriError(f"plugin {row.plugin}: background work failed: {describe(error)}") from error

    def _wait_until_idle(self, timeout_s: float) -> None:
        """Wait until all requests of plugins are answered, and no further request arrives for a moment."""
        deadline = monotonic() + timeout_s
        request_count, since = -1, monotonic()
        while monotonic() < deadline:
            present_count = len(self._runtime.updates) + len(self._runtime.evictions)
            if present_count != request_count or any(plugin.runtime.outstanding for plugin in self._plugins):
                request_count, since = present_count, monotonic()
            elif monotonic() - since >= QUIET_S:
                return
            sleep(0.01)

    def _explain(self, result: Result) -> None:
        """Add the changes of a container, including later updates."""
        adaptation = self._runtime.adaptation
        explanation = adaptation.provenance.explain(result.id, adaptation.rules) if adaptation.provenance else None
        if explanation is not None:
            result.steps = explanation.steps


def _with_file_name(error: ConfigError, plugin: TrialPlugin) -> ConfigError:
    """The error with the name of the configuration file as its source."""
    source = error.source
    if plugin.config is not None and source.startswith(_RUNTIME_SOURCE):
        source = plugin.config.name + source.removeprefix(_RUNTIME_SOURCE)
    other_errors = [_with_file_name(other, plugin) for other in error.others]
    return ConfigError(source, error.key, error.reason, error.suggestion, other_errors)


#: How long a program may take to register: the number of steps, and the seconds of each step.
STEPS, _STEP_S = 100, 0.1


@contextlib.contextmanager
def program(runtime: FakeRuntime, plugin: TrialPlugin) -> Iterator[None]:
    """Run the program for the length of the block. Raises NriError if it does not become active."""
    name = name_in(plugin.target) or os.path.basename(plugin.target)
    with contextlib.suppress(OSError), open(plugin.target, "rb", opener=open_regular) as file:
        if file.read(len(MAGIC)) == MAGIC:
            reason = "WebAssembly plugins run only in a runtime: put it into the runtime's plugin folder"
            raise ConfigError(str(plugin.target), "", f"{reason}")
    try:
        process = Process(PluginFile(os.path.abspath(plugin.target), plugin.index, name))
    except OSError as error:
        raise ConfigError(str(plugin.target), "", f"cannot be run: {error.strerror}") from None
    waiter = threading.Thread(target=process.wait, args=(lambda: 1.0,), name=f"nri-try-{name}", daemon=True)
    waiter.start()
    try:
        runtime.adaptation.connect(process.socket, plugin.config_text)
        _wait_for(runtime, f"{plugin.index}-{name}", process, waiter)
        yield
    finally:
        process.kill()
        waiter.join(5.0)


def _wait_for(runtime: FakeRuntime, label: str, process: Process, waiter: threading.Thread) -> None:
    for _ in range(STEPS):
        if runtime.adaptation.ready([label], _STEP_S, settled=True):
            return
        if not waiter.is_alive():
            break
    words = f": {process.last_words}" if process.last_words else ""
    raise NriError(f"plugin {label} does not take part: {process.status or 'it did not register'}{words}")


class Observations(NamedTuple):
    """The observations since the last call: (plugin, event, error), reports, (plugin, event)."""

    silent: list[tuple[str, str, BaseException]]
    shadows: list[ShadowReport]
    left_out: list[tuple[str, str]]


class TrialObserver(Observer):
    """An observer that collects the runtime's reports until `take` is called."""

    __slots__ = ("_observed",)

    def __init__(self) -> None:
        self._observed = Observations([], [], [])

    def take(self) -> Observations:
        """Return the observations since the last call."""
        observed, self._observed = self._observed, Observations([], [], [])
        return observed

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Store a missing answer. An error status is an answer, which becomes the event's error."""
        if error is not None and not isinstance(error, RpcError):
            self._observed.silent.append((plugin, operation, error))

    def record_shadow(self, report: object) -> None:
        """Store the changes of a shadow plugin, if there are any."""
        if isinstance(report, ShadowReport) and not report.empty:
            self._observed.shadows.append(report)

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Store a request for an unknown container."""
        self._observed.left_out.append((plugin, operation))
