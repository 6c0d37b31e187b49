"""Try how a live runtime treats each event, field, update, eviction, validator and failure, in pods of our own.

A plugin of ours joins at the runtime's NRI socket, and pods are made over its CRI socket; what became of what the
plugin asked for is read back from the containers. The plugin answers nothing for pods of others; everything that was
created is removed, also after a signal; what cannot be measured is reported as that, and never guessed. A case that the
runtime refuses is one row; a runtime that goes away, or a signal, ends the report after the rows so far.
`nri.conformance.fields` has the table of what is asked for.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.api import messages as m
from nri.api.builders.failure import FailurePolicy
from nri.api.builders.update import Update
from nri.api.events import EVENTS, EventMask
from nri.config import Source
from nri.config.syntax import parse_json
from nri.conformance.fields import CASES, CDI_SPEC, CGROUP_PARENT, FOLDER, SETTERS, Case
from nri.conformance.report import Report, Section
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, Reject, RuntimeUnavailable, describe
from nri.host.cgroups import Driver, detect
from nri.host.root import MACHINE
from nri.pods import lifecycle
from nri.pods.requests import Node, PodRequest, read_pods
from nri.service.interruption import SignalStop, Stopped
from nri.stub.plugin import Plugin
from nri.stub.program.session_thread import session_thread
from nri.stub.session.subscription import known_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.protobuf.message import Message

    from nri.cri.client import CriClient
    from nri.host.cgroups import Hierarchies

__all__ = ["Probe"]

#: The plugin's place: behind most, so that it sees containers as others leave them.
INDEX: Final = "95"
_REFUSAL: Final = "refused by nri conformance"
_NAMESPACE: Final = "nri-conformance"
#: How long a call of the CRI may take, how long is waited for an event or an effect, in seconds, and how often looked.
_CALL_S, _COMES_S, _LOOK_S = 60.0, 3.0, 0.05
#: A state of more than 4 MiB: containers that are not started, in so many further pods, with so many bytes in an
#: annotation of each.
_MANY, _PODS, _PADDING = 20, 3, 240_000
_PRE_INSTALLED: Final = (
    "a pre-installed plugin gets Synchronize", "starts beside a pre-installed plugin that cannot start"
)  # fmt: skip
_NOT_ASKED: Final = "not measured: a runtime starts such plugins only when it starts itself, and is not restarted here"
_SLEEP: Final = ("/bin/sleep", "2147483647")
#: Ends when it is asked to.
_POLITE: Final = ("/bin/sh", "-c", "trap exit TERM; while true; do sleep 0.1; done")
#: The events of a pod with one container in the order in which they come, and the call after which each has come.
LIFE: Final = {
    "RunPodSandbox": "RunPodSandbox",
    "CreateContainer": "CreateContainer",
    "ValidateContainerAdjustment": "CreateContainer",
    "PostCreateContainer": "CreateContainer",
    "StartContainer": "StartContainer",
    "PostStartContainer": "StartContainer",
    "UpdateContainer": "UpdateContainerResources",
    "PostUpdateContainer": "UpdateContainerResources",
    "UpdatePodSandbox": "UpdatePodSandboxResources",
    "PostUpdatePodSandbox": "UpdatePodSandboxResources",
    "StopContainer": "StopContainer",
    "RemoveContainer": "RemoveContainer",
    "StopPodSandbox": "StopPodSandbox",
    "RemovePodSandbox": "RemovePodSandbox",
}


#: What one case may raise while the runtime is still there.
_CASE_ERRORS: Final = (NriError, OSError, LookupError, StopIteration, ValueError)


class _RuntimeGone(Exception):
    """The runtime, or the plugin's connection to it, ended. Not an NriError: no case may take it for a refusal."""


class _WatchedCri:
    """The runtime's CRI socket; a call that the runtime cannot take any more raises `_RuntimeGone`."""

    def __init__(self, cri: CriClient) -> None:
        self._cri = cri

    def call(self, method: str, request: Message, *more: Any) -> Any:
        """Call a method as `CriClient.call` does."""
        try:
            return self._cri.call(method, request, *more)
        except RuntimeUnavailable as error:
            raise _RuntimeGone(str(error)) from None


