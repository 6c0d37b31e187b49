"""Answer the calls of Koordinator's hook protocol, which a proxy makes before and after calls of the CRI.

A request is a dict with the protocol's field names. The reply is the request with the changes applied, because the
proxy replaces all fields. The executor writes changes that the protocol cannot express once the cgroup exists;
unsupported changes are reported. The requested resources of each container are remembered, so that a ratio is not
applied twice.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from nri.agent import cgroup_paths as paths
from nri.agent.decisions import reason_of
from nri.agent.executor import tidy
from nri.agent.hooks import CREATE, REMOVE_POD, RUN_POD, UPDATE
from nri.agent.hooks import Outcome as Decided
from nri.agent.koordinator import hook_fields as words
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import HOOKS
from nri.agent.model import QUOTA, Changes, Container, Pod, Resources, Write, pod_writes, writes
from nri.agent.parts import Parts
from nri.agent.transports.cpu_clearing import clear_cpus, clears_cpus
from nri.errors import NriError
from nri.host import Outcome, Result
from nri.text import plain

_log = logging.getLogger(__name__)
TRANSPORT: Final = "hooks"
STARTED, STOPPED, POD_STOPPED = "PostStartContainer", "PostStopContainer", "PostStopPodSandbox"
#: The maximum number of remembered pods, and of remembered containers; a node has far fewer.
MAX_ENTRIES = 4096
_NO_WORD = "Koordinator's hook protocol cannot express this; use mode nri or proxy"

Fields = dict[str, Any]
_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


class HookRefused(NriError):
    """A hook failed, and the failure policy "Fail" makes the request fail."""


class _ContainerRecord(NamedTuple):
    """A container that a proxy reported.

    Attributes:
        requested: the requested resources, before the agent changed them.
        quota: the quota in the agent's reply.
        round: the number of rule changes before the decision.
        running: the container, once it runs.
    """

    requested: Resources | None
    quota: int | None
    round: int
    running: Container | None = None


def stages_of(node: Node) -> list[str]:
    """Return the stages to register for: stages with enabled hooks, and stages at which containers start and stop."""
    on = {stage for row in HOOKS if row.on(node) for stage in row.stages} - node.disabled_stages
    stages = [stage for stage in (RUN_POD, CREATE, UPDATE) if stage in on]
    if stages or REMOVE_POD in on:
        stages += [STARTED, STOPPED, POD_STOPPED]
    return stages


class HookCalls:
    """Answers calls of the protocol. Thread-safe."""

    def __init__(self, parts: Parts, runtime: str = "containerd") -> None:
        self._parts, self._runtime = parts, runtime
        self._lock = threading.Lock()
        self._round = 0
        self._pods: OrderedDict[str, Pod] = OrderedDict()
        self._containers: OrderedDict[tuple[str, str], _ContainerRecord] = OrderedDict()
        self._answers: Mapping[str, Callable[[Fields], Fields]] = {
            RUN_POD: self._run,
            CREATE: self._create,
            UPDATE: self._update,
            STARTED: self._container_started,
            STOPPED: self._container_stopped,
            POD_STOPPED: self._pod_stopped,
        }

    def answer(self, stage: str, request: Fields) -> Fields:
        """Answer a call. Raises HookRefused if a hook fails and the failure policy is "Fail"."""
        answer = self._answers.get(stage)
        return _unchanged_response(request) if answer is None else answer(request)

    def apply_again(self) -> int:
        """Decide and write again for all running pods and containers. Returns their number.

        The values of a pod and its containers are one batch, because a pod's quota must not be below its containers'
        quotas.
        """
        with self._lock:
            self._round += 1
            pods, containers = dict(self._pods), [container.running for container in self._containers.values()]
        running: dict[str, list[Pod | Container]] = {uid: [pod] for uid, pod in pods.items()}
        for running_container in containers:
            if running_container is not None:
                running.setdefault(running_container.pod.uid, []).append(running_container)
        return sum(map(self._one_again, running.values()))

    def _one_again(self, contexts: Sequence[Pod | Container]) -> int:
        """Decide again for a pod and its containers. Returns their number, or 0 after an error."""
        try:
            self._apply_again(contexts)
        except Exception:  # noqa: BLE001 - an error of one pod must not stop the others or the thread
            _log.exception("mode hooks: a new decision for a pod failed")
            return 0
        return len(contexts)

    def _apply_again(self, contexts: Iterable[Pod | Container]) -> None:
        decisions, executor = self._parts.decisions, self._parts.executor
        batch: list[tuple[Pod | Container, Write]] = []
        for context in contexts:
            outcome = decisions.decide(RUN_POD if isinstance(context, Pod) else UPDATE, context, TRANSPORT)
            if outcome.failed is not None:
                continue
            changes, why = outcome.changes, reason_of(outcome)
            to_writes = pod_writes if isinstance(context, Pod) else writes
            batch += [(context, write) for write in to_writes(context.folder, changes, why)]
            if changes.resctrl is not None:
                decisions.record(context, TRANSPORT, executor.resctrl(changes.resctrl))
            if isinstance(context, Container):
                self._tell_clear(context, changes)
        results = executor.write([write for _, write in batch], keep=False)
        for (context, _), result in zip(batch, results, strict=True):
            decisions.record(context, TRANSPORT, [result])

    # --- pods ---

    def _run(self, request: Fields) -> Fields:
        now, pod = self._round, _pod(request)
        self._remember(self._pods, pod.uid, pod)
        outcome = self._decision(RUN_POD, pod)
        self._parts.decisions.carry_out(pod, outcome, TRANSPORT)
        self._decide_again_if_changed(now, pod)
        return words.pod_response(outcome.changes, _unchanged_response(request))

    def _pod_stopped(self, request: Fields) -> Fields:
        pod = _pod(request)
        outcome = self._parts.decisions.decide(REMOVE_POD, pod, TRANSPORT)
        self._parts.decisions.carry_out(pod, outcome, TRANSPORT)
        with self._lock:
            self._pods.pop(pod.uid, None)
            for key in [key for key in self._containers if key[0] == pod.uid]:
                del self._containers[key]
        self._parts.decisions.removed(pod)
        return _unchanged_response(request)

    # --- containers ---

    def _create(self, request: Fields) -> Fields:
        now, container = self._round, self._context(request)
        outcome = self._decision(CREATE, container)
        changes = outcome.changes
        self._remember(
            self._containers, _key(container), _ContainerRecord(container.resources, changes.number(QUOTA), now)
        )
        if results := [*_unsupported(container, changes)]:
            self._parts.decisions.record(container, TRANSPORT, results)
        return words.container_response(changes, _unchanged_response(request))

    def _update(self, request: Fields) -> Fields:
        now, container = self._round, self._context(request)
        record = self._containers.get(_key(container))
        container = _as_requested(container, record)
        outcome = self._decision(UPDATE, container)
        quota = outcome.changes.number(QUOTA)
        running = container if _has_id(request) else None
        self._remember(self._containers, _key(container), _ContainerRecord(container.resources, quota, now, running))
        if running is not None:
            self._tell_clear(running, outcome.changes)
        return words.container_response(outcome.changes, _unchanged_response(request))

    def _container_started(self, request: Fields) -> Fields:
        """Write the values that the protocol cannot express, and waiting values: processes and cgroups now exist."""
        container = self._context(request)
        waited = self._parts.executor.retry(container.pod.folder)
        self._parts.decisions.record(container.pod, TRANSPORT, waited)
        if not _has_id(request):
            return _unchanged_response(request)
        record = self._containers.get(_key(container)) or _ContainerRecord(None, None, self._round)
        container = _as_requested(container, record)
        self._remember(
            self._containers,
            _key(container),
            _ContainerRecord(container.resources, record.quota, record.round, container),
        )
        changes = self._parts.decisions.decide(CREATE, container, TRANSPORT).changes
        if changes.resctrl is not None:
            late = Changes(resctrl=changes.resctrl)
            results = self._parts.executor.changes(container, late, "the container's first process runs now")
            self._parts.decisions.record(container, TRANSPORT, results)
        self._decide_again_if_changed(record.round, self._pods.get(container.pod.uid, container.pod), container)
        return _unchanged_response(request)

    def _container_stopped(self, request: Fields) -> Fields:
        container = self._context(request)
        with self._lock:
            record = self._containers.get(_key(container))
            if record is not None and (record.running is None or record.running.id == container.id):
                del self._containers[_key(container)]  # otherwise another container with this name already runs
        return _unchanged_response(request)

    # --- helpers ---

    def _context(self, request: Fields) -> Container:
        folder = tidy(request.get("pod_cgroup_parent") or "")
        driver = paths.SYSTEMD if folder.endswith(".slice") else paths.CGROUPFS
        return words.container_context({**request, "pod_cgroup_parent": folder}, self._runtime, driver)

    def _decision(self, stage: str, context: Pod | Container) -> Decided:
        outcome = self._parts.decisions.decide(stage, context, TRANSPORT)
        if outcome.failed is not None:
            raise HookRefused(plain(str(outcome.failed)))
        return outcome

    def _decide_again_if_changed(self, decided: int, *contexts: Pod | Container) -> None:
        """Decide again for new objects if rules changed during the decision, because the change missed them."""
        if decided != self._round:
            self._one_again(contexts)

    def _tell_clear(self, container: Container, changes: Changes) -> None:
        """Clear a running container's CPUs, because an update of the CRI cannot express that."""
        if clears_cpus(changes):
            results = clear_cpus(self._parts.executor, container.folder)
            self._parts.decisions.record(container, TRANSPORT, results)

    def _remember(self, memory: OrderedDict[_Key, _Kept], key: _Key, value: _Kept) -> None:
        with self._lock:
            memory.pop(key, None)
            memory[key] = value
            while len(memory) > MAX_ENTRIES:
                memory.popitem(last=False)


