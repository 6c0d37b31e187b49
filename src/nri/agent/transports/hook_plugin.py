"""The plugin: NRI's events to the hooks' stages, and what they decide back, as adjustments, updates and writes.

| event | what is done |
|---|---|
| Synchronize | all that runs is decided again: updates in the reply, pods' values by writes |
| RunPodSandbox | pod values are written; those of a cgroup that is not there yet wait for it |
| CreateContainer | adjustment; the waiting values of its pod; updates of others, if a hook decides so |
| PostCreateContainer | what the runtime made of the adjustment is recorded |
| StartContainer | before the first instruction CPUs are cleared; one that was never decided gets all by writes |
| UpdateContainer | update of what was asked for, and of strategies' values; cleared CPUs follow after it |
| RemovePodSandbox | what the hooks gave to the pod is taken back |

Rules: only the failure policy "Fail" refuses a request, with the hook's name; nothing else that goes wrong here costs a
container more than the values. It serves any runtime side, over any connection. Next: `nri.agent.transports.reapply`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from nri import host
from nri.agent.parts import Parts
from nri.agent.pods.nri import NriPods
from nri.agent.transports import contexts, translation
from nri.agent.transports.clear_cpus import clear_cpus, clears_cpus
from nri.agent.transports.inventory import InventoryContainer, RuntimeInventory
from nri.agent.transports.reapply import Reapply
from nri.agent.transports.refresher import Refresher
from nri.agent.transports.registration import EVENTS, subscription
from nri.agent.transports.updates import RuntimeUpdates
from nri.api import messages as m
from nri.api import versions
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.failure import FailurePolicy
from nri.api.builders.update import Update
from nri.api.events import EventMask
from nri.errors import Reject
from nri.host import Result
from nri.policies import messages
from nri.policies.changes import NO_CHANGES, Changes
from nri.policies.contexts import ContainerContext, PodContext, Resources
from nri.policies.hooks import CREATE, REMOVE_POD, RUN_POD, UPDATE, Outcome
from nri.policies.writes import QUOTA
from nri.stub.plugin import Plugin
from nri.stub.session.background import every
from nri.stub.session.subscription import FAILURE_POLICY_SINCE, known_to
from nri.text import plain

__all__ = ["EVENTS", "Answer", "HookPlugin"]

_log = logging.getLogger(__name__)
Asked = dict[tuple[str, str], Resources]
#: An adjustment of the container, and updates of others.
Answer = tuple[Adjustment | None, list[Update]]
_T = TypeVar("_T")
#: How often pods that went without a word are looked for, in seconds.
SWEEP_S: Final = 60.0
_ALIVE: Final = (m.ContainerState.CONTAINER_CREATED, m.ContainerState.CONTAINER_RUNNING)


class HookPlugin(Plugin):
    """The policy as a plugin.

    Args:
        parts: the agent's.
        transport: the transport's name in records.
        fail: whether a request fails that this plugin has failed to answer.

    Attributes:
        held: what runs, as far as the runtime has told.
        reapply: decides again for what runs.
        refresher: the thread for it, which the transport starts and stops.
        updates: tells the runtime what was decided for containers that run beside that.
    """

    name = "nri-agent"

    class Config:
        """The configuration that a runtime may push: the events to subscribe to, instead of those of `EVENTS`."""

        events: list[str] = []  # noqa: RUF012 - the stub gives each plugin a copy

    def __init__(self, parts: Parts, transport: str = "nri", *, fail: bool = False) -> None:
        self._parts, self._transport, self._fail = parts, transport, fail
        self.held = RuntimeInventory(transport)
        if isinstance(parts.pods, NriPods):
            parts.pods.follow(self.held, lambda number, reason: self.runtime.evict(number, reason).result())
        #: Whether a quota that a runtime reports may be one that a hook has made of the kubelet's.
        self._scales = any(owns.knob == QUOTA for hook in parts.profile.hooks for owns in hook.owns)
        self.reapply = Reapply(parts, self.held, transport)
        self.refresher = Refresher(lambda: self.reapply.run(self.runtime), f"nri-agent-{transport}-refresh")
        self.updates = RuntimeUpdates(parts, self.held, transport, lambda: self.runtime)
        parts.observer.gauge("held", self.held.counts)

    def rules_changed(self) -> None:
        """Have what runs decided again."""
        self.reapply.rules_changed()
        self.refresher.ask()

    # -- the connection -----------------------------------------------------------------------------------------------

    def configure(self) -> EventMask:
        """Choose the events, and tell the runtime what a late answer means."""
        # It is looked at once this returns. Older runtimes, which ignore it, get only errors that they must not
        # overlook.
        policy = FailurePolicy(fail_request=self._fail, keep_connected=True)
        known = versions.version_at_least(self.runtime.nri_version, FAILURE_POLICY_SINCE)
        self.failure_policy = policy if self._fail or known else None  # type: ignore[misc]  # of this connection
        return subscription(list(self.config.events), known_to(self.runtime))

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[Update]:
        """Take in what runs; return the updates that bring it to what the rules of now say."""
        self._parts.observer.met(self._transport, "synchronized")
        generation = self.reapply.generation
        gone = self.held.keep_only({pod.id for pod in pods}, {container.id for container in containers})
        for context in gone:
            self._quietly("removal", partial(self._removed, context))
        by_id = {pod.id: pod for pod in pods}
        made_ns: dict[str, list[int]] = {}
        for container in containers:
            made_ns.setdefault(container.pod_sandbox_id, []).append(container.created_at)
        for pod in pods:
            self.held.put_pod(pod.id, contexts.pod_context(pod), made_ns.get(pod.id, ()))
        # Pods of NRI are made of what is taken in here, and know no more.
        asked = {} if isinstance(self._parts.pods, NriPods) else translation.by_api(self._parts.pods.pods())
        for container in containers:
            owner = by_id.get(container.pod_sandbox_id)
            if owner is not None and container.state in _ALIVE:
                self._quietly("container", partial(self._found, owner, container, asked, generation))
        self.held.note_problem("")
        updates = self.reapply.synchronized({each.id: each for each in containers}, self.time_left())
        if self.reapply.left or generation != self.reapply.generation:
            self.refresher.ask()
        return [Update.of(each) for each in updates]

    def closed(self) -> None:
        """Note that what is held may be old."""
        self.held.note_problem("the runtime is not connected, and what it reported last may be old")

    @every(SWEEP_S)
    def sweep(self) -> None:
        """Take back what the hooks gave to pods that went without a word."""
        for context in self.reapply.vanished():
            self._quietly("removal", partial(self._removed, context))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Write the pod's values."""
        generation, context = self.reapply.generation, contexts.pod_context(pod)
        self.held.put_pod(pod.id, context)
        outcome = self._decide(RUN_POD, context)
        self._quietly("pod", lambda: self._parts.decisions.carry_out(context, outcome, self._transport))
        self._since(generation)

    def post_update_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Write the pod's values again: the kubelet has set its own."""
        generation, context = self.reapply.generation, contexts.pod_context(pod)
        self.held.put_pod(pod.id, context)
        self._quietly("pod", lambda: self.reapply.pod(context, force=True))
        self._since(generation)

    def remove_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Take back what the hooks gave to the pod."""
        self.held.drop_pod(pod.id)
        self._quietly("removal", lambda: self._removed(contexts.pod_context(pod)))

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Answer:
        """Adjust a container that is about to be created, and have others make room for it."""
        generation = self.reapply.generation
        context = contexts.container_context(pod, container, self._scheme)
        if self.held.pod(pod.id) is None:
            self.held.put_pod(pod.id, context.pod)
        self._write_pending(context.pod)
        changes = self._sayable(context, self._decide(CREATE, context))
        parts = self._parts
        made = self._quietly("folders", lambda: parts.profile.prepare(parts.root, changes, parts.store.node))
        if made:
            parts.decisions.record(context, self._transport, made)
        asked_for = messages.reported(container.linux.resources)
        self.held.put(container.id, InventoryContainer(pod.id, context, changes, generation, asked_for=asked_for))
        message = self._converted(
            context, lambda: translation.adjustment(changes, context.resources, parts.executor.on_v2)
        )
        room = self._quietly("room", lambda: self.updates.room(container.id, context, self.time_left())) or []
        adjusted = Adjustment.of(message) if message is not None and message.ByteSize() else None
        return adjusted, [Update.of(each) for each in room]

    def post_create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Record what the runtime made of the adjustment."""
        if (known := self.held.container(container.id)) is None:
            return
        self.held.mark_created(known, contexts.placed(known.context, pod, container, self._scheme))
        known.said = messages.reported(container.linux.resources)
        if known.changes:
            self._compare(known, container)
        self._quietly("room", lambda: self.updates.created(container.id))
        self._since(known.generation)

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Do by writes what could not be said, before the container's first instruction."""
        known = self.held.container(container.id) or self._late(pod, container)
        self.held.mark_created(known, contexts.placed(known.context, pod, container, self._scheme))
        self._write_pending(known.context.pod)  # systemd creates the pod's slice with its first container, after create
        self._clear(known)
        if known.changes:
            self._quietly("start", partial(self._mend, known, known.changes, container))

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Update | None:
        """Change what the kubelet asks for into what the rules say."""
        generation = self.reapply.generation
        context = contexts.requested(pod, container, resources, self._scheme)
        changes = self._sayable(context, self._decide(UPDATE, context))
        known = self.held.known(container.id, InventoryContainer(pod.id, context, created=True))
        self.held.ask(known, context)
        known.hand_over(changes)
        known.generation = known.answered = generation
        self._since(generation)
        changes = self.updates.kept(known, resources) | changes
        message = self._converted(
            context, lambda: translation.update(changes, container.id, self._parts.executor.on_v2)
        )
        return Update.of(message) if message is not None else None

    def post_update_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Record what the runtime made of the update; clear the CPUs again that it may have set."""
        known = self.held.container(container.id)
        if known is not None:
            known.said = messages.reported(container.linux.resources)
        if known is not None and known.changes:
            self._compare(known, container)
            self._clear(known)
        if known is not None and known.answered != self.reapply.generation:
            known.changes = None  # the runtime has set what was answered by an older rule, perhaps over what is new
            self.refresher.ask()

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Forget a container that has stopped."""
        self.updates.forget(container.id)
        if (known := self.held.drop(container.id)) is not None:
            self._parts.executor.forget(known.context.cgroup_parent)

    def remove_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Forget a container that is removed, or whose creation failed."""
        self.stop_container(pod, container)

    def _write_pending(self, pod: PodContext) -> None:
        """Write the values of a pod that wait for its cgroup."""
        results = self._quietly("pod", lambda: self._parts.executor.retry(pod.cgroup_parent))
        self._parts.decisions.record(pod, self._transport, results or [])

    # -- how ----------------------------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> str:
        """The scheme before the ids of this runtime's containers."""
        return self.runtime.name or "containerd"

    def _decide(self, stage: str, context: PodContext | ContainerContext) -> Outcome:
        """Ask the hooks. Reject if the failure policy is "Fail" and one has failed."""
        outcome = self._parts.decisions.decide(stage, context, self._transport)
        if outcome.failed is not None:
            raise Reject(str(outcome.failed))
        return outcome

    def _since(self, generation: int) -> None:
        """Have what runs decided again if a rule has changed since: what was decided before it may have come after."""
        if generation != self.reapply.generation:
            self.refresher.ask()

    def _sayable(self, context: ContainerContext, outcome: Outcome) -> Changes:
        changes, left_out = translation.sayable(outcome.changes, context.cgroup_parent)
        self._parts.decisions.record(context, self._transport, left_out)
        return changes

    def _converted(self, context: ContainerContext, convert: Callable[[], _T]) -> _T | None:
        """Say changes to the runtime; what cannot be said costs the container nothing else."""
        try:
            return convert()
        except Exception as error:  # noqa: BLE001 - a conversion never fails a container
            _log.exception("mode %s: what was decided cannot be said to the runtime", self._transport)
            reason = f"it cannot be said to the runtime: {plain(str(error))}"
            refused = Result(context.cgroup_parent, "all of it", "", host.Outcome.REFUSED, reason)
            self._parts.decisions.record(context, self._transport, [refused])
            return None

    def _found(self, pod: m.PodSandbox, container: m.Container, asked: Asked, now: int) -> None:
        """Take in a container that runs already; what is known of an earlier connection stays known."""
        context = contexts.container_context(pod, container, self._scheme, self.held.pod(pod.id))
        before = self.held.container(container.id)
        if before is not None:
            resources = before.context.resources
        else:
            told = translation.asked_before(pod, container, context.resources) if self._scales else context.resources
            resources = asked.get((pod.uid, container.name)) or told
        context = replace(context, resources=resources)
        found = InventoryContainer(
            pod.id, context, None, now, created=True, said=messages.reported(container.linux.resources)
        )
        if before is not None:
            found.asked_for, found.decided = before.asked_for, before.decided
        self.held.put(container.id, found)

    def _late(self, pod: m.PodSandbox, container: m.Container) -> InventoryContainer:
        """Decide for a container that starts and whose creation was not told; all of it by writes."""
        generation, context = self.reapply.generation, contexts.container_context(pod, container, self._scheme)
        outcome = self._parts.decisions.decide(CREATE, context, self._transport)
        known = InventoryContainer(pod.id, context, outcome.changes, generation, created=True)
        self.held.put(container.id, known)
        if outcome.failed is not None:
            raise Reject(str(outcome.failed))
        self._quietly("start", lambda: self._parts.decisions.carry_out(context, outcome, self._transport))
        self._since(generation)
        return known

    def _mend(self, known: InventoryContainer, changes: Changes, container: m.Container) -> None:
        """Write what the runtime does not have: the answer was late, or it hears of its container otherwise."""
        if translation.confirmed(container, changes, self._parts.executor.on_v2):
            return
        results = self._parts.decisions.carry_out(known.context, Outcome(changes), self._transport)
        if any(result.outcome is host.Outcome.APPLIED for result in results):
            known.changes = None  # it has to know of them as well
            self.refresher.ask()

    def _clear(self, known: InventoryContainer) -> None:
        if clears_cpus(known.changes):
            results = self._quietly("clear", lambda: clear_cpus(self._parts.executor, known.context.cgroup_parent))
            self._parts.decisions.record(known.context, self._transport, results or [])

    def _compare(self, known: InventoryContainer, container: m.Container) -> None:
        context, changes = known.context, known.changes or NO_CHANGES
        results = self._quietly("record", lambda: translation.compared(container, changes, context.cgroup_parent))
        self._parts.decisions.record(context, self._transport, results or [])

    def _removed(self, context: PodContext) -> None:
        outcome = self._parts.decisions.decide(REMOVE_POD, context, self._transport)
        self._parts.decisions.carry_out(context, outcome, self._transport)
        self._parts.decisions.removed(context)

    def _quietly(self, what: str, act: Callable[[], _T]) -> _T | None:
        """Do something whose failure must not cost a container anything."""
        try:
            return act()
        except Exception:  # noqa: BLE001 - see above
            _log.exception("mode %s: %s failed, and is left out", self._transport, what)
            return None