class SeenEvent(NamedTuple):
    """An event that the plugin got."""

    event: str
    pod: Any
    container: Any


class ProbePlugin(Plugin):
    """The plugin: notes what comes for our pods, and does what `on` says, by event. For others it does nothing."""

    name = "nri-conformance"

    def __init__(self, events: EventMask | None = None) -> None:
        super().__init__()
        self.uids: set[str] = set()
        self.seen: list[SeenEvent] = []
        self.on: dict[str, Callable[[SeenEvent], Any]] = {}
        self.there: tuple[list[Any], list[Any]] = ([], [])
        self._events = events

    def configure(self) -> EventMask:
        known = known_to(self.runtime)
        return known if self._events is None else self._events & known

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        self.there = (pods, containers)

    def take(self, event: str, messages: tuple[Any, ...]) -> Any:
        """Note an event, and answer it."""
        about = messages[0]
        pod, container = (about.pod, about.container) if event.startswith("Validate") else (about, None)
        if container is None and len(messages) > 1 and isinstance(messages[1], m.Container):
            container = messages[1]
        if pod.uid not in self.uids:
            return None
        found = SeenEvent(event, pod, container)
        self.seen.append(found)
        wish = self.on.get(event)
        return None if wish is None else wish(found)

    def of(self, event: str, container: str = "") -> list[SeenEvent]:
        """The calls of an event; of one container by its name."""
        return [
            each for each in self.seen if each.event == event and container in ("", getattr(each.container, "name", ""))
        ]


class LatePlugin(ProbePlugin):
    """The plugin once more, which says what is to become of a request that it does not answer in time."""

    failure_policy = FailurePolicy(fail_request=True, keep_connected=True)


class LateAtFirst(ProbePlugin):
    """The plugin once more, which takes twice as long for the state as it may, and has a creation tried meanwhile."""

    def __init__(self, creation: Callable[[], tuple[str, str, str]]) -> None:
        super().__init__(EventMask.of("PostCreateContainer"))
        self._creation = creation
        self.meanwhile: tuple[str, str, str] | None = None

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:  # noqa: ARG002
        until = time.monotonic() + 2 * self.runtime.request_timeout_s + 1.0
        self.meanwhile = self._creation()
        time.sleep(max(0.0, until - time.monotonic()))


def _handler(event: str) -> Any:
    def handler(self: ProbePlugin, *messages: Any) -> Any:
        return self.take(event, messages)

    return handler


for _spec in EVENTS:
    setattr(ProbePlugin, _spec.method, _handler(_spec.rpc))


class ConfigureRecorder:
    """A reporter that keeps how the runtime has introduced itself, as it said it."""

    def __init__(self) -> None:
        self.message = m.ConfigureRequest()

    def event_begins(self, event: str, serial: int, request: bytes) -> None:  # noqa: ARG002
        """Keep the first request."""
        if event == "Configure":
            self.message = m.ConfigureRequest.FromString(request)

    def plugin_asked(self, *_: object) -> None:
        """Leave it."""

    plugin_answered = plugin_failed = reply_merged = event_ends = plugin_asked


