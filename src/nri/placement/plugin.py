"""The base of the placement plugins: events become decisions of a policy, and decisions adjustments and updates.

At Synchronize and after a change of the configuration, a new policy restores the placements of the previous policy,
places the remaining containers, and replaces the previous policy only if no step failed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import nri
from nri.api import messages as m
from nri.config import read, read_file
from nri.config.complaint import WrongValue
from nri.config.kubelet import pinning
from nri.config.layers import value_error
from nri.errors import ConfigError, NriError
from nri.host import Root, read_topology
from nri.host.usage import node_memory_used
from nri.kube.requests import Requests
from nri.placement.answers import (
    adjustment_of,
    differing,
    requests_after,
    unpinned_defaults,
    unpinned_resources,
    updates_of,
)
from nri.placement.checkpoint import Checkpoint
from nri.placement.containers import Container, NoPlace, Pins, container_of, no_deadline
from nri.placement.devices import HostDevices, hints_of
from nri.placement.ignored_keys import MAX_WARNINGS, ignored_annotations, ignored_keys
from nri.placement.machine import Machine
from nri.placement.policy import Policy, document, explanation_document, exposition, find_container, machine_gauges
from nri.placement.state import ContainerState
from nri.placement.tuner import Tuner
from nri.stub.program.options import Flag
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nri.placement.policy import PolicyType
    from nri.placement.state import PlacementState
    from nri.service.http import Answer, Server
    from nri.stub.support.pending import Pending

#: Suffix of the copy of the last good configuration file, next to the file.
LAST_GOOD = ".last-good"

#: The share of the runtime's request timeout that a decision may use.
_TIMEOUT_SHARE = 0.8
#: Maximum duration of one turn of placing containers that Synchronize had no time for.
_TURN_S = 0.5
#: Interval of retries of updates that the runtime has not applied.
_RETRY_S = 5.0
#: Maximum number of intervals between two retries of an update that the runtime refuses.
_MAX_RETRY_TURNS = 64
_ALIVE = (m.ContainerState.CONTAINER_CREATED, m.ContainerState.CONTAINER_RUNNING, m.ContainerState.CONTAINER_PAUSED)

FLAGS: Mapping[str, Flag] = {
    "state-dir": Flag("stateDir", "DIR", "where the state file is (default /var/lib/nri/placement)"),
    "host-root": Flag("hostRoot", "DIR", "where the node's root is (default /)"),
}


class PlacementPlugin(nri.Plugin, ABC):
    """The base of plugins that pin containers to CPUs and memory nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policy: Policy | None = None
        self._options: Any = None
        self._machine: Machine | None = None
        self._node_bytes = 0
        self._saved_state: PlacementState | None = None
        self._checkpoint = Checkpoint("", "")
        #: The policy whose state is the entire content of the state file; None if the file has more.
        self._written_policy: Policy | None = None
        self._connected = False
        self._server: Server | None = None
        self._socket_path = ""
        self._tuner: Tuner | None = None
        #: The number of configurations read so far, and why the last configuration was refused.
        self._configured = 0
        self._problem = ""
        #: Containers whose pins the runtime may not have applied yet, with the `unpinned_resources` before that.
        self._unconfirmed: dict[str, str] = {}
        #: Containers whose pins were in the answer to a resize; the resize may have failed afterwards.
        self._possibly_failed_resizes: dict[str, None] = {}
        #: The number of refused updates by container, and the number of retry intervals so far.
        self._refused = Counter[str]()
        self._turn = 0
        #: Updates that the runtime has not answered yet, with their containers.
        self._pending_updates: list[tuple[Pending, set[str]]] = []
        #: Containers in `_waiting` that an earlier policy had placed, with their `unpinned_resources`.
        self._placed_before: dict[str, str] = {}
        #: The kubelet's managers with a logged warning.
        self._warned_managers: set[str] = set()
        #: Containers that Synchronize had no time to place, the oldest first.
        self._waiting: dict[str, Container] = {}
        #: Containers that got less than their requests, or nothing, with the reason.
        self.squeezed: dict[str, str] = {}
        #: Containers in `squeezed` that got nothing.
        self._without_place: dict[str, Container] = {}
        #: Whether the squeezed containers may fit better than when they were last tried.
        self._may_fit = False

    @property
    @abstractmethod
    def policy_type(self) -> PolicyType:
        """The policy's class."""

    def make(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        """Make the policy. Raises ValueError if the options do not fit the machine."""
        devices = HostDevices(Root(options.hostRoot), self.log.warning)
        return self.policy_type(machine, options, state=state, containers=containers, devices=devices)

    # -- configuration ------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        with self._lock:
            self._configured += 1
            try:
                self._update(self._configure(self.config))
                self._problem = ""
            except ConfigError as error:
                self._problem = str(error)
                if self._connected or (self._policy is None and not self._restore_last_good()):
                    raise
                self.log.error("%s; the configuration is unchanged", error)  # noqa: TRY400 - it names the line
        self._listen()

    def _restore_last_good(self) -> bool:
        """Start with the last good configuration, which is next to the refused file. Returns False if that fails."""
        config = self.config
        try:
            good = read(type(config), [read_file(self._source() + LAST_GOOD)])
            self._configure(replace(good, hostRoot=config.hostRoot, stateDir=config.stateDir))  # may come from flags
        except ConfigError:
            return False
        return True

    def _configure(self, options: Any) -> dict[str, Pins]:
        """Make a policy for a configuration. Returns the pins that change with it."""
        before = self._policy
        if before is not None and options.hostRoot != self._options.hostRoot:
            reason = f"cannot change from {self._options.hostRoot} to {options.hostRoot} while the plugin runs"
            raise ConfigError(self._source(), "hostRoot", reason, "restart the plugin")
        for manager in pinning(options.hostRoot):
            self.log.warning("%s: two programs that pin the same containers conflict; %s", manager, manager.next)
        root = Root(options.hostRoot)
        topology = read_topology(root)
        if not topology.cpus:
            raise ConfigError(self._source(), "hostRoot", f"{options.hostRoot} has no CPUs in sys/devices/system/cpu")
        for complaint in ignored_keys(options, len(topology.online)):
            self.log.warning("%s", self._with_line(options, complaint))
        machine = Machine.of(topology)
        changes = dict[str, Pins]()
        checkpoint = Checkpoint(options.stateDir, self.name)
        if before is None:
            self._saved_state, problem = checkpoint.read()
            if problem:
                self.log.warning("%s; all containers are placed again", problem)
            first = self._saved_state.interrupts if self._saved_state else {}
            self._tuner = Tuner(root, self.log.warning, first, self._save_interrupts)
            policy = self._make_located(machine, options, None, {})
        elif options == self._options and machine == self._machine:
            return {}
        else:
            policy = self._make_located(machine, options, before.saved(), before.containers)
            for container in self._place_all(policy, before.containers.values()):
                self._place_without_requests(policy, container)
            self._report(policy)
            left_alone = self._unpinned_resources(before)
            pins = unpinned_defaults(policy, before.containers.values(), left_alone)
            changes = {name: new for name, new in pins.items() if new != before.pins.get(name)}
            self._unconfirmed |= {name: left_alone.get(name, "") for name, new in changes.items() if any(new)}
            self._may_fit = True
        self._policy, self._options, self._machine, self._checkpoint = policy, options, machine, checkpoint
        self._node_bytes = sum(node.memory_bytes for node in topology.nodes.values())
        if before is not None and self._saved_state is None:  # otherwise the file has containers that the policy lacks
            self._save(policy)
        return changes

    def _source(self) -> str:
        return self.config_source or "the configuration"

    def _make_located(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        try:
            return self.make(machine, options, state, containers)
        except WrongValue as error:
            raise self._with_line(options, error) from error

    def _with_line(self, options: Any, error: WrongValue) -> ConfigError:
        """Add the line of the configuration file to an error, if the file still has the value."""
        with suppress(ConfigError):
            return value_error(type(options), read_file(self.config_source), error)
        return ConfigError(self._source(), error.key, error.reason, error.suggestion)

    def _place_all(self, policy: Policy, containers: Iterable[Container]) -> list[Container]:
        """Place the containers that a new policy has not restored.

        Returns the containers that have no place because an annotation is not valid any more. Raises ConfigError if
        another container has no place.
        """
        displaced = []
        for container in containers:
            if container.id not in policy.containers:
                try:
                    policy.create(container)
                except NoPlace as error:
                    if container.id in policy.unmet:  # otherwise the annotation's author could veto any configuration
                        displaced.append(container)
                        continue
                    hint = "change the configuration, or delete the pod first"
                    raise ConfigError(self._source(), "", str(error), hint) from error
        return displaced

    # -- running containers -------------------------------------------------------------------------------------------

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[nri.Update]:
        with self._lock:
            in_time = self.timer("all containers")
            messages = _newest_containers(pods, containers)
            pod_by_id = {pod.id: pod for pod in pods}
            containers_by_id = {
                name: self._container_of(pod_by_id[c.pod_sandbox_id], c) for name, c in messages.items()
            }
            before = self.present
            state = self._saved_state
            if state is None:
                state = before.saved()
                state.free = self._unpinned_resources(before)
            for container in containers_by_id.values():
                container.runs = True
            state.restore(containers_by_id.values())
            policy, restored = before, 0
            try:
                if self._saved_state or before.containers:
                    policy = self.make(self._present_machine(), self._options, state, containers_by_id)
                    restored = len(policy.containers)
            except ValueError as error:
                self.log.warning("earlier placements cannot be restored: %s; all containers are placed again", error)
                policy = self.make(self._present_machine(), self._options, None, {})
            self.squeezed = {
                name: "as before"
                for name, container in policy.containers.items()
                if container.unmet_requests is not None
            }
            self._waiting, self._without_place, self._pending_updates, self._may_fit = {}, {}, [], bool(self.squeezed)
            self._possibly_failed_resizes, self._refused = {}, Counter()
            unrestored = [container for container in containers_by_id.values() if container.id not in policy.containers]
            for container in unrestored:
                try:
                    in_time()
                    self._place_without_requests(policy, container)
                except NoPlace:
                    self._waiting[container.id] = container
            self._report(policy)
            self._report_annotations(container for container in unrestored if container.id not in self._waiting)
            self._policy, self._saved_state, self._connected = policy, None, True
            self._placed_before = {name: state.free.get(name, "") for name in state.containers if name in self._waiting}
            earlier = [
                containers_by_id[name]
                for name in containers_by_id
                if name in state.containers and name not in self._waiting
            ]
            pins = {**policy.pins, **unpinned_defaults(policy, earlier, state.free)}
            changes = {name: differing(new, messages[name]) for name, new in pins.items()}
            unpinned = unpinned_resources(policy).keys() | self._without_place.keys()
            self._unconfirmed = {name: state.free.get(name, "") for name in unpinned if any(changes.get(name, ()))}
            self._save(policy)
        self.log.info(
            "%d containers placed, %d of them as before%s",
            len(policy.containers),
            restored,
            f"; {len(self._waiting)} more follow" if self._waiting else "",
        )
        return updates_of(changes)

    def _place_without_requests(self, policy: Policy, container: Container) -> None:
        """Place a running container. If that fails, try without its requests. If that fails, leave it unpinned."""
        requests = container.requests if container.unmet_requests is None else container.unmet_requests
        container.requests, container.unmet_requests = requests, None
        try:
            policy.create(container)
        except NoPlace as error:
            self.squeezed[container.id] = error.reason
            self.log.warning("%s; it runs without exclusive CPUs", error)
            container.requests, container.unmet_requests = Requests(), requests
            try:
                policy.create(container)
            except NoPlace:
                self.log.warning("%s is not pinned", container)
                container.requests, container.unmet_requests = requests, None
                self._without_place[container.id] = container

    @nri.every(1.0)
    def place_waiting(self) -> None:
        """Place containers that Synchronize had no time for, and try squeezed containers again with their requests."""
        if not self._waiting and not (self._may_fit and self.squeezed):
            return
        with self._lock:
            policy, deadline, moved = self.present, monotonic() + _TURN_S, list[Container]()
            before, placed = dict(policy.pins), list[Container]()
            while self._waiting and monotonic() < deadline:
                container = self._waiting.pop(next(iter(self._waiting)))
                moved += [container] if container.id in self._placed_before else []
                self._place_without_requests(policy, container)
                placed.append(container)
            self._report_annotations(placed)
            if not self._waiting:
                self._may_fit = self._place_squeezed(policy, deadline)
            pins = {**policy.pins, **unpinned_defaults(policy, moved, self._placed_before)}
            changes = {name: new for name, new in pins.items() if new != before.get(name)}
            self._unconfirmed |= {container.id: self._placed_before.pop(container.id) for container in moved}
            self._save(policy)
            self._update(changes)

    def _place_squeezed(self, policy: Policy, deadline: float) -> bool:
        """Place squeezed containers with their requests where they fit. Returns True if the deadline came first."""
        for name in [*self.squeezed]:
            if monotonic() >= deadline:
                return True
            try:
                if name in self._without_place:
                    policy.create(self._without_place[name])
                elif (requests := policy.containers[name].unmet_requests) is not None:
                    policy.resize(name, requests)
            except NoPlace as error:
                self.squeezed[name] = error.reason
                continue
            del self.squeezed[name]
            self._without_place.pop(name, None)
            policy.containers[name].unmet_requests = None
            self.log.info("%s now has its requested resources", policy.containers[name])
        return False

    @nri.every(_RETRY_S)
    def retry_updates(self) -> None:
        """Send unconfirmed pins again, at increasing intervals if the runtime refuses the pins."""
        with self._lock:
            self._turn += 1
            if not self._connected or not self._collect_answers():
                return
            turn = self._turn
            due = {name for name in self._unconfirmed if turn % min(1 << self._refused[name], _MAX_RETRY_TURNS) == 0}
            retried = [c for c in self._all_containers() if c.id in due or c.id in self._possibly_failed_resizes]
            self._possibly_failed_resizes = {}
            self._send(
                unpinned_defaults(self.present, retried, self._unpinned_resources(self.present)) if retried else {}
            )

    @nri.every(1.0)
    def tune(self) -> None:
        """Apply the policy's frequencies, idle states and interrupts, outside of events to keep answers fast."""
        with self._lock:
            policy, tuner = self._policy, self._tuner
            if policy is None or tuner is None or not self._connected:
                return
            tuning = policy.tuning()
        tuner.apply(tuning, policy.options, policy.machine)

    def _save_interrupts(self) -> None:
        with self._lock:
            self._save(self.present)

    def closed(self) -> None:
        with self._lock:
            self._connected = False
        self._stop_listening()

    # -- queries ------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Serve `nri placement show` and `explain` for root. A failure is logged: pinning does not need the server."""
        path = str(Path(self._options.stateDir, f"{self.name}.sock"))
        if self._server is not None and self._socket_path == path:
            return
        self._stop_listening()
        from nri.service.http import Server

        handlers = {"/show": self._show, "/explain": self._explain, "/metrics": self._metrics}
        self._socket_path = path
        try:
            self._server = Server(handlers, path=path)
        except NriError as error:
            self.log.warning("nri placement show cannot reach this plugin: %s", error)

    def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _metrics(self, _: Mapping[str, str]) -> Answer:
        from nri.service.http import text_answer

        return text_answer(self.measurements())

    def measurements(self) -> str:
        with self._lock:
            policy = self._policy
            if policy is None:
                return ""
            root = Root(self._options.hostRoot)
            used = {number: node_memory_used(root, number) for number in policy.machine.topology.nodes}
            return exposition([*policy.gauges(), *machine_gauges(policy, used)])

    def _show(self, _: Mapping[str, str]) -> Answer:
        from nri.service.http import json_answer

        with self._lock:
            unmet = self._unmet_requests(self.present)
            configuration = {"given": self._configured, "problem": self._problem, "unmet": unmet}
            problems = self._tuner.problems if self._tuner else []
            names = {container.id: str(container) for container in self._all_containers()}
            squeezed = [f"{names[id_]}: {reason}" for id_, reason in self.squeezed.items()]
            more = {"configuration": configuration, "not_set": problems, "squeezed": squeezed}
            return json_answer(document(self.present) | more)

    def _explain(self, query: Mapping[str, str]) -> Answer:
        from nri.service.http import json_answer

        with self._lock:
            policy = self.present
            try:
                containers = {container.id: container for container in self._all_containers()}
                container = find_container(containers, query.get("container", ""))
                reason = self.squeezed.get(container.id, "")
                if container.id not in policy.containers:
                    problem = f"it does not fit: {reason}" if reason else "it is waiting for its turn"
                    raise LookupError(f"{container} is not pinned: {problem}")
                return json_answer(explanation_document(policy, container.id) | {"squeezed": reason})
            except (LookupError, NoPlace) as error:  # NoPlace: the container ran before its annotations were read
                return json_answer({"error": str(error.args[0])}, 404)

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> tuple[nri.Adjustment, list[nri.Update]]:
        with self._lock:
            policy, new = self.present, self._container_of(pod, container)
            changes = self._release_stale(policy, new)
            policy.in_time = self.timer(str(new))
            try:
                changes |= {name: changes.get(name, Pins()) | pins for name, pins in policy.create(new).items()}
            except NoPlace as error:
                self._update(changes)
                raise nri.Reject(str(error)) from error
            finally:
                policy.in_time = no_deadline
                self._save(policy)
            new.runs = True
            scheduling = policy.scheduling(new)
            self._report_annotations([new])
            pins = changes.pop(new.id, Pins())
            self._warn_about_kubelet(container.linux.resources.cpu, pins)
        self.log.debug("pinned to CPUs %s, memory nodes %s", pins.cpus or "unchanged", pins.mems or "unchanged")
        return adjustment_of(pins, scheduling), updates_of(changes)

    def _container_of(self, pod: m.PodSandbox, container: m.Container) -> Container:
        result = container_of(pod, container, self._node_bytes)
        if "topologyhints" not in self.policy_type.ignored_annotations:
            result.hints = hints_of(result, container, Root(self._options.hostRoot))
        return result

    def _release_stale(self, policy: Policy, container: Container) -> dict[str, Pins]:
        """Release earlier instances of a container whose end was not reported."""
        key = _unique_name(container)
        return self._release_all(policy, [other for other in self._all_containers() if _unique_name(other) == key])

    def stop_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Release the pod's containers whose end was not reported because their creation failed after this plugin."""
        with self._lock:
            ended = [container for container in self._all_containers() if container.pod.id == pod.id]
            changes = self._release_all(self.present, ended)
            if changes:
                self._save(self.present)
                self._update(changes)

    def _release_all(self, policy: Policy, ended: Iterable[Container]) -> dict[str, Pins]:
        changes: dict[str, Pins] = {}
        for old in ended:
            self.log.info("%s must have ended; releasing it", old)
            changes |= {name: changes.get(name, Pins()) | pins for name, pins in self._release(policy, old.id).items()}
            changes.pop(old.id, None)
        return changes

    def update_container(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources
    ) -> list[nri.Update] | None:
        with self._lock:
            policy = self.present
            placed = policy.containers.get(container.id)
            if placed is None:
                waiting = self._waiting.get(container.id) or self._without_place.get(container.id)
                if waiting is not None:
                    waiting.requests = requests_after(waiting, container, resources, self._node_bytes)
                    self._may_fit = True
                    self._save(policy)
                return None
            self._warn_about_kubelet(resources.cpu, policy.pins.get(container.id, Pins()))
            policy.in_time = self.timer(str(placed))
            requests = requests_after(placed, container, resources, self._node_bytes)
            same = requests == (placed.requests if placed.unmet_requests is None else placed.unmet_requests)
            try:
                changes = policy.resize(placed.id, requests)
                if placed.id in changes and self._is_settled(placed.id):
                    changes[placed.id] = differing(changes[placed.id], container, resources.cpu)
                self._possibly_failed_resizes |= {
                    name: None for name, pins in changes.items() if any(pins) and not same
                }
                placed.unmet_requests = None
                self.squeezed.pop(placed.id, None)
            except NoPlace as error:
                if placed.unmet_requests is None:
                    raise nri.Reject(str(error)) from error
                placed.unmet_requests, placed.saved, self.squeezed[placed.id] = requests, None, error.reason
                changes = policy.resize(placed.id, placed.requests)
            finally:
                policy.in_time = no_deadline
            self._may_fit = True
            self._save(policy)
        return updates_of(changes)

    def _warn_about_kubelet(self, request: m.LinuxCPU, pins: Pins) -> None:
        """Warn once if the kubelet pins containers too. A pod has access to the kubelet's updates, not to its files."""
        for manager, kubelet_pin, pin, step in (
            ("CPU", request.cpus, pins.cpus, "cpuManagerPolicy to none"),
            ("memory", request.mems, pins.mems, "memoryManagerPolicy to None"),
        ):
            if kubelet_pin and pin and manager not in self._warned_managers:
                self._warned_managers.add(manager)
                self.log.warning(
                    "the kubelet's %s manager also pins containers, but this plugin overrules it: set %s", manager, step
                )

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> list[nri.Update]:
        with self._lock:
            return updates_of(self._end_container(container.id))

    def remove_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        with self._lock:  # one lock for both steps: a decision between the steps would be undone
            self._update(self._end_container(container.id))

    def _end_container(self, container_id: str) -> dict[str, Pins]:
        policy = self.present
        was_placed = container_id in policy.containers
        changes = self._release(policy, container_id)
        # Otherwise the state can be saved at the next event: a restored policy ignores containers that have ended.
        if was_placed and changes:
            self._save(policy)
        return changes

    def _release(self, policy: Policy, container_id: str) -> dict[str, Pins]:
        for table in (
            self._waiting,
            self._placed_before,
            self._unconfirmed,
            self._possibly_failed_resizes,
            self._refused,
            self.squeezed,
            self._without_place,
        ):
            table.pop(container_id, None)
        self._may_fit = True
        changes = policy.release(container_id)
        changes.pop(container_id, None)
        return changes

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def present(self) -> Policy:
        """The current policy."""
        assert self._policy is not None, "no event comes before configure"
        return self._policy

    def _all_containers(self) -> list[Container]:
        """All containers, including containers that are not placed yet."""
        return [*self.present.containers.values(), *self._waiting.values(), *self._without_place.values()]

    def _present_machine(self) -> Machine:
        assert self._machine is not None, "no event comes before configure"
        return self._machine

    def timer(self, subject: str) -> Callable[[], None]:
        """A function that raises NoPlace for `subject` once the time for this request is over."""
        timeout_s = self.time_left()
        if timeout_s is None:
            timeout_s = self.runtime.request_timeout_s
        limit_s = timeout_s * _TIMEOUT_SHARE
        deadline = monotonic() + limit_s

        def in_time() -> None:
            if monotonic() > deadline:
                raise NoPlace(subject, f"the decision takes longer than {limit_s:.1f} s, the limit of the runtime")

        return in_time

    def _update(self, changes: Mapping[str, Pins]) -> None:
        """Request updates of containers from the runtime. Without a connection the next Synchronize requests them."""
        free, names = self._unpinned_resources(self.present), {container.id for container in self._all_containers()}
        changed = (name for name, pins in changes.items() if any(pins) and name in names)
        self._unconfirmed |= {name: free.get(name, "") for name in changed}
        self._send(changes)

    def _send(self, changes: Mapping[str, Pins]) -> None:
        if self._connected and changes:
            with suppress(NriError):
                self._pending_updates.append(
                    (self.runtime.update(updates_of(changes, report_failures=True)), set(changes))
                )

    def _collect_answers(self) -> bool:
        """Record which updates the runtime has applied or refused. Returns False if an answer is missing."""
        if not all(pending.done for pending, _ in self._pending_updates):
            return False
        applied, refused, reason = set[str](), set[str](), ""
        for pending, names in self._pending_updates:
            try:
                failed = {update.container_id for update in pending.result(0)}
            except NriError as error:
                failed, reason = names, str(error)
            applied, refused = (applied | names) - failed, (refused - names) | failed
        self._pending_updates = []
        if refused := refused & {container.id for container in self._all_containers()}:  # other containers have ended
            if not refused <= self._refused.keys():
                reason = reason or f"{count(len(refused), 'update')} failed"
                self.log.warning("the runtime has not applied all updates of containers; retrying: %s", reason)
            self._refused.update(refused)
            free = self._unpinned_resources(self.present)
            self._unconfirmed |= {name: free.get(name, "") for name in refused}
        if applied:
            self._refused = Counter({name: times for name, times in self._refused.items() if name not in applied})
            self._unconfirmed = {name: kinds for name, kinds in self._unconfirmed.items() if name not in applied}
            self._save(self.present)
        return True

    def _is_settled(self, name: str) -> bool:
        """Whether no update of a container is pending. Otherwise the runtime's report may be older than the update."""
        return not (
            name in self._unconfirmed
            or name in self._possibly_failed_resizes
            or any(name in names for _, names in self._pending_updates)
        )

    def _unpinned_resources(self, policy: Policy) -> dict[str, str]:
        """The unpinned resources by container. A removed pin counts as a pin until the runtime confirms the removal."""
        waiting = dict.fromkeys((*self._waiting, *self._without_place), "cpus mems")
        return unpinned_resources(policy) | waiting | self._placed_before | self._unconfirmed

    def _save(self, policy: Policy) -> None:
        interrupts = dict(self._tuner.first) if self._tuner else {}
        more = bool(self._waiting or self._without_place or self._placed_before or self._unconfirmed)
        try:
            entries = policy.changed_entries()
            if policy is self._written_policy and not more:
                names = entries["containers"]
                entries["free"], entries["interrupts"] = (
                    dict.fromkeys(names) | unpinned_resources(policy, names),
                    interrupts,
                )
                if self._checkpoint.add(entries):
                    return
            state = policy.saved()
            waiting = self._waiting | self._without_place
            state.containers |= {name: ContainerState.of(container) for name, container in waiting.items()}
            state.interrupts, state.free = interrupts, self._unpinned_resources(policy)
            self._written_policy = None if more else policy
            self._checkpoint.write(state)
        except OSError as error:
            self.log.error("cannot save the state for a restart: %s", error)  # noqa: TRY400 - it names the file

    def _report_annotations(self, containers: Iterable[Container]) -> None:
        """Warn of annotations that have no effect, in at most `MAX_WARNINGS` lines for one event."""
        warnings = (
            (container, warning)
            for container in containers
            for warning in ignored_annotations(container, self.annotations, self.policy_type.ignored_annotations)
        )
        for container, warning in islice(warnings, MAX_WARNINGS):
            self.log.warning("%s: %s", container, warning)

    def _unmet_requests(self, policy: Policy) -> list[str]:
        """Requests of running containers that the configuration cannot serve, in at most `MAX_WARNINGS` lines."""
        names = [name for name in policy.unmet if name in policy.containers]
        places = {name: place.name for place in policy.places() for name in place.containers} if names else {}
        lines = [
            f"{policy.containers[name]}: {policy.unmet[name]}; it is in {places.get(name, 'no place')}"
            for name in names[:MAX_WARNINGS]
        ]
        more = len(names) - MAX_WARNINGS + 1
        return lines if more <= 1 else [*lines[:-1], f"{more} more containers"]

    def _report(self, policy: Policy) -> None:
        for line in self._unmet_requests(policy):
            self.log.warning("%s", line)


def _unique_name(container: Container) -> tuple[str, ...]:
    """The names that identify one container at a time."""
    return container.pod.uid, container.pod.namespace, container.pod.name, container.name


def _newest_containers(pods: list[m.PodSandbox], containers: list[m.Container]) -> dict[str, m.Container]:
    """The live containers by id, the oldest first. Of several containers with the same name only the newest is used."""
    names = {pod.id: (pod.uid, pod.namespace, pod.name) for pod in pods}
    alive = [container for container in containers if container.state in _ALIVE and container.pod_sandbox_id in names]
    alive.sort(key=lambda container: (container.created_at, container.id))
    newest = {(names[container.pod_sandbox_id], container.name): container for container in alive}
    return {container.id: container for container in newest.values()}
