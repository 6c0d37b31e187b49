"""The plugin around a placement policy: events become decisions, and decisions adjustments and updates.

One job: :class:`PlacementPlugin`. A container that is created is pinned, and all others that change with it are updated
in the same answer. At Synchronize, and where configuration changes, a new policy takes up what the one before had
given, places what is left, and replaces that one only if all went well. Rules: one event at a time; a decision ends
before the runtime gives up; what was decided is in the state file before it is answered, but for an end that changes
no other container: a policy that is made again passes over those that are gone, so that the next event's line will do.
The bundled plugins in `nri.plugins` are subclasses that name their policy.
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
from nri.config.layers import refused
from nri.errors import ConfigError, NriError
from nri.host import Root, read_topology
from nri.host.usage import node_memory_used
from nri.kube.requests import Requests
from nri.placement.answers import adjustment_of, differing, free_of, freed, requests_after, updates_of
from nri.placement.checkpoint import Checkpoint
from nri.placement.containers import Container, NoPlace, Pins, always, container_of
from nri.placement.devices import HostDevices, hints_of
from nri.placement.machine import Machine
from nri.placement.policy import Policy, account, document, exposition, find, machine_gauges
from nri.placement.state import ContainerState
from nri.placement.tuner import Tuner
from nri.placement.unread import MAX_WARNINGS, unread_annotations, unread_keys
from nri.stub.program.options import Flag
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nri.placement.policy import PolicyType
    from nri.placement.state import PlacementState
    from nri.service.http import Answer, Server
    from nri.stub.support.pending import Pending

__all__ = ["FLAGS", "LAST_GOOD", "PlacementPlugin"]

#: What the name of the configuration's file is followed by in the name of the last good one, beside it.
LAST_GOOD = ".last-good"

#: The part of the time until the runtime gives up that a decision may take.
_PART = 0.8
#: How long one turn of placing what was left over may take, in seconds.
_TURN_S = 0.5
#: How often the runtime is asked again for what it has not taken, in seconds.
_AGAIN_S = 5.0
#: And after how many turns of that at most, if it refuses.
_MOST_TURNS = 64
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
        #: The policy of which the state file has all, and nothing else.
        self._written_of: Policy | None = None
        self._connected = False
        self._server: Server | None = None
        #: Where it listens.
        self._served = ""
        self._tuner: Tuner | None = None
        #: How often a configuration was given, and why the last one was not taken.
        self._configured = 0
        self._problem = ""
        #: Containers whose pins the runtime may not have yet, with what of them was left alone before.
        self._owed: dict[str, str] = {}
        #: Those whose pins were in the answer to a resize, which may have failed after it.
        self._unsure: dict[str, None] = {}
        #: How often it has not taken an update of a container, and turns in which it may be asked again.
        self._refused = Counter[str]()
        self._turn = 0
        #: Updates that it was asked for, and of which containers.
        self._asked: list[tuple[Pending, set[str]]] = []
        #: Of `_later` those that were placed before, with what was left alone.
        self._earlier: dict[str, str] = {}
        #: The managers of the kubelet that were told of.
        self._overruled: set[str] = set()
        #: Containers that could not be placed in time, the oldest first.
        self._later: dict[str, Container] = {}
        #: Containers that were given less than they ask for, or nothing, with the reason.
        self.squeezed: dict[str, str] = {}
        #: Of these those that were given nothing.
        self._unplaced: dict[str, Container] = {}
        #: Whether there may be more room for them than when they were looked at last.
        self._room = False

    @property
    @abstractmethod
    def policy_type(self) -> PolicyType:
        """The class of its policy."""

    def make(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        """Make the policy. Raises ValueError for options that do not go with the machine."""
        devices = HostDevices(Root(options.hostRoot), self.log.warning)
        return self.policy_type(machine, options, state=state, containers=containers, devices=devices)

    # -- configuration ------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        with self._lock:
            self._configured += 1
            try:
                self._ask(self._configure(self.config))
                self._problem = ""
            except ConfigError as error:
                self._problem = str(error)
                if self._connected or (self._policy is None and not self._starts_as_before()):
                    raise
                self.log.error("%s; the configuration stays what it was", error)  # noqa: TRY400 - it says where
        self._listen()

    def _starts_as_before(self) -> bool:
        """Start with the last good policy that is beside one which is refused; whether that can be."""
        given = self.config
        try:
            good = read(type(given), [read_file(self._source() + LAST_GOOD)])
            self._configure(replace(good, hostRoot=given.hostRoot, stateDir=given.stateDir))  # they may be flags
        except ConfigError:
            return False
        return True

    def _configure(self, options: Any) -> dict[str, Pins]:
        """Make a policy for a configuration; the pins that change with it."""
        before = self._policy
        if before is not None and options.hostRoot != self._options.hostRoot:
            reason = f"{options.hostRoot}: it was {self._options.hostRoot}, below which CPUs and interrupts are set"
            raise ConfigError(self._source(), "hostRoot", reason, "start the plugin again for another one")
        for each in pinning(options.hostRoot):
            self.log.warning("%s: two that pin the same containers undo each other's work; %s", each, each.next)
        root = Root(options.hostRoot)
        topology = read_topology(root)
        if not topology.cpus:
            raise ConfigError(self._source(), "hostRoot", f"{options.hostRoot} has no CPUs in sys/devices/system/cpu")
        for unread in unread_keys(options, len(topology.online)):
            self.log.warning("%s", self._located(options, unread))
        machine = Machine.of(topology)
        changes = dict[str, Pins]()
        checkpoint = Checkpoint(options.stateDir, self.name)
        if before is None:
            self._saved_state, complaint = checkpoint.read()
            if complaint:
                self.log.warning("%s; all containers are placed again", complaint)
            first = self._saved_state.interrupts if self._saved_state else {}
            self._tuner = Tuner(root, self.log.warning, first, self._keep_interrupts)
            policy = self._made(machine, options, None, {})
        elif options == self._options and machine == self._machine:
            return {}
        else:
            policy = self._made(machine, options, before.saved(), before.containers)
            for container in self._place_all(policy, before.containers.values()):
                self._squeeze(policy, container)
            self._report(policy)
            left_alone = self._left_alone(before)
            pins = freed(policy, before.containers.values(), left_alone)
            changes = {name: each for name, each in pins.items() if each != before.pins.get(name)}
            self._owed |= {name: left_alone.get(name, "") for name, each in changes.items() if any(each)}
            self._room = True
        self._policy, self._options, self._machine, self._checkpoint = policy, options, machine, checkpoint
        self._node_bytes = sum(node.memory_bytes for node in topology.nodes.values())
        if before is not None and self._saved_state is None:  # else the file has more than this policy knows
            self._save(policy)
        return changes

    def _source(self) -> str:
        return self.config_source or "the configuration"

    def _made(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        try:
            return self.make(machine, options, state, containers)
        except WrongValue as error:
            raise self._located(options, error) from error

    def _located(self, options: Any, error: WrongValue) -> ConfigError:
        """An error with its line; without one for what the runtime gave, or of a file that has changed."""
        with suppress(ConfigError):
            return refused(type(options), read_file(self.config_source), error)
        return ConfigError(self._source(), error.key, error.reason, error.suggestion)

    def _place_all(self, policy: Policy, containers: Iterable[Container]) -> list[Container]:
        """Place what a new policy has not taken up; those that found no room because an annotation counts no more.

        ConfigError if another one would have no place.
        """
        without_room = []
        for container in containers:
            if container.id not in policy.containers:
                try:
                    policy.create(container)
                except NoPlace as error:
                    if container.id in policy.unmet:  # else its author could veto any configuration
                        without_room.append(container)
                        continue
                    hint = "leave it what it needs, or delete the pod first"
                    raise ConfigError(self._source(), "", f"it leaves {error}", hint) from error
        return without_room

    # -- what runs already --------------------------------------------------------------------------------------------

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[nri.Update]:
        with self._lock:
            in_time = self.timer("all containers")
            told = _newest(pods, containers)
            by_pod = {pod.id: pod for pod in pods}
            found = {each.id: self._container_of(by_pod[each.pod_sandbox_id], each) for each in told.values()}
            before = self.present
            state = self._saved_state
            if state is None:
                state = before.saved()
                state.free = self._left_alone(before)
            for container in found.values():
                container.runs = True
            state.restore(found.values())
            policy, kept = before, 0
            try:
                if self._saved_state or before.containers:
                    policy = self.make(self._present_machine(), self._options, state, found)
                    kept = len(policy.containers)
            except ValueError as error:
                self.log.warning("nothing can stay as it was: %s; all containers are placed again", error)
                policy = self.make(self._present_machine(), self._options, None, {})
            self.squeezed = {name: "as before" for name, each in policy.containers.items() if each.asked is not None}
            self._later, self._unplaced, self._asked, self._room = {}, {}, [], bool(self.squeezed)
            self._unsure, self._refused = {}, Counter()
            others = [each for each in found.values() if each.id not in policy.containers]
            for container in others:
                try:
                    in_time()
                    self._squeeze(policy, container)
                except NoPlace:
                    self._later[container.id] = container
            self._report(policy)
            self._report_annotations(each for each in others if each.id not in self._later)
            self._policy, self._saved_state, self._connected = policy, None, True
            self._earlier = {name: state.free.get(name, "") for name in state.containers if name in self._later}
            earlier = [each for name, each in found.items() if name in state.containers and name not in self._later]
            pins = {**policy.pins, **freed(policy, earlier, state.free)}
            changes = {name: differing(each, told[name]) for name, each in pins.items()}
            loose = free_of(policy).keys() | self._unplaced.keys()
            self._owed = {name: state.free.get(name, "") for name in loose if any(changes.get(name, ()))}
            self._save(policy)
        self.log.info(
            "%d containers are placed, %d of them as they were%s",
            len(policy.containers),
            kept,
            f"; {len(self._later)} more follow" if self._later else "",
        )
        return updates_of(changes)

    def _squeeze(self, policy: Policy, container: Container) -> None:
        """Place a container that runs already; if there is no place, as if it asked for nothing; else not at all."""
        asked = container.requests if container.asked is None else container.asked
        container.requests, container.asked = asked, None
        try:
            policy.create(container)
        except NoPlace as error:
            self.squeezed[container.id] = error.reason
            self.log.warning("%s; it runs without CPUs of its own", error)
            container.requests, container.asked = Requests(), asked
            try:
                policy.create(container)
            except NoPlace:
                self.log.warning("%s is not pinned at all", container)
                container.requests, container.asked = asked, None
                self._unplaced[container.id] = container

    @nri.every(1.0)
    def place_later(self) -> None:
        """Place what Synchronize had no time for, and better what then had no room."""
        if not self._later and not (self._room and self.squeezed):
            return
        with self._lock:
            policy, end, turned = self.present, monotonic() + _TURN_S, list[Container]()
            before, placed = dict(policy.pins), list[Container]()
            while self._later and monotonic() < end:
                made = self._later.pop(next(iter(self._later)))
                turned += [made] if made.id in self._earlier else []
                self._squeeze(policy, made)
                placed.append(made)
            self._report_annotations(placed)
            if not self._later:
                self._room = self._place_squeezed(policy, end)
            pins = {**policy.pins, **freed(policy, turned, self._earlier)}
            changes = {name: each for name, each in pins.items() if each != before.get(name)}
            self._owed |= {each.id: self._earlier.pop(each.id) for each in turned}
            self._save(policy)
            self._ask(changes)

    def _place_squeezed(self, policy: Policy, end: float) -> bool:
        """Give those what they ask for, for whom there is room now; whether the time was too short to look at all."""
        for name in [*self.squeezed]:
            if monotonic() >= end:
                return True
            try:
                if name in self._unplaced:
                    policy.create(self._unplaced[name])
                elif (asked := policy.containers[name].asked) is not None:
                    policy.resize(name, asked)
            except NoPlace as error:
                self.squeezed[name] = error.reason
                continue
            del self.squeezed[name]
            self._unplaced.pop(name, None)
            policy.containers[name].asked = None
            self.log.info("%s has what it asks for now", policy.containers[name])
        return False

    @nri.every(_AGAIN_S)
    def ask_again(self) -> None:
        """Ask again for what was only in an answer, and, less and less often, for what the runtime refuses."""
        with self._lock:
            self._turn += 1
            if not self._connected or not self._hear():
                return
            due = {name for name in self._owed if self._turn % min(1 << self._refused[name], _MOST_TURNS) == 0}
            again = [each for each in self._known() if each.id in due or each.id in self._unsure]
            self._unsure = {}
            self._send(freed(self.present, again, self._left_alone(self.present)) if again else {})

    @nri.every(1.0)
    def tune(self) -> None:
        """Set frequencies, idle states and interrupts as they are decided, without making an answer wait for it."""
        with self._lock:
            policy, tuner = self._policy, self._tuner
            if policy is None or tuner is None or not self._connected:
                return
            wanted = policy.tuning()
        tuner.apply(wanted, policy.options, policy.machine)

    def _keep_interrupts(self) -> None:
        with self._lock:
            self._save(self.present)

    def closed(self) -> None:
        with self._lock:
            self._connected = False
        self._stop_listening()

    # -- questions ----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Answer `nri placement show` and `explain` for root; that nobody can ask is no reason to end."""
        path = str(Path(self._options.stateDir, f"{self.name}.sock"))
        if self._server is not None and self._served == path:
            return
        self._stop_listening()
        from nri.service.http import Server

        handlers = {"/show": self._show, "/explain": self._explain, "/metrics": self._metrics}
        self._served = path
        try:
            self._server = Server(handlers, path=path)
        except NriError as error:
            self.log.warning("nri placement show cannot ask this plugin: %s", error)

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
            unmet = self._unmet(self.present)
            configuration = {"given": self._configured, "problem": self._problem, "unmet": unmet}
            problems = self._tuner.problems if self._tuner else []
            names = {each.id: str(each) for each in self._known()}
            squeezed = [f"{names[each]}: {reason}" for each, reason in self.squeezed.items()]
            more = {"configuration": configuration, "not_set": problems, "squeezed": squeezed}
            return json_answer(document(self.present) | more)

    def _explain(self, asked: Mapping[str, str]) -> Answer:
        from nri.service.http import json_answer

        with self._lock:
            policy = self.present
            try:
                found = find({each.id: each for each in self._known()}, asked.get("container", ""))
                reason = self.squeezed.get(found.id, "")
                if found.id not in policy.containers:
                    waits = f"room: {reason}" if reason else "its turn"
                    raise LookupError(f"{found} is not pinned, and waits for {waits}")
                return json_answer(account(policy, found.id) | {"squeezed": reason})
            except (LookupError, NoPlace) as error:  # NoPlace: it ran before its annotations were read
                return json_answer({"error": str(error.args[0])}, 404)

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> tuple[nri.Adjustment, list[nri.Update]]:
        with self._lock:
            policy, made = self.present, self._container_of(pod, container)
            changes = self._release_stale(policy, made)
            policy.in_time = self.timer(str(made))
            try:
                changes |= {name: changes.get(name, Pins()) | pins for name, pins in policy.create(made).items()}
            except NoPlace as error:
                self._ask(changes)
                raise nri.Reject(str(error)) from error
            finally:
                policy.in_time = always
                self._save(policy)
            made.runs = True
            scheduling = policy.scheduling(made)
            self._report_annotations([made])
            mine = changes.pop(made.id, Pins())
            self._tell_of_kubelet(container.linux.resources.cpu, mine)
        self.log.debug("pinned to CPUs %s, memory nodes %s", mine.cpus or "as they are", mine.mems or "as they are")
        return adjustment_of(mine, scheduling), updates_of(changes)

    def _container_of(self, pod: m.PodSandbox, container: m.Container) -> Container:
        made = container_of(pod, container, self._node_bytes)
        if "topologyhints" not in self.policy_type.unread_annotations:
            made.hints = hints_of(made, container, Root(self._options.hostRoot))
        return made

    def _release_stale(self, policy: Policy, made: Container) -> dict[str, Pins]:
        """Take back what an earlier instance of a container has, of whose end nobody told."""
        return self._release_all(policy, [each for each in self._known() if _place_of(each) == _place_of(made)])

    def stop_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """Take back what a pod's containers have of whose end nobody told: their creation failed after this plugin."""
        with self._lock:
            changes = self._release_all(self.present, [each for each in self._known() if each.pod.id == pod.id])
            if changes:
                self._save(self.present)
                self._ask(changes)

    def _release_all(self, policy: Policy, ended: Iterable[Container]) -> dict[str, Pins]:
        changes: dict[str, Pins] = {}
        for old in ended:
            self.log.info("%s is taken for ended", old)
            changes |= {name: changes.get(name, Pins()) | pins for name, pins in self._release(policy, old.id).items()}
            changes.pop(old.id, None)
        return changes

    def update_container(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources
    ) -> list[nri.Update] | None:
        with self._lock:
            policy = self.present
            known = policy.containers.get(container.id)
            if known is None:
                late = self._later.get(container.id) or self._unplaced.get(container.id)
                if late is not None:
                    late.requests, self._room = requests_after(late, container, resources, self._node_bytes), True
                    self._save(policy)
                return None
            self._tell_of_kubelet(resources.cpu, policy.pins.get(container.id, Pins()))
            policy.in_time = self.timer(str(known))
            asked = requests_after(known, container, resources, self._node_bytes)
            same = asked == (known.requests if known.asked is None else known.asked)
            try:
                changes = policy.resize(known.id, asked)
                if known.id in changes and self._is_settled(known.id):
                    changes[known.id] = differing(changes[known.id], container, resources.cpu)
                self._unsure |= {name: None for name, each in changes.items() if any(each) and not same}
                known.asked = None
                self.squeezed.pop(known.id, None)
            except NoPlace as error:
                if known.asked is None:
                    raise nri.Reject(str(error)) from error
                known.asked, known.written, self.squeezed[known.id] = asked, None, error.reason
                changes = policy.resize(known.id, known.requests)
            finally:
                policy.in_time = always
            self._room = True
            self._save(policy)
        return updates_of(changes)

    def _tell_of_kubelet(self, asked: m.LinuxCPU, given: Pins) -> None:
        """Warn once of another one that pins: its files are not seen from a pod."""
        for manager, cpus, ours, step in (
            ("CPU", asked.cpus, given.cpus, "cpuManagerPolicy to none"),
            ("memory", asked.mems, given.mems, "memoryManagerPolicy to None"),
        ):
            if cpus and ours and manager not in self._overruled:
                self._overruled.add(manager)
                self.log.warning(
                    "the kubelet's %s manager pins containers, too, and is overruled: set %s", manager, step
                )

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> list[nri.Update]:
        with self._lock:
            return updates_of(self._end(container.id))

    def remove_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        with self._lock:  # for both, or what is decided in between would be undone
            self._ask(self._end(container.id))

    def _end(self, container_id: str) -> dict[str, Pins]:
        policy = self.present
        known = container_id in policy.containers
        changes = self._release(policy, container_id)
        if known and changes:
            self._save(policy)
        return changes

    def _release(self, policy: Policy, container_id: str) -> dict[str, Pins]:
        for each in (
            self._later,
            self._earlier,
            self._owed,
            self._unsure,
            self._refused,
            self.squeezed,
            self._unplaced,
        ):
            each.pop(container_id, None)
        self._room = True
        changes = policy.release(container_id)
        changes.pop(container_id, None)
        return changes

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def present(self) -> Policy:
        """The policy that decides now."""
        assert self._policy is not None, "no event comes before configure"
        return self._policy

    def _known(self) -> list[Container]:
        """All containers, also those that wait for their turn or for room."""
        return [*self.present.containers.values(), *self._later.values(), *self._unplaced.values()]

    def _present_machine(self) -> Machine:
        assert self._machine is not None, "no event comes before configure"
        return self._machine

    def timer(self, what: str) -> Callable[[], None]:
        """A function that raises NoPlace once the time for this request is used up."""
        left = self.time_left()
        if left is None:
            left = self.runtime.request_timeout_s
        end = monotonic() + left * _PART

        def in_time() -> None:
            if monotonic() > end:
                raise NoPlace(what, f"the decision takes longer than {left * _PART:.1f} s; the runtime waits no longer")

        return in_time

    def _ask(self, changes: Mapping[str, Pins]) -> None:
        """Ask the runtime to update containers; without a connection the next Synchronize does."""
        free, known = self._left_alone(self.present), {each.id for each in self._known()}
        self._owed |= {name: free.get(name, "") for name, each in changes.items() if any(each) and name in known}
        self._send(changes)

    def _send(self, changes: Mapping[str, Pins]) -> None:
        if self._connected and changes:
            with suppress(NriError):
                self._asked.append((self.runtime.update(updates_of(changes, heard=True)), set(changes)))

    def _hear(self) -> bool:
        """Take the runtime's answers: what it took is owed no more, what it did not is. Whether all are there."""
        if not all(pending.done for pending, _ in self._asked):
            return False
        taken, refused, reason = set[str](), set[str](), ""
        for pending, names in self._asked:
            try:
                failed = {each.container_id for each in pending.result(0)}
            except NriError as error:
                failed, reason = names, str(error)
            taken, refused = (taken | names) - failed, (refused - names) | failed
        self._asked = []
        if refused := refused & {each.id for each in self._known()}:  # others have ended
            if not refused <= self._refused.keys():
                reason = reason or f"{count(len(refused), 'update')} failed"
                self.log.warning("the runtime has not taken all updates of containers, and is asked again: %s", reason)
            self._refused.update(refused)
            free = self._left_alone(self.present)
            self._owed |= {name: free.get(name, "") for name in refused}
        if taken:
            self._refused = Counter({name: times for name, times in self._refused.items() if name not in taken})
            self._owed = {name: kinds for name, kinds in self._owed.items() if name not in taken}
            self._save(self.present)
        return True

    def _is_settled(self, name: str) -> bool:
        """Whether no update of a container is under way, than which what the runtime reports may be older."""
        return not (name in self._owed or name in self._unsure or any(name in names for _, names in self._asked))

    def _left_alone(self, policy: Policy) -> dict[str, str]:
        """What the runtime's containers have of their own: a pin that is gone counts until the runtime was told."""
        waiting = dict.fromkeys((*self._later, *self._unplaced), "cpus mems")
        return free_of(policy) | waiting | self._earlier | self._owed

    def _save(self, policy: Policy) -> None:
        interrupts = dict(self._tuner.first) if self._tuner else {}
        more = bool(self._later or self._unplaced or self._earlier or self._owed)
        try:
            news = policy.news()
            if policy is self._written_of and not more:
                names = news["containers"]
                news["free"], news["interrupts"] = dict.fromkeys(names) | free_of(policy, names), interrupts
                if self._checkpoint.add(news):
                    return
            state = policy.saved()
            waiting = self._later | self._unplaced
            state.containers |= {name: ContainerState.of(each) for name, each in waiting.items()}
            state.interrupts, state.free = interrupts, self._left_alone(policy)
            self._written_of = None if more else policy
            self._checkpoint.write(state)
        except OSError as error:
            self.log.error("the state cannot be kept over a restart: %s", error)  # noqa: TRY400 - it says where

    def _report_annotations(self, containers: Iterable[Container]) -> None:
        """Warn of annotations that have no effect, in at most `MAX_WARNINGS` lines for one event."""
        warnings = (
            (container, words)
            for container in containers
            for words in unread_annotations(container, self.annotations, self.policy_type.unread_annotations)
        )
        for container, words in islice(warnings, MAX_WARNINGS):
            self.log.warning("%s: %s", container, words)

    def _unmet(self, policy: Policy) -> list[str]:
        """What running containers ask for that the configuration does not have, in at most `MAX_WARNINGS` lines."""
        names = [name for name in policy.unmet if name in policy.containers]
        places = {name: place.name for place in policy.places() for name in place.containers} if names else {}
        lines = [
            f"{policy.containers[name]}: {policy.unmet[name]}; it is in {places.get(name, 'no place')}"
            for name in names[:MAX_WARNINGS]
        ]
        more = len(names) - MAX_WARNINGS + 1
        return lines if more <= 1 else [*lines[:-1], f"{more} more containers"]

    def _report(self, policy: Policy) -> None:
        for line in self._unmet(policy):
            self.log.warning("%s", line)


def _place_of(container: Container) -> tuple[str, ...]:
    """Names of which there is one container at a time."""
    return container.pod.uid, container.pod.namespace, container.pod.name, container.name


def _newest(pods: list[m.PodSandbox], containers: list[m.Container]) -> dict[str, m.Container]:
    """The containers that are alive, by id, the oldest first; of several with one name the newest."""
    names = {pod.id: (pod.uid, pod.namespace, pod.name) for pod in pods}
    alive = [each for each in containers if each.state in _ALIVE and each.pod_sandbox_id in names]
    alive.sort(key=lambda each: (each.created_at, each.id))
    last = {(names[each.pod_sandbox_id], each.name): each.id for each in alive}
    return {each.id: each for each in alive if last[names[each.pod_sandbox_id], each.name] == each.id}