@dataclass(slots=True)
class ProbeContainer:
    """A container that was made here, as `fields.View` has it."""

    cri: CriClient
    hierarchies: Hierarchies
    id: str
    dir: Path
    pid: int = 0
    config: Any = None

    def look(self) -> ProbeContainer:
        """Read what the runtime says of it; a process of its own is waited for."""
        request = pb.ContainerStatusRequest(container_id=self.id, verbose=True)
        info = dict(self.cri.call("ContainerStatus", request, _CALL_S).info)
        said = parse_json(info.get("info", "{}"))
        self.pid, self.config = int(said.get("pid") or 0), said.get("runtimeSpec")
        until = time.monotonic() + _COMES_S
        while self.pid and time.monotonic() < until and _starts(self.pid):
            time.sleep(_LOOK_S)
        return self

    def exec(self, *command: str) -> str:
        """The output of a program in it."""
        request = pb.ExecSyncRequest(container_id=self.id, cmd=command, timeout=int(_CALL_S))
        return str(self.cri.call("ExecSync", request, _CALL_S).stdout.decode(errors="replace"))

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        """A file of its cgroup."""
        row = self.hierarchies.of(controller) or self.hierarchies.of("")
        if row is None:
            raise NriError(f"no cgroup hierarchy of {controller} is mounted here")
        if row.version == 2 and not v2_file:
            return str(self.spec("linux", "resources", "cpu", "shares"))
        lines = [line.split(":", 2) for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines()]
        wanted = "" if row.version == 2 else controller
        folder = next(path for _, controllers, path in lines if wanted in controllers.split(","))
        return Path(f"{row.path}{folder}/{v1_file if row.version == 1 else v2_file}").read_text().strip()

    def spec(self, *path: str) -> Any:
        """A value of the OCI spec."""
        if self.config is None:
            raise NriError("the runtime does not show the OCI spec")
        value: Any = self.config
        for name in path:
            value = (value or {}).get(name)
        return value

    def remove(self) -> None:
        """Stop and remove it."""
        self.cri.call("StopContainer", pb.StopContainerRequest(container_id=self.id), _CALL_S)
        self.cri.call("RemoveContainer", pb.RemoveContainerRequest(container_id=self.id), _CALL_S)


class _ReferenceContainer(ProbeContainer):
    """A container that others are compared with, and which therefore stays."""

    def remove(self) -> None:
        """Leave it."""


