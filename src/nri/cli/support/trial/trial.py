"""A trial of plugins on pods: connect them to a runtime of our own, take each pod through its start, note what changed.

The events are those of a pod that starts: RunPodSandbox, and for each container CreateContainer, PostCreateContainer,
StartContainer, PostStartContainer. A container that is refused is not started; the others are tried all the same, so
that one run shows all conflicts. What plugins ask for by themselves is waited for, until they have been quiet for a
moment. Next: `nri.cli.support.trial.outcome`.
"""

from __future__ import annotations

import contextlib
import logging
from time import monotonic, sleep
from typing import TYPE_CHECKING, cast

from nri.cli.errors import Failure
from nri.cli.support.plugin_loader import explain, load
from nri.cli.support.trial.contestants import name_in
from nri.cli.support.trial.outcome import Miss, Outcome, PodResult, Result
from nri.cli.support.trial.programs import program
from nri.cli.support.trial.watching import Watching
from nri.errors import ConfigError, LocalProtocolError, NriError, describe
from nri.stub.program.options import Options
from nri.testing import FakeRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.support.trial.contestants import Contestant
    from nri.kube.manifest import Workload
    from nri.stub.plugin import Plugin

__all__ = ["Trial", "run"]

#: What `nri.stub` calls the text that a runtime hands over with Configure.
_RUNTIMES_TEXT = "the runtime's configuration"
#: How long plugins must have asked for nothing, after the last event, for the trial to end, in seconds.
QUIET_S = 0.25


def run(
    plugins: Sequence[Contestant],
    workloads: Sequence[Workload],
    policy_path: str | None,
    timeout_s: float,
    *,
    verbose: int = 0,
) -> Outcome:
    """Try the plugins. Failure if one cannot be started, NriError if one does not take part.

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
    watching = Watching()
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

    def __init__(self, runtime: FakeRuntime, watching: Watching, stack: contextlib.ExitStack) -> None:
        self._runtime = runtime
        self._watching = watching
        self._stack = stack
        self._inside: list[Plugin] = []

    def add(self, plugin: Contestant) -> None:
        """Connect one plugin and wait until it takes part. Failure says why it does not."""
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
            told = next((row.last_error for row in self._runtime.plugins if row.plugin == f"{plugin.index}-{name}"), "")
            raise Failure(f"plugin {plugin.index}-{name} does not take part: {told or 'it never registered'}") from None
        except NriError:
            raise
        except Exception as error:
            raise Failure(explain(error, plugin.target)) from error

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
        misses = [Miss(plugin, event, reasons.get(plugin) or str(error)) for plugin, event, error in seen.silent]
        outcome.miss(result, misses)
        result.shadows += seen.shadows
        result.left_out += seen.left_out

    def _take_turns(self) -> None:
        """Let background work see the pods: its first turn came before there was one. Failure says which one fails."""
        for row in self._runtime.plugins:
            try:
                self._runtime.tick(row.plugin)
            except Exception as error:
                raise Failure(f"plugin {row.plugin}: background work failed: {describe(error)}") from error

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


def _named(error: ConfigError, plugin: Contestant) -> ConfigError:
    """Return the error with the name of the file that the configuration comes from."""
    source = error.source
    if plugin.config is not None and source.startswith(_RUNTIMES_TEXT):
        source = plugin.config.name + source.removeprefix(_RUNTIMES_TEXT)
    others = [_named(other, plugin) for other in error.others]
    return ConfigError(source, error.key, error.reason, error.suggestion, others)