def _pod(request: Fields) -> Pod:
    return words.pod_context({**request, "cgroup_parent": tidy(request.get("cgroup_parent") or "")})


def _key(container: Container) -> tuple[str, str]:
    return container.pod.uid, container.name


def _has_id(request: Fields) -> bool:
    """Return whether a container has an id. Without an id its cgroup would be the pod's."""
    return bool((request.get("container_meta") or {}).get("id"))


def _as_requested(container: Container, record: _ContainerRecord | None) -> Container:
    """Return the container with the requested quota, if the proxy reports the agent's quota instead."""
    if record is None or record.requested is None or container.resources is None or record.quota is None:
        return container
    if container.resources.cfs_quota != record.quota:
        return container
    return replace(container, resources=replace(container.resources, cfs_quota=record.requested.cfs_quota))


def _unchanged_response(request: Fields) -> Fields:
    """Return a response without changes."""
    if "container_meta" in request:
        names = ("container_annotations", "container_resources", "pod_cgroup_parent", "container_envs")
    else:
        names = ("labels", "annotations", "cgroup_parent", "resources")
    return {name: request[name] for name in names if name in request}


def _unsupported(container: Container, changes: Changes) -> Iterator[Result]:
    target = container.name
    for mount in changes.mounts:
        yield Result(target, f"mount {mount.destination}", mount.source, Outcome.UNSUPPORTED, _NO_WORD)
    for device in changes.devices:
        yield Result(target, f"device {device.path}", device.path, Outcome.UNSUPPORTED, _NO_WORD)
