"""A trial of plugins on pods: connect them to a runtime of our own, take each pod through its start, note what changed.

The events are those of a pod that starts: RunPodSandbox, and for each container CreateContainer, PostCreateContainer,
StartContainer, PostStartContainer. A container that is refused is not started; the others are tried all the same, so
that one run shows all conflicts. It waits for requests that plugins make by themselves, until they have been quiet for
a moment. Next: `nri.testing.trial.outcome`.
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

__all__ = ["Observed", "Trial", "TrialObserver", "program", "run"]

#: The name that `nri.stub` gives to the text that a runtime hands over with Configure.
_RUNTIMES_TEXT = "the runtime's configuration"
#: How long plugins must have asked for nothing, after the last event, for the trial to end, in seconds.
QUIET_S = 0.25


def run(
    plugins: Sequence[TrialPlugin],
    workloads: Sequence[Workload],
    policy_path: str | None,
    timeout_s: float,
    *,
    verbose: int = 0,
) -> Outcome:
    """Try the plugins. NriError if one cannot be started, or does not take part.

    Args:
        plugins: what to try.
        workloads: pods with their containers, which are started one after the other.
        policy_path: the operator's file, None for none.
        timeout_s: how long a plugin has to answer, in seconds.
        verbose: 0 keeps the log of plugins and runtime to itself, but for warnings of plugins.
    """
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if verbose else logging.CRITICAL)
    of_plugins = logging.getLogger("nri.plugin")
    before = of_plugins.level
    watching = TrialObserver()
    runtime = FakeRuntime(policy_path=policy_path, request_timeout_s=timeout_s, observer=watching, name="nri-try")
    with contextlib.ExitStack() as stack:
        stack.callback(of_plugins.setLevel, before)
        if not verbose:
            of_plugins.setLevel(logging.WARNING)  # why nothing changes, for example
        stack.callback(runtime.adaptation.stop)  # and no waiting for a plugin that is stuck in a handler
        trial = Trial(runtime, watching, stack)
        for plugin in plugins:
            trial.add(plugin)
        return trial.start(workloads, timeout_s)


class Trial:
    """One runtime with the plugins in it.

    Args:
        runtime: where they are tried.
        watching: its observer.
        stack: ends the programs that are started.
    """

    def __init__(self, runtime: FakeRuntime, watching: TrialObserver, stack: contextlib.ExitStack) -> None:
        self._runtime = runtime
        self._watching = watching
        self._stack = stack
        self._inside: list[Plugin] = []

    def add(self, plugin: TrialPlugin) -> None:
        """Connect one plugin and wait until it takes part. NriError if it does not."""
        if plugin.is_program:
            self._stack.enter_context(program(self._runtime, plugin))
            return
        kind = load(plugin.target)
        name = name_in(plugin.target) or kind.name
        options = Options()
        options.index, options.name = plugin.index, name
        try:
            for made, own in cast("list[tuple[Plugin, Options]]", kind._connections(options)):  # nearly always one
                self._runtime.add(made, own.index, name, config=plugin.config_text)
                self._inside.append(made)
        except ConfigError as error:
            raise _named(error, plugin) from None
        except LocalProtocolError:  # says little: it did not take part
            reason = next(
                (row.last_error for row in self._runtime.plugins if row.plugin == f"{plugin.index}-{name}"), ""
            )
            raise NriError(
                f"plugin {plugin.index}-{name} does not take part: {reason or 'it never registered'}"
            ) from None
        except NriError:
            raise
        except Exception as error:
            raise NriError(str(author_error(error, plugin.target))) from error

    def start(self, workloads: Sequence[Workload], timeout_s: float) -> Outcome:
        """Take the pods through their start; returns what came of it."""
        outcome = Outcome([health.plugin for health in self._runtime.plugins])
        self._watching.take()
        for workload in workloads:
            self._start_pod(workload, outcome)
        self._take_turns()
        self._settle(timeout_s)
        self._note(outcome, outcome.results[-1])
        for result in outcome.results:
            result.evictions += [
                (one.container_id, one.reason) for one in self._runtime.evictions if one.container_id == result.id
            ]
            self._explain(result)
        return outcome

    def _start_pod(self, workload: Workload, outcome: Outcome) -> None:
        """Start one pod and, unless it is refused, its containers."""
        pod = workload.pod
        made = PodResult(Result(pod.id, f"{pod.namespace}/{pod.name}"))
        outcome.pods.append(made)
        try:
            self._runtime.run_pod_sandbox(pod)
        except NriError as error:
            outcome.refuse(made.pod, error)
        self._note(outcome, made.pod)
        if made.pod.failed:
            return
        for container in workload.containers:
            result = Result(container.id, container.name)
            made.containers.append(result)
            try:
                created = self._runtime.create_container(pod, container)
                created.commit()
                result.evictions = [(one.container_id, one.reason) for one in created.evictions]
                for event in ("post_create_container", "start_container", "post_start_container"):
                    getattr(self._runtime, event)(pod, created.container)
            except NriError as error:
                outcome.refuse(result, error)
            self._note(outcome, result)

    def _note(self, outcome: Outcome, result: Result) -> None:
        """Take note of what was seen since the last time, for a pod or a container."""
        seen = self._watching.take()
        reasons = {row.plugin: row.last_error for row in self._runtime.plugins}
        misses = []
        for plugin, event, error in seen.silent:
            why = reasons.get(plugin) or error
            gone = f"no answer to {event}, it is gone: {why}; its own output says more"
            reason = f"{why}; do slow work in a thread" if isinstance(error, LATE) else gone
            misses.append(MissingAnswer(plugin, event, reason))
        outcome.miss(result, misses)
        result.shadows += seen.shadows
        result.left_out += seen.left_out

    def _take_turns(self) -> None:
        """Let background work see the pods: its first turn came before there was one. NriError if one fails."""
        for row in self._runtime.plugins:
            try:
                self._runtime.tick(row.plugin)
            except Exception as error:
                raise NriError(f"plugin {row.plugin}: background work failed: {describe(error)}") from error

    def _settle(self, timeout_s: float) -> None:
        """Wait for what plugins ask for by themselves: until all is answered, and nothing came for a moment."""
        until = monotonic() + timeout_s
        asked, since = -1, monotonic()
        while monotonic() < until:
            now = len(self._runtime.updates) + len(self._runtime.evictions)
            if now != asked or any(plugin.runtime.outstanding for plugin in self._inside):
                asked, since = now, monotonic()
            elif monotonic() - since >= QUIET_S:
                return
            sleep(0.01)

    def _explain(self, result: Result) -> None:
        """Fill in the changes of a container, the updates that came later included."""
        adaptation = self._runtime.adaptation
        explanation = adaptation.provenance.explain(result.id, adaptation.rules) if adaptation.provenance else None
        if explanation is not None:
            result.steps = explanation.steps


def _named(error: ConfigError, plugin: TrialPlugin) -> ConfigError:
    """Return the error with the name of the file that the configuration comes from."""
    source = error.source
    if plugin.config is not None and source.startswith(_RUNTIMES_TEXT):
        source = plugin.config.name + source.removeprefix(_RUNTIMES_TEXT)
    others = [_named(other, plugin) for other in error.others]
    return ConfigError(source, error.key, error.reason, error.suggestion, others)


#: How long a program has to take part, in steps and seconds of each.
STEPS, _STEP_S = 100, 0.1


@contextlib.contextmanager
def program(runtime: FakeRuntime, plugin: TrialPlugin) -> Iterator[None]:
    """Run the program while the context lasts. NriError if it does not take part."""
    name = name_in(plugin.target) or os.path.basename(plugin.target)
    with contextlib.suppress(OSError), open(plugin.target, "rb", opener=open_regular) as file:
        if file.read(len(MAGIC)) == MAGIC:
            reason = "it is WebAssembly, which only a runtime loads: put it into the runtime's plugin folder"
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
    raise NriError(f"plugin {label} does not take part: {process.status or 'it does not register'}{words}")


class Observed(NamedTuple):
    """The sightings since the last look: (plugin, event, error), reports, (plugin, event)."""

    silent: list[tuple[str, str, BaseException]]
    shadows: list[ShadowReport]
    left_out: list[tuple[str, str]]


class TrialObserver(Observer):
    """Observer that collects what a runtime tells until `take` is called."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = Observed([], [], [])

    def take(self) -> Observed:
        """Return what was seen since the last time."""
        seen, self._seen = self._seen, Observed([], [], [])
        return seen

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Keep a plugin that gave no answer. An error status is an answer, and the event's own error."""
        if error is not None and not isinstance(error, RpcError):
            self._seen.silent.append((plugin, operation, error))

    def record_shadow(self, report: object) -> None:
        """Keep what a shadow plugin would have done, if that is anything."""
        if isinstance(report, ShadowReport) and not report.empty:
            self._seen.shadows.append(report)

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Keep a plugin that asked for something of a container that is not there."""
        self._seen.left_out.append((plugin, operation))