def _starts(pid: int) -> bool:
    """Whether a process is still the OCI runtime's, or has no words yet because it becomes another program now."""
    words = _words(pid)
    return b"\0init\0" in words if words else os.path.exists(f"/proc/{pid}/exe")


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Probe:
    """Tries a runtime.

    Args:
        cri: its CRI socket.
        nri_socket: where plugins join.
        image: of the containers; it has /bin/sh, as busybox has.
        timeout_s: how long the runtime may take to let a plugin take part, in seconds.
        say: gets a line for each thing that is tried next.
        cdi_dir: a folder of CDI devices that the runtime reads, for a file of ours; "" leaves devices out.
        cgroup_root: the cgroup above those of the pods.
        own_network: pods have a network of their own.
    """

    def __init__(
        self,
        cri: CriClient,
        nri_socket: str,
        image: str,
        timeout_s: float,
        say: Callable[[str], None],
        *,
        cdi_dir: str = "",
        cgroup_root: str = "",
        own_network: bool = False,
    ) -> None:
        self._stop = SignalStop()
        self._cri: Any = _WatchedCri(cri)
        self._socket, self._image, self._timeout_s = nri_socket, image, timeout_s
        self._tell = say
        self._cdi_dir, self._own_network = cdi_dir, own_network
        self._hierarchies = detect(MACHINE)
        self._driver = lifecycle.driver_of(cri)
        self._has_devices = False
        self._at = ""
        self._thread: threading.Thread | None = None
        self._main = ""
        self._cgroup_root = cgroup_root
        self._plugin = ProbePlugin()
        self._introduced = ConfigureRecorder()
        self._work = Path()
        self._pods: dict[str, PodRequest] = {}
        self._count = 0

    def run(self, begin: Callable[[str], None] = lambda _: None) -> Report:
        """Try everything; the report says if a signal or the runtime's end came before. For the main thread.

        Args:
            begin: gets the number and title of each part that begins.

        Raises what keeps it from beginning: no socket, no image, no pod.
        """
        report = Report("What this runtime does with NRI")
        with self._stop, ExitStack() as stack:
            self._work = Path(stack.enter_context(TemporaryDirectory(prefix="nri-conformance-", dir="/var/tmp")))
            self._work.chmod(0o755)
            self._has_devices = stack.enter_context(self._devices())
            stack.callback(self._remove_all, report)
            joining = session_thread(self._plugin, self._socket, INDEX, self._timeout_s, self._introduced)
            self._thread = stack.enter_context(joining)
            try:
                self._try_all(report, begin)
            except _RuntimeGone as error:
                if not report.sections:
                    raise RuntimeUnavailable(self._socket, str(error)) from None
                report.incomplete = f"the runtime went away at {self._at}: {error}"
                report.runtime_gone = True
            except Stopped as stopped:
                if not report.sections:
                    raise
                report.incomplete = f"{stopped.signal} stopped it at {self._at}"
                report.stopped_by = stopped.number
        return report

    def _try_all(self, report: Report, begin: Callable[[str], None]) -> None:
        """Try all parts, each in its section; an error of a part is a row, and the next part begins."""
        version = self._cri.call("Version", pb.VersionRequest())
        runtime = self._plugin.runtime
        report.about.update(
            {
                "runtime": f"{version.runtime_name} {version.runtime_version}",
                "NRI": runtime.nri_version or "not told",
                "cgroups": f"{self._hierarchies.mode}, {self._driver.value}",
            }
        )
        around = "Around the events"
        parts: tuple[tuple[str, Callable[[Section], None]], ...] = (
            ("Events, in the order in which they come", self._life),
            ("Fields of the messages, and the first event that tells them", self._told),
            (around, self._around),
            ("Adjustments", self._adjustments),
            ("Updates of running containers", self._updates),
            ("A plugin's error, and what becomes of the call", self._failures),
            ("A plugin that is late or refuses", self._late),
            (around, self._large),
        )
        for number, (title, part) in enumerate(parts, 1):
            begin(f"part {number} of {len(parts)}: {title}")
            section = next((one for one in report.sections if one.title == title), None) or report.section(title)
            try:
                part(section)
            except _CASE_ERRORS as error:
                if not any(one.rows for one in report.sections):
                    raise  # not even the first pod runs
                section.add(self._at, f"not measured: {describe(error)}")

    def _say(self, case: str) -> None:
        """Note and report which case begins. _RuntimeGone if the plugin is not connected any more."""
        if self._thread is not None and not self._thread.is_alive():
            raise _RuntimeGone(f"{self._socket}: the plugin's connection ended")
        self._at = case
        self._tell(case)

    # -- pods and containers --------------------------------------------------------------------------------------

    def _pod(self, name: str) -> str:
        """Run a pod without containers, and remember it; its id. NriError if it cannot be run."""
        manifest = {
            "kind": "Pod",
            "metadata": {"name": f"{name}-{os.getpid()}", "namespace": _NAMESPACE},
            "spec": {
                "hostNetwork": not self._own_network,
                "containers": [
                    {
                        "name": "c",
                        "image": self._image,
                        "command": list(_SLEEP),
                        "env": [{"name": "OF_POD", "value": "old"}],
                        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
                    }
                ],
            },
        }
        node = Node(socket.gethostname(), str(self._work / "pods"), self._cgroup_root, self._driver)
        (pod,) = read_pods(Source("a pod of nri conformance", json.dumps(manifest)), node)
        pod.config.annotations[FOLDER] = str(self._work)
        pod.config.annotations[CGROUP_PARENT] = pod.config.linux.cgroup_parent
        self._plugin.uids.add(pod.config.metadata.uid)
        template, pod.containers = pod.containers, []
        lifecycle.pull(self._cri, pod, template[0], self._tell)
        with self._stop.held():  # a pod that is not among `_pods` would not be removed
            pod_id = lifecycle.run(self._cri, pod, self._tell)
            self._pods[pod_id] = pod
        pod.containers = template
        return pod_id

    def _create(
        self, pod: str, name: str = "", *, start: bool = True, command: Sequence[str] = (), padding: int = 0
    ) -> ProbeContainer:
        """Create a container, and start it; it sleeps unless there is a command. `padding`: bytes of an annotation."""
        self._count += 1
        wanted = self._pods[pod]
        config = pb.ContainerConfig()
        config.CopyFrom(wanted.containers[0].config)
        config.metadata.name = name or f"c{self._count}"
        config.log_path = f"{config.metadata.name}.log"
        config.annotations["of-container"] = "1"
        if padding:
            config.annotations["padding"] = "x" * padding
        if command:
            config.command[:] = command
        request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=wanted.config)
        identity = self._cri.call("CreateContainer", request, _CALL_S).container_id
        if start:
            self._cri.call("StartContainer", pb.StartContainerRequest(container_id=identity), _CALL_S)
        return ProbeContainer(self._cri, self._hierarchies, identity, self._work).look()

    def _update(self, container: str) -> None:
        self._cri.call("UpdateContainerResources", _more_memory(container), _CALL_S)

    def _update_pod(self, pod: str) -> None:
        resources = pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20)
        request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod, resources=resources)
        self._cri.call("UpdatePodSandboxResources", request, _CALL_S)

    def _remove_all(self, report: Report) -> None:
        """Remove all pods, and name those that the runtime did not remove. No signal interrupts it."""
        self._stop.finish()
        self._plugin.on.clear()
        for pod in list(self._pods):
            with suppress(NriError, OSError, _RuntimeGone):
                self._end(pod)
        if self._pods:
            names = ", ".join(pod.config.metadata.name for pod in self._pods.values())
            report.about["left behind"] = f"pods {names} of namespace {_NAMESPACE}; remove them with nri pod rm"

    def _end(self, pod: str) -> None:
        wanted = self._pods[pod]
        there = pb.PodSandbox(id=pod, metadata=wanted.config.metadata)
        lifecycle.remove(self._cri, there, str(self._work / "pods"))
        del self._pods[pod]

    @contextmanager
    def _answering(self, event: str, wish: Callable[[SeenEvent], Any]) -> Iterator[None]:
        """Have the plugin answer an event so while the block lasts."""
        self._plugin.on[event] = wish
        try:
            yield
        finally:
            del self._plugin.on[event]

    # -- what is tried --------------------------------------------------------------------------------------------

    def _life(self, section: Section) -> None:
        """A pod with a container from its beginning to its end, with nothing asked for."""
        self._say("events")
        pod = self._pod("life")
        refused = ""
        steps: list[Callable[[], None]] = [partial(self._update_pod, pod), partial(self._end, pod)]
        try:
            container = self._create(pod)
            steps[:1] = [partial(self._update, container.id), steps[0], container.remove]
        except NriError as error:
            refused = describe(error)
        for step in steps:
            with suppress(NriError):
                step()
        _comes(lambda: self._plugin.of("RemovePodSandbox"))
        came = list(dict.fromkeys(each.event for each in self._plugin.seen))
        for event in LIFE:
            section.add(event, "yes" if event in came else "no", "", refused if "Container" in event else "")
        expected = [event for event in LIFE if event in came]
        firsts = [event for event in came if event in expected]
        section.add("in this order", "yes" if firsts == expected else f"no, but {', '.join(firsts)}")

    def _told(self, section: Section) -> None:
        """Which fields of pods and containers have a value, and since which event."""
        first: dict[str, str] = {}
        for event, pod, container in self._plugin.seen:
            for kind, message in (("pod", pod), ("container", container)):
                for path in [] if message is None else _filled(message, kind):
                    first.setdefault(path, event)
        for kind, known in (("pod", m.PodSandbox), ("container", m.Container)):
            for path in _known(known.DESCRIPTOR, kind):
                section.add(path, first.get(path, "never"))

    def _around(self, section: Section) -> None:
        """Facts that a plugin gets besides the events. Runs the pod that the other parts use."""
        self._say("a pod for all that follows")
        self._main = self._pod("main")
        told = self._introduced.message.request_timeout
        section.add("Configure tells the timeouts", "yes" if told else "no")
        if self._own_network:
            ips = [each for each in self._plugin.of("RunPodSandbox") if each.pod.ips]
            section.add("RunPodSandbox has the pod's addresses", "yes" if ips else "no")
        else:
            section.add("RunPodSandbox has the pod's addresses", "not measured: give --pod-network")
        second = ProbePlugin(EventMask.of("RemovePodSandbox"))
        second.name = "nri-conformance-2"  # type: ignore[misc]
        self._say("Synchronize has the pods that are there")
        with session_thread(second, self._socket, INDEX, self._timeout_s):
            synchronized = self._main in [pod.id for pod in second.there[0]]
            section.add("Synchronize has the pods that are there", "yes" if synchronized else "no")

    def _adjustments(self, section: Section) -> None:
        """Each field that a plugin may set."""
        self._say("a container without adjustments")
        pod = self._main
        (self._work / "hello").write_text("hello")
        plain = _ReferenceContainer(self._cri, self._hierarchies, self._create(pod, "plain").id, self._work).look()
        unable = {
            "cdi": "" if self._has_devices else "not measured: give --cdi-dir",
            "cgroups-path": "not measured: systemd makes the cgroups" if self._driver is Driver.SYSTEMD else "",
        }
        for name, case in CASES.items():
            self._say(f"adjustment {case.text}")
            section.add(case.text, unable.get(name) or self._adjustment(pod, plain, case), case.where)

    def _adjustment(self, pod: str, plain: ProbeContainer, case: Case) -> str:
        for file in self._work.glob("hook-*"):
            file.unlink()
        try:
            unadjusted = case.read(plain)
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        if unadjusted == case.effect:
            return "not measured: a container has this without it, too"
        with self._answering("CreateContainer", lambda seen: case.adjust(seen.pod)):
            try:
                made = self._create(pod, start=case.start)
            except NriError as error:
                return f"refused: {describe(error)}"
        try:
            seen = case.read(made)
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        finally:
            with suppress(NriError):
                made.remove()
        return "applied" if seen == case.effect else "ignored" if seen == unadjusted else f"read back {seen!r}"

    @contextmanager
    def _devices(self) -> Iterator[bool]:
        """The file of a CDI device, if a folder was named for it."""
        if not self._cdi_dir:
            yield False
            return
        file = Path(self._cdi_dir, f"nri-conformance-{os.getpid()}.json")
        try:
            file.write_text(json.dumps(CDI_SPEC))
        except OSError as error:
            raise NriError(f"--cdi-dir {self._cdi_dir}: {error.strerror}") from None
        try:
            yield True
        finally:
            file.unlink(missing_ok=True)

    def _updates(self, section: Section) -> None:
        """Updates that the plugin asks for by itself, a field each, then those that it returns, and an eviction."""
        for setter in SETTERS:
            self._case(section, f"{setter}, by itself", partial(self._update_by_itself, setter))
        for event in ("CreateContainer", "UpdateContainer", "StopContainer"):
            self._case(section, f"set_memory_limit, returned to {event}", partial(self._update_returned, event))
        self._case(section, "an eviction", lambda: self._eviction(self._create(self._main, command=_POLITE)))

    def _case(self, section: Section, name: str, measure: Callable[[], str]) -> None:
        """Add a row with what a case measures, or with why it cannot be measured."""
        self._say(name)
        try:
            outcome = measure()
        except _CASE_ERRORS as error:
            outcome = f"not measured: {describe(error)}"
        section.add(name, outcome)

    def _update_by_itself(self, setter: str) -> str:
        value, *_, text = SETTERS[setter]
        container = self._create(self._main)
        update = getattr(Update(container.id), setter)(value)
        return self._effect(container, setter, text, partial(self._asked, update))

    def _update_returned(self, event: str) -> str:
        """The effect of an update that the plugin returns to an event: of its container, or else of another one."""
        container = self._create(self._main)
        changed = container if event == "UpdateContainer" else self._create(self._main)
        wish = Update(changed.id).set_memory_limit((80 if event != "StopContainer" else 72) << 20)
        text = str(wish.message.linux.resources.memory.limit.value)
        acts: dict[str, Callable[[], object]] = {
            "CreateContainer": partial(self._create, self._main),
            "UpdateContainer": partial(self._update, container.id),
            "StopContainer": container.remove,
        }
        with self._answering(event, _giving([wish])):
            return self._effect(changed, "set_memory_limit", text, acts[event])

    def _asked(self, update: Any) -> None:
        failed = self._plugin.runtime.update(update).result(_CALL_S)
        if failed:
            raise NriError("told as failed")

    def _effect(self, made: ProbeContainer, setter: str, text: str, act: Callable[[], object]) -> str:
        """The effect of an act on a value of a container's cgroup."""
        _, controller, v1_file, v2_file, _ = SETTERS[setter]
        try:
            before = made.cgroup(controller, v1_file, v2_file).split()[0]
            try:
                act()
            except NriError as error:
                return f"refused: {describe(error)}"
            after = made.cgroup(controller, v1_file, v2_file).split()[0]
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        weight = v2_file == "cpu.weight" and (row := self._hierarchies.of("cpu")) is not None and row.version == 2
        if after == text or (weight and after != before):
            return "applied"
        return "ignored" if after == before or setter == "set_memory_limit" else f"read back {after!r}"

    def _eviction(self, made: ProbeContainer) -> str:
        runtime = self._plugin.runtime
        known = runtime.name
        runtime.name = ""  # of some names it says by itself that it is no use to ask
        try:
            runtime.evict(made.id, "nri conformance").result(_CALL_S)
        except NriError as error:
            return f"refused: {describe(error)}"
        finally:
            runtime.name = known
        ended = _comes(lambda: self._state(made.id) != pb.CONTAINER_RUNNING)
        return "applied" if ended else "ignored"

    def _state(self, container: str) -> int:
        try:
            return int(
                self._cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status.state
            )
        except NriError:
            return -1

    def _failures(self, section: Section) -> None:
        """An error at each event: whether the call that it is part of fails, and with whose words."""
        pod = self._main
        for event in (each for each in LIFE if not each.startswith("Validate")):
            self._say(f"an error at {event}")
            came = len(self._plugin.of(event))
            with self._answering(event, _refuse):
                errors = self._short_life(event, pod)
            if len(self._plugin.of(event)) == came:
                section.add(event, "not measured: the event does not come")
                continue
            error = errors.get(LIFE[event], "")
            told = "" if not error or _REFUSAL in error else f"without the plugin's words: {error}"
            section.add(event, f"{LIFE[event]} fails" if error else "only logged, if that", "", told)
        self._remove_extra(pod)

    def _short_life(self, event: str, pod: str) -> dict[str, str]:
        """As much of a life as comes to an event; the errors by the call."""
        errors: dict[str, str] = {}

        def call(name: str, act: Callable[[], Any]) -> Any:
            try:
                return act()
            except NriError as error:
                errors[name] = describe(error)
                return None

        own = pod if "Container" in event or "Update" in event else call("RunPodSandbox", lambda: self._pod("short"))
        if own is None or own != pod:
            if own is not None and event.endswith("PodSandbox"):
                call("StopPodSandbox", lambda: self._stop_pod(own))
                call("RemovePodSandbox", lambda: self._remove_pod(own))
            return errors
        if "PodSandbox" in event:
            call("UpdatePodSandboxResources", lambda: self._update_pod(pod))
            return errors
        made = call("CreateContainer", lambda: self._create(pod, start=False))
        if made is not None:
            steps = {
                "StartContainer": pb.StartContainerRequest(container_id=made.id),
                "UpdateContainerResources": _more_memory(made.id),
                "StopContainer": pb.StopContainerRequest(container_id=made.id),
                "RemoveContainer": pb.RemoveContainerRequest(container_id=made.id),
            }
            for name, request in steps.items():
                call(name, partial(self._cri.call, name, request, _CALL_S))
        return errors

    def _stop_pod(self, pod: str) -> None:
        self._cri.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod), _CALL_S)

    def _remove_pod(self, pod: str) -> None:
        self._cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod), _CALL_S)

    def _remove_extra(self, kept: str) -> None:
        for pod in [each for each in self._pods if each != kept]:
            with suppress(NriError, OSError):
                self._end(pod)

    def _late(self, section: Section) -> None:
        """A validator that refuses, and plugins that do not answer in time."""
        pod = self._main
        self._say("a validator that refuses")
        if self._plugin.of("ValidateContainerAdjustment"):
            with self._answering("ValidateContainerAdjustment", _reject):
                section.add("a validator refuses a container: the creation", *self._creation(pod))
        else:
            section.add("a validator refuses a container: the creation", "not measured: the event does not come")
        for title, plugin in (
            ("late, without a failure policy", ProbePlugin),
            ("late, with fail_request and keep_connected", LatePlugin),
        ):
            self._say(f"a plugin that is {title}")
            try:
                self._be_late(section, pod, title, plugin(EventMask.of("CreateContainer")))
            except _CASE_ERRORS as error:
                section.add(f"{title}: the plugin", f"not measured: {describe(error)}")
        self._say("a plugin that is late in Synchronize")
        late, title = LateAtFirst(partial(self._creation, pod)), "late in Synchronize"
        late.uids = {self._pods[pod].config.metadata.uid}
        outcome = "is cut off"
        with (
            suppress(NriError),
            session_thread(late, self._socket, INDEX[0] + "7", self._timeout_s + 2 * _CALL_S) as thread,
        ):
            thread.join(_COMES_S)
            if thread.is_alive():
                late.seen.clear()
                self._creation(pod)
                outcome = "stays connected" + ("" if _comes(lambda: late.seen) else ", without events")
        if late.meanwhile is None:
            section.add(f"{title}: the plugin", "not measured: Synchronize does not come")
            return
        section.add(f"{title}: a creation meanwhile", *late.meanwhile)
        section.add(f"{title}: the plugin", outcome)

    def _large(self, section: Section) -> None:
        """Whether a plugin is told of more than one message holds; and what is not measured at all."""
        for name in _PRE_INSTALLED:
            section.add(name, _NOT_ASKED)
        pod = self._main
        title = "Synchronize of more than 4 MiB comes in parts"
        self._say("a Synchronize of more than 4 MiB")
        try:
            # Of one pod, containerd 2.1 to 2.4 send parts without anything in them for as long as they may.
            pods = [pod, *(self._pod(f"large{n}") for n in range(_PODS))]
            made = {
                self._create(pods[n % len(pods)], f"large{n}", start=False, padding=_PADDING).id for n in range(_MANY)
            }
        except _CASE_ERRORS as error:
            section.add(title, f"not measured: {describe(error)}")
            return
        plugin = ProbePlugin(EventMask.of("RemovePodSandbox"))
        try:
            with session_thread(plugin, self._socket, INDEX[0] + "8", self._timeout_s):
                told = made.intersection(each.id for each in plugin.there[1])
        except NriError as error:
            section.add(title, "no", "", describe(error))
            return
        section.add(title, "yes" if told == made else f"no, but {len(told)} of {len(made)} containers are told")

    def _be_late(self, section: Section, pod: str, title: str, plugin: ProbePlugin) -> None:
        plugin.uids = {self._pods[pod].config.metadata.uid}
        over = threading.Event()
        with session_thread(plugin, self._socket, INDEX[0] + "6", self._timeout_s) as thread:
            plugin.on["CreateContainer"] = lambda _: over.wait(plugin.runtime.request_timeout_s * 2 + 10.0) and None
            section.add(f"{title}: the creation", *self._creation(pod))
            over.set()
            thread.join(_COMES_S)
            section.add(f"{title}: the plugin", "stays connected" if thread.is_alive() else "is cut off")

    def _creation(self, pod: str) -> tuple[str, str, str]:
        """The outcome of a creation, and its error as a note."""
        try:
            made = self._create(pod)
        except NriError as error:
            return "fails", "", describe(error)
        with suppress(NriError):
            made.remove()
        return "goes on", "", ""


