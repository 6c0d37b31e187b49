"""A trial of plugins on a pod: connect them to a runtime of our own, take the pod through its start, note what changed.

The events are those of a pod that starts: RunPodSandbox, and for each container CreateContainer, PostCreateContainer,
StartContainer, PostStartContainer. A container that is refused is not started; the others are tried all the same, so
that one run shows all conflicts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nri.cli.errors import FAILED, REJECTED, USAGE, Failure
from nri.errors import ConflictError, NriError, PluginError, Reject, RpcError, ValidationRejected
from nri.ttrpc import Code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.adaptation.audit.explanation import Step
    from nri.adaptation.launch.process import Process
    from nri.kube.manifest import Workload
    from nri.testing import FakeRuntime

__all__ = ["Contestant", "Outcome", "Result", "contestants", "run"]

_INDEXED = re.compile(r"(?P<index>[0-9]{2})=(?P<rest>.+)", re.DOTALL)
_NAMED = re.compile(r"(?P<index>[0-9]{2})-(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class Contestant:
    """One plugin of the trial: its index, what to run, and the text of its configuration."""

    index: str
    target: str
    config: str = ""

    @property
    def is_program(self) -> bool:
        """Whether it is a program of its own, and not Python to be run here."""
        return os.path.isfile(self.target) and not self.target.endswith(".py") and os.access(self.target, os.X_OK)


@dataclass(slots=True)
class Result:
    """The outcome for one container. `failed` says why it would not be created; "" if it would."""

    id: str
    name: str
    steps: list[Step] = field(default_factory=list)
    evictions: list[tuple[str, str]] = field(default_factory=list)
    failed: str = ""


@dataclass(slots=True)
class Outcome:
    """The outcome for the pod. `failed` says why it would not run at all."""

    pod: str
    plugins: list[str]
    results: list[Result] = field(default_factory=list)
    failed: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a table of JSON."""
        containers = [
            {
                "id": one.id,
                "name": one.name,
                "steps": [step.to_json() for step in one.steps],
                "evictions": [{"container": target, "reason": reason} for target, reason in one.evictions],
                "failed": one.failed,
            }
            for one in self.results
        ]
        return {"pod": self.pod, "plugins": self.plugins, "failed": self.failed, "containers": containers}

    def refuse(self, error: NriError) -> str:
        """Take note of an error, and return its text. A refusal weighs more than a failure."""
        refused = isinstance(error, (ConflictError, ValidationRejected, Reject)) or _is_reject(error)
        self.exit_code = REJECTED if refused else self.exit_code or FAILED
        return str(error)


def _is_reject(error: BaseException | None) -> bool:
    """Whether a plugin refused on purpose, and did not merely fail."""
    if isinstance(error, RpcError):
        return error.code == Code.PERMISSION_DENIED
    return isinstance(error, PluginError) and _is_reject(error.__cause__)


def contestants(targets: Sequence[str], configs: Sequence[str]) -> list[Contestant]:
    """Read the plugins of a command line, with their indices and configurations."""
    from nri.config import read_file

    texts = {}
    for text in configs:
        match = _INDEXED.fullmatch(text)
        if match is None:
            raise Failure(f'--config {text}: expected the index of a plugin and a file, such as "20=pin.yaml"', USAGE)
        texts[match["index"]] = read_file(match["rest"]).text
    found = []
    for place, text in enumerate(targets, 1):
        match = _INDEXED.fullmatch(text)
        target = match["rest"] if match else text
        named = _NAMED.fullmatch(os.path.basename(target))
        index = match["index"] if match else named["index"] if named else f"{min(10 * place, 99):02}"
        found.append(Contestant(index, target, texts.pop(index, "")))
    if texts:
        raise Failure(f"--config {next(iter(texts))}=...: no plugin has this index", USAGE)
    return found


def run(
    plugins: Sequence[Contestant], workload: Workload, policy: str | None, timeout_s: float, *, verbose: int = 0
) -> Outcome:
    """Try the plugins. Failure if one cannot be started, NriError if one does not take part."""
    from nri.testing import FakeRuntime

    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if verbose else logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(FakeRuntime(policy=policy, request_timeout_s=timeout_s, name="nri-try"))
        for plugin in plugins:
            _add(runtime, plugin, stack)
        pod = f"{workload.pod.namespace}/{workload.pod.name}"
        outcome = Outcome(pod, [health.plugin for health in runtime.plugins])
        try:
            runtime.run_pod_sandbox(workload.pod)
        except NriError as error:
            outcome.failed = outcome.refuse(error)
            return outcome
        for container in workload.containers:
            result = Result(container.id, container.name)
            outcome.results.append(result)
            try:
                created = runtime.create_container(workload.pod, container)
                result.evictions = [(one.container_id, one.reason) for one in created.evictions]
                for event in ("post_create_container", "start_container", "post_start_container"):
                    getattr(runtime, event)(workload.pod, created.container)
            except NriError as error:
                result.failed = outcome.refuse(error)
        _explain(runtime, outcome)
    return outcome


def _explain(runtime: FakeRuntime, outcome: Outcome) -> None:
    """Fill in the changes of each container, the updates that came later included."""
    provenance = runtime.adaptation.provenance
    for result in outcome.results:
        explanation = provenance.explain(result.id, runtime.adaptation.rules) if provenance is not None else None
        if explanation is not None:
            result.steps = explanation.steps


def _add(runtime: FakeRuntime, plugin: Contestant, stack: contextlib.ExitStack) -> None:
    """Connect one plugin and wait until it takes part."""
    if plugin.is_program:
        stack.enter_context(_program(runtime, plugin))
        return
    from nri.cli.support.plugin_loader import load

    name = _NAMED.fullmatch(os.path.basename(plugin.target.partition(":")[0]).removesuffix(".py"))
    kind = load(plugin.target)
    runtime.add(kind(), plugin.index, name["name"] if name else None, config=plugin.config)


@contextlib.contextmanager
def _program(runtime: FakeRuntime, plugin: Contestant) -> Iterator[None]:
    """Run a program as an installed plugin for as long as the context lasts."""
    from nri.adaptation.launch.discovery import Found
    from nri.adaptation.launch.process import Process

    base = os.path.basename(plugin.target)
    name = match["name"] if (match := _NAMED.fullmatch(base)) else base
    try:
        process = Process(Found(os.path.abspath(plugin.target), plugin.index, name))
    except OSError as error:
        raise Failure(f"{plugin.target}: cannot be run: {error.strerror}", USAGE) from None
    waiter = threading.Thread(target=process.wait, args=(lambda: 1.0,), name=f"nri-try-{name}", daemon=True)
    waiter.start()
    try:
        runtime.adaptation.connect(process.socket, plugin.config)
        _wait_for(runtime, f"{plugin.index}-{name}", process, waiter)
        yield
    finally:
        process.kill()
        waiter.join(5.0)


def _wait_for(runtime: FakeRuntime, label: str, process: Process, waiter: threading.Thread) -> None:
    for _ in range(100):
        if runtime.adaptation.ready([label], 0.1):
            return
        if not waiter.is_alive():
            break
    words = f": {process.last_words}" if process.last_words else ""
    raise Failure(f"plugin {label} does not take part: {process.status or 'it does not register'}{words}")
