"""The agent as an NRI plugin: events run hooks, and decisions become adjustments, updates and writes.

| event | action |
|---|---|
| Synchronize | new decisions for running pods and containers: updates in the reply for containers, writes for pods |
| RunPodSandbox | the values of the pod are written, or wait for its cgroup |
| CreateContainer | adjustment; waiting values of the pod; updates of other containers, if a hook makes room |
| PostCreateContainer | the runtime's view of the adjustment is recorded |
| StartContainer | CPUs are cleared before the first instruction; a container without a decision gets all values |
| UpdateContainer | update of the requested resources and of strategies' values; CPUs are cleared after the update |
| RemovePodSandbox | the hooks' changes for the pod are undone |

Only the failure policy "Fail" refuses a request, with the name of the hook. With the policy "Ignore", a failure affects
only the values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from nri import host, versions
from nri.agent.hooks import CREATE, REMOVE_POD, RUN_POD, UPDATE, Outcome
from nri.agent.model import NO_CHANGES, QUOTA, Changes, Container, Pod, Resources
from nri.agent.parts import Parts
from nri.agent.pods.nri import NriPods
from nri.agent.transports import contexts, messages, translation
from nri.agent.transports.cpu_clearing import clear_cpus, clears_cpus
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.agent.transports.reapplication import Reapply
from nri.agent.transports.refresher import Refresher
from nri.agent.transports.registration import EVENTS, subscription
from nri.agent.transports.updates import RuntimeUpdates
from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.failure import FailurePolicy
from nri.api.builders.update import Update
from nri.api.events import EventMask
from nri.errors import Reject
from nri.host import Result
from nri.stub.plugin import Plugin
from nri.stub.session.background import every
from nri.stub.session.subscription import FAILURE_POLICY_SINCE, known_to
from nri.text import plain

__all__ = ["EVENTS", "Answer", "HookPlugin"]

_log = logging.getLogger(__name__)
Requests = dict[tuple[str, str], Resources]
#: The kubelet's request for each container, by the uid of the pod and the name of the container.
#: An adjustment of the container, and updates of other containers.
Answer = tuple[Adjustment | None, list[Update]]
_T = TypeVar("_T")
#: The interval in seconds between searches for pods that vanished without an event.
SWEEP_S: Final = 60.0
_ALIVE: Final = (m.ContainerState.CONTAINER_CREATED, m.ContainerState.CONTAINER_RUNNING)


class HookPlugin(Plugin):
    """The agent's hooks as an NRI plugin.

    Args:
        parts: the shared parts of the agent.
        transport: the transport's name in records.
        fail: whether a request fails if this plugin does not reply.

    Attributes:
        held: the inventory of pods and containers that the runtime reported.
        reapply: the object that decides again for running pods and containers.
        refresher: the thread of `reapply`, which the transport starts and stops.
        updates: the sender of values of running containers to the runtime.
    """

    name = "nri-agent"

    class Config:
        """The configuration that a runtime can send: the events to subscribe to instead of `EVENTS`."""

        events: list[str] = []  # noqa: RUF012 - the stub gives each plugin a copy

    def __init__(self, parts: Parts, transport: str = "nri", *, fail: bool = False) -> None:
        self._parts, self._transport, self._fail = parts, transport, fail
        self.held = RuntimeInventory(transport)
        if isinstance(parts.pods, NriPods):
            parts.pods.follow(self.held, lambda number, reason: self.runtime.evict(number, reason).result())
        #: Whether a quota that a runtime reports may have been scaled by a hook.
        self._scales = any(owns.knob == QUOTA for hook in parts.profile.hooks for owns in hook.owns)
        self.reapply = Reapply(parts, self.held, transport)
        self.refresher = Refresher(lambda: self.reapply.run(self.runtime), f"nri-agent-{transport}-refresh")
        self.updates = RuntimeUpdates(parts, self.held, transport, lambda: self.runtime)
        parts.observer.gauge("held", self.held.counts)

    def rules_changed(self) -> None:
        """Request new decisions for running pods and containers."""
        self.reapply.rules_changed()
        self.refresher.ask()

    # -- the connection -----------------------------------------------------------------------------------------------

    def configure(self) -> EventMask:
        """Subscribe to events, and set the failure policy of a late reply."""
        # The session reads `failure_policy` after this call. Older runtimes ignore the policy, so they get it only if
        # errors must fail requests.
        policy = FailurePolicy(fail_request=self._fail, keep_connected=True)
        has_failure_policy = versions.version_at_least(self.runtime.nri_version, FAILURE_POLICY_SINCE)
        self.failure_policy = policy if self._fail or has_failure_policy else None  # type: ignore[misc]  # of this connection
        return subscription(list(self.config.events), known_to(self.runtime))

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[Update]:
        """Take over the running pods and containers, and return the updates that the current rules require."""
        self._parts.observer.count_event(self._transport, "synchronized")
        generation = self.reapply.generation
        stale_pods = self.held.keep_only({pod.id for pod in pods}, {container.id for container in containers})
        for context in stale_pods:
            self._call_and_log_error("removal", partial(self._pod_removed, context))
        by_id = {pod.id: pod for pod in pods}
        made_ns: dict[str, list[int]] = {}
        for container in containers:
            made_ns.setdefault(container.pod_sandbox_id, []).append(container.created_at)
        for pod in pods:
            self.held.put_pod(pod.id, contexts.pod_context(pod), made_ns.get(pod.id, ()))
        # The pods of `NriPods` are built from these contexts and contain no more data.
        requests = (
            {} if isinstance(self._parts.pods, NriPods) else translation.requests_from_api(self._parts.pods.pods())
        )
        for container in containers:
            owner = by_id.get(container.pod_sandbox_id)
            if owner is not None and container.state in _ALIVE:
                self._call_and_log_error("container", partial(self._take_over, owner, container, requests, generation))
        self.held.note_problem("")
        updates = self.reapply.synchronized({container.id: container for container in containers}, self.time_left())
        if self.reapply.left or generation != self.reapply.generation:
            self.refresher.ask()
        return [Update.of(update) for update in updates]

    def closed(self) -> None:
        """Record that the inventory may be old."""
        self.held.note_problem("the runtime is not connected, so its last report may be old")

    @every(SWEEP_S)
    def sweep(self) -> None:
        """Undo the hooks' changes for pods that vanished without an event."""
        for context in self.reapply.vanished():
            self._call_and_log_error("removal", partial(self._pod_removed, context))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Write the pod's values."""
        generation, context = self.reapply.generation, contexts.pod_context(pod)
        self.held.put_pod(pod.id, context)
        outcome = self._decide(RUN_POD, context)
        self._call_and_log_error("pod", lambda: self._parts.decisions.carry_out(context, outcome, self._transport))
        self._decide_again_if_changed(generation)

    def post_update_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Write the pod's values again, because the kubelet has overwritten them."""
        generation, context = self.reapply.generation, contexts.pod_context(pod)
        self.held.put_pod(pod.id, context)
        self._call_and_log_error("pod", lambda: self.reapply.pod(context, force=True))
        self._decide_again_if_changed(generation)

    def remove_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Undo the hooks' changes for the pod."""
        self.held.drop_pod(pod.id)
        self._call_and_log_error("removal", lambda: self._pod_removed(contexts.pod_context(pod)))

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Answer:
        """Adjust a container that is about to be created, and update containers that make room for it."""
        generation = self.reapply.generation
        context = contexts.container_context(pod, container, self._scheme)
        if self.held.pod(pod.id) is None:
            self.held.put_pod(pod.id, context.pod)
        self._write_pending(context.pod)
        changes = self._valid_changes(context, self._decide(CREATE, context))
        parts = self._parts
        folder_results = self._call_and_log_error(
            "folders", lambda: parts.profile.prepare(parts.root, changes, parts.store.node)
        )
        if folder_results:
            parts.decisions.record(context, self._transport, folder_results)
        asked_for = messages.reported(container.linux.resources)
        self.held.put(container.id, InventoryEntry(pod.id, context, changes, generation, requested=asked_for))
        message = self._converted_message(
            context, lambda: translation.adjustment(changes, context.resources, parts.executor.on_v2)
        )
        room = (
            self._call_and_log_error("room", lambda: self.updates.room(container.id, context, self.time_left())) or []
        )
        adjusted = Adjustment.of(message) if message is not None and message.ByteSize() else None
        return adjusted, [Update.of(update) for update in room]

    def post_create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Record the runtime's view of the container after the adjustment."""
        if (entry := self.held.container(container.id)) is None:
            return
        self.held.mark_created(entry, contexts.with_current_folder(entry.context, pod, container, self._scheme))
        entry.reported = messages.reported(container.linux.resources)
        if entry.changes:
            self._compare(entry, container)
        self._call_and_log_error("room", lambda: self.updates.created(container.id))
        self._decide_again_if_changed(entry.generation)

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Write what NRI cannot express, before the container's first instruction."""
        entry = self.held.container(container.id) or self._decide_late(pod, container)
        self.held.mark_created(entry, contexts.with_current_folder(entry.context, pod, container, self._scheme))
        self._write_pending(entry.context.pod)  # systemd creates the pod's slice with its first container, after create
        self._clear(entry)
        if entry.changes:
            self._call_and_log_error("start", partial(self._write_missing, entry, entry.changes, container))

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Update | None:
        """Apply the rules to the resources that the kubelet requests."""
        generation = self.reapply.generation
        context = contexts.requested(pod, container, resources, self._scheme)
        changes = self._valid_changes(context, self._decide(UPDATE, context))
        entry = self.held.get_or_add(container.id, InventoryEntry(pod.id, context, created=True))
        self.held.ask(entry, context)
        entry.hand_over(changes)
        entry.generation = entry.answered = generation
        self._decide_again_if_changed(generation)
        changes = self.updates.values_to_keep(entry, resources) | changes
        message = self._converted_message(
            context, lambda: translation.update(changes, container.id, self._parts.executor.on_v2)
        )
        return Update.of(message) if message is not None else None

    def post_update_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Record the runtime's view after the update, and clear CPUs again that the update may have set."""
        entry = self.held.container(container.id)
        if entry is not None:
            entry.reported = messages.reported(container.linux.resources)
        if entry is not None and entry.changes:
            self._compare(entry, container)
            self._clear(entry)
        if entry is not None and entry.answered != self.reapply.generation:
            entry.changes = None  # the runtime applied a reply by old rules, perhaps after one by new rules
            self.refresher.ask()

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Forget a container that has stopped."""
        self.updates.forget(container.id)
        if (entry := self.held.drop(container.id)) is not None:
            self._parts.executor.forget(entry.context.folder)

    def remove_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Forget a container that was removed or could not be created."""
        self.stop_container(pod, container)

    def _write_pending(self, pod: Pod) -> None:
        """Write the values of a pod that have waited for its cgroup."""
        results = self._call_and_log_error("pod", lambda: self._parts.executor.retry(pod.folder))
        self._parts.decisions.record(pod, self._transport, results or [])

    # -- helpers -------------------------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> str:
        """The prefix of the container ids of this runtime."""
        return self.runtime.name or "containerd"

    def _decide(self, stage: str, context: Pod | Container) -> Outcome:
        """Run the hooks. Raises Reject if a hook fails and the failure policy is "Fail"."""
        outcome = self._parts.decisions.decide(stage, context, self._transport)
        if outcome.failed is not None:
            raise Reject(str(outcome.failed))
        return outcome

    def _decide_again_if_changed(self, generation: int) -> None:
        """Request new decisions if rules changed during this one: its values may have overwritten newer ones."""
        if generation != self.reapply.generation:
            self.refresher.ask()

    def _valid_changes(self, context: Container, outcome: Outcome) -> Changes:
        changes, left_out = translation.valid_changes(outcome.changes, context.folder)
        self._parts.decisions.record(context, self._transport, left_out)
        return changes

    def _converted_message(self, context: Container, convert: Callable[[], _T]) -> _T | None:
        """Convert changes to a message of the runtime. An error is recorded, and the result is None."""
        try:
            return convert()
        except Exception as error:  # noqa: BLE001 - a conversion never fails a container
            _log.exception("mode %s: a decision cannot be converted to a message", self._transport)
            reason = f"the decision cannot be converted to a message: {plain(str(error))}"
            refused = Result(context.folder, "all values", "", host.Outcome.REFUSED, reason)
            self._parts.decisions.record(context, self._transport, [refused])
            return None

    def _take_over(self, pod: m.PodSandbox, container: m.Container, requests: Requests, now: int) -> None:
        """Take over a running container, and keep its data from an earlier connection."""
        context = contexts.container_context(pod, container, self._scheme, self.held.pod(pod.id))
        before = self.held.container(container.id)
        if before is not None:
            resources = before.context.resources
        else:
            reported = (
                translation.requested_resources(pod, container, context.resources)
                if self._scales
                else context.resources
            )
            resources = requests.get((pod.uid, container.name)) or reported
        context = replace(context, resources=resources)
        entry = InventoryEntry(
            pod.id, context, None, now, created=True, reported=messages.reported(container.linux.resources)
        )
        if before is not None:
            entry.requested, entry.decided = before.requested, before.decided
        self.held.put(container.id, entry)

    def _decide_late(self, pod: m.PodSandbox, container: m.Container) -> InventoryEntry:
        """Decide for a starting container whose creation was not reported, and write all its values."""
        generation, context = self.reapply.generation, contexts.container_context(pod, container, self._scheme)
        outcome = self._parts.decisions.decide(CREATE, context, self._transport)
        entry = InventoryEntry(pod.id, context, outcome.changes, generation, created=True)
        self.held.put(container.id, entry)
        if outcome.failed is not None:
            raise Reject(str(outcome.failed))
        self._call_and_log_error("start", lambda: self._parts.decisions.carry_out(context, outcome, self._transport))
        self._decide_again_if_changed(generation)
        return entry

    def _write_missing(self, entry: InventoryEntry, changes: Changes, container: m.Container) -> None:
        """Write values that the runtime did not apply, for example because the reply was late."""
        if translation.confirmed(container, changes, self._parts.executor.on_v2):
            return
        results = self._parts.decisions.carry_out(entry.context, Outcome(changes), self._transport)
        if any(result.outcome is host.Outcome.APPLIED for result in results):
            entry.changes = None  # the runtime must get these values too
            self.refresher.ask()

    def _clear(self, entry: InventoryEntry) -> None:
        if clears_cpus(entry.changes):
            results = self._call_and_log_error("clear", lambda: clear_cpus(self._parts.executor, entry.context.folder))
            self._parts.decisions.record(entry.context, self._transport, results or [])

    def _compare(self, entry: InventoryEntry, container: m.Container) -> None:
        context, changes = entry.context, entry.changes or NO_CHANGES
        results = self._call_and_log_error(
            "record", lambda: translation.comparison_results(container, changes, context.folder)
        )
        self._parts.decisions.record(context, self._transport, results or [])

    def _pod_removed(self, context: Pod) -> None:
        outcome = self._parts.decisions.decide(REMOVE_POD, context, self._transport)
        self._parts.decisions.carry_out(context, outcome, self._transport)
        self._parts.decisions.removed(context)

    def _call_and_log_error(self, what: str, act: Callable[[], _T]) -> _T | None:
        """Call a function and log its exception, which must not affect the container."""
        try:
            return act()
        except Exception:  # noqa: BLE001 - the container must start nevertheless
            _log.exception("mode %s: action %r failed", self._transport, what)
            return None