def _more_memory(container: str) -> pb.UpdateContainerResourcesRequest:
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20)
    return pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)


def _giving(answer: Any) -> Callable[[SeenEvent], Any]:
    """A wish that is the same whatever is asked."""
    return lambda _: answer


def _refuse(_: SeenEvent) -> None:
    raise NriError(_REFUSAL)


def _reject(_: SeenEvent) -> None:
    raise Reject(_REFUSAL)


def _comes(holds: Callable[[], object]) -> bool:
    """Whether something becomes true before long."""
    until = time.monotonic() + _COMES_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
    return True


def _known(descriptor: Any, path: str, depth: int = 2) -> Iterator[str]:
    """The fields of a message and of those in it, two levels deep, as paths."""
    for field in descriptor.fields:
        below = f"{path}.{field.name}"
        nested = field.message_type
        if nested is None or field.is_repeated or not depth or nested.name.startswith("Optional"):
            yield below
        else:
            yield from _known(nested, below, depth - 1)


def _filled(message: Any, path: str, depth: int = 2) -> Iterator[str]:
    """The paths of `_known` that have a value in a message."""
    for field, value in message.ListFields():
        below = f"{path}.{field.name}"
        nested = field.message_type
        if nested is None or field.is_repeated or not depth or nested.name.startswith("Optional"):
            yield below
        else:
            yield from _filled(value, below, depth - 1)
