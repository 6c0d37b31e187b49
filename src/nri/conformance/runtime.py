"""Test how a live runtime handles every event, field, update, eviction, validator and failure.

A plugin connects to the runtime's NRI socket, and pods are created over its CRI socket; the effects of the plugin's
answers are read from the containers. Effects that cannot be measured are reported as such.
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

#: The plugin's index, after most other plugins, so that it sees containers with their changes.
INDEX: Final = "95"
_REFUSAL: Final = "refused by nri conformance"
_NAMESPACE: Final = "nri-conformance"
#: The timeout of a CRI call, in seconds.
_CALL_TIMEOUT_S = 60.0
#: The timeout of an event or effect, in seconds.
_EVENT_TIMEOUT_S = 3.0
#: The interval in which events and effects are checked, in seconds.
_POLL_S = 0.05
#: A state of more than 4 MiB: this many containers, in this many further pods, with this padding in an annotation.
_LARGE_CONTAINERS, _LARGE_PODS, _PADDING_BYTES = 20, 3, 240_000
_PRE_INSTALLED: Final = (
    "a pre-installed plugin gets Synchronize", "starts with a pre-installed plugin that cannot start"
)  # fmt: skip
_NOT_MEASURED: Final = "not measured: this would require a restart of the runtime"
_SLEEP: Final = ("/bin/sleep", "2147483647")
#: A command that ends at SIGTERM.
_UNTIL_SIGTERM: Final = ("/bin/sh", "-c", "trap exit TERM; while true; do sleep 0.1; done")
#: The events of a pod with one container, in order, and the CRI call that causes each.
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


#: Exceptions of a case that do not mean that the runtime has stopped.
_CASE_ERRORS: Final = (NriError, OSError, LookupError, StopIteration, ValueError)


class _RuntimeGone(Exception):
    """The runtime, or the plugin's connection, ended. Not an NriError, so that no case treats it as a refusal."""


class _WatchedCri:
    """The runtime's CRI socket. A call raises `_RuntimeGone` if the runtime has stopped."""

    def __init__(self, cri: CriClient) -> None:
        self._cri = cri

    def call(self, method: str, request: Message, *more: Any) -> Any:
        """Call a method, like `CriClient.call`."""
        try:
            return self._cri.call(method, request, *more)
        except RuntimeUnavailable as error:
            raise _RuntimeGone(str(error)) from None


class SeenEvent(NamedTuple):
    """An event that the plugin received."""

    event: str
    pod: Any
    container: Any


class ProbePlugin(Plugin):
    """A plugin that records the events of the test's pods, and answers them with `on`. It ignores all other pods."""

    name = "nri-conformance"

    def __init__(self, events: EventMask | None = None) -> None:
        super().__init__()
        self.uids: set[str] = set()
        self.received: list[SeenEvent] = []
        self.on: dict[str, Callable[[SeenEvent], Any]] = {}
        self.initial_state: tuple[list[Any], list[Any]] = ([], [])
        self._events = events

    def configure(self) -> EventMask:
        """Subscribe to the given events, or to all events that the runtime knows."""
        known_events = known_to(self.runtime)
        return known_events if self._events is None else self._events & known_events

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        """Store the state that the runtime hands over."""
        self.initial_state = (pods, containers)

    def take(self, event: str, messages: tuple[Any, ...]) -> Any:
        """Record an event, and answer it."""
        about = messages[0]
        pod, container = (about.pod, about.container) if event.startswith("Validate") else (about, None)
        if container is None and len(messages) > 1 and isinstance(messages[1], m.Container):
            container = messages[1]
        if pod.uid not in self.uids:
            return None
        event_ = SeenEvent(event, pod, container)
        self.received.append(event_)
        wish = self.on.get(event)
        return None if wish is None else wish(event_)

    def of(self, event: str, container: str = "") -> list[SeenEvent]:
        """The received events of this name. With `container`, only the events of the container with this name."""
        return [
            entry
            for entry in self.received
            if entry.event == event and container in ("", getattr(entry.container, "name", ""))
        ]


class LatePlugin(ProbePlugin):
    """A plugin with a failure policy for requests that it does not answer in time."""

    failure_policy = FailurePolicy(fail_request=True, keep_connected=True)


class LateAtFirst(ProbePlugin):
    """A plugin that exceeds the timeout of Synchronize, and tests a creation in the meantime."""

    def __init__(self, creation: Callable[[], tuple[str, str, str]]) -> None:
        super().__init__(EventMask.of("PostCreateContainer"))
        self._creation = creation
        self.meanwhile: tuple[str, str, str] | None = None

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:  # noqa: ARG002
        """Create a container, and answer later than the runtime allows."""
        deadline = time.monotonic() + 2 * self.runtime.request_timeout_s + 1.0
        self.meanwhile = self._creation()
        time.sleep(max(0.0, deadline - time.monotonic()))


def _handler(event: str) -> Any:
    def handler(self: ProbePlugin, *messages: Any) -> Any:
        return self.take(event, messages)

    return handler


for _spec in EVENTS:
    setattr(ProbePlugin, _spec.method, _handler(_spec.rpc))


class ConfigureRecorder:
    """A reporter that stores the Configure request."""

    def __init__(self) -> None:
        self.message = m.ConfigureRequest()

    def event_begins(self, event: str, serial: int, request: bytes) -> None:  # noqa: ARG002
        """Store the request of Configure."""
        if event == "Configure":
            self.message = m.ConfigureRequest.FromString(request)

    def plugin_asked(self, *_: object) -> None:
        """Ignore the step."""

    plugin_answered = plugin_failed = reply_merged = event_ends = plugin_asked


@dataclass(slots=True)
class ProbeContainer:
    """A container of the test, with the methods of `fields.View`."""

    cri: CriClient
    hierarchies: Hierarchies
    id: str
    dir: Path
    pid: int = 0
    config: Any = None

    def examine(self) -> ProbeContainer:
        """Read pid and spec from the runtime, and wait until the container's program has started."""
        request = pb.ContainerStatusRequest(container_id=self.id, verbose=True)
        info = dict(self.cri.call("ContainerStatus", request, _CALL_TIMEOUT_S).info)
        status = parse_json(info.get("info", "{}"))
        self.pid, self.config = int(status.get("pid") or 0), status.get("runtimeSpec")
        deadline = time.monotonic() + _EVENT_TIMEOUT_S
        while self.pid and time.monotonic() < deadline and _is_starting(self.pid):
            time.sleep(_POLL_S)
        return self

    def exec(self, *command: str) -> str:
        """Run a program in the container. Returns its output."""
        request = pb.ExecSyncRequest(container_id=self.id, cmd=command, timeout=int(_CALL_TIMEOUT_S))
        return str(self.cri.call("ExecSync", request, _CALL_TIMEOUT_S).stdout.decode(errors="replace"))

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        """Read a file of the container's cgroup."""
        row = self.hierarchies.of(controller) or self.hierarchies.of("")
        if row is None:
            raise NriError(f"no cgroup hierarchy of {controller} is mounted on this machine")
        if row.version == 2 and not v2_file:
            return str(self.spec("linux", "resources", "cpu", "shares"))
        lines = [line.split(":", 2) for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines()]
        hierarchy_name = "" if row.version == 2 else controller
        folder = next(path for _, controllers, path in lines if hierarchy_name in controllers.split(","))
        return Path(f"{row.path}{folder}/{v1_file if row.version == 1 else v2_file}").read_text().strip()

    def spec(self, *path: str) -> Any:
        """Read a value of the OCI spec."""
        if self.config is None:
            raise NriError("the runtime does not report the OCI spec")
        value: Any = self.config
        for name in path:
            value = (value or {}).get(name)
        return value

    def remove(self) -> None:
        """Stop and remove the container."""
        self.cri.call("StopContainer", pb.StopContainerRequest(container_id=self.id), _CALL_TIMEOUT_S)
        self.cri.call("RemoveContainer", pb.RemoveContainerRequest(container_id=self.id), _CALL_TIMEOUT_S)


class _ReferenceContainer(ProbeContainer):
    """A container without adjustments, with which other containers are compared. It is not removed."""

    def remove(self) -> None:
        """Do nothing."""


def _is_starting(pid: int) -> bool:
    """Whether a process still belongs to the OCI runtime, or has no command line yet because it is being replaced."""
    words = _command_line(pid)
    return b"\0init\0" in words if words else os.path.exists(f"/proc/{pid}/exe")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Probe:
    """The test of a runtime.

    Args:
        cri: the runtime's CRI socket.
        nri_socket: the runtime's NRI socket.
        image: the image of the containers; it must have /bin/sh.
        timeout_s: how long the runtime may take to synchronize a plugin, in seconds.
        say: called with a line for each case.
        cdi_dir: a folder of CDI devices that the runtime reads, for a file of the test; "" skips devices.
        cgroup_root: the parent of the pods' cgroups.
        own_network: whether pods have their own network.
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
        self._report_progress = say
        self._cdi_dir, self._own_network = cdi_dir, own_network
        self._hierarchies = detect(MACHINE)
        self._driver = lifecycle.driver_of(cri)
        self._has_devices = False
        self._present_case = ""
        self._thread: threading.Thread | None = None
        self._main = ""
        self._cgroup_root = cgroup_root
        self._plugin = ProbePlugin()
        self._configure_recorder = ConfigureRecorder()
        self._work_folder = Path()
        self._pods: dict[str, PodRequest] = {}
        self._count = 0

    def run(self, begin: Callable[[str], None] = lambda _: None) -> Report:
        """Run all tests. The report shows whether a signal or the runtime's end stopped them. Only for the main thread.

        Args:
            begin: called with the number and title of each section.

        Raises NriError if the test cannot start: no socket, no image, no pod.
        """
        report = Report("How this runtime behaves with NRI")
        with self._stop, ExitStack() as stack:
            self._work_folder = Path(stack.enter_context(TemporaryDirectory(prefix="nri-conformance-", dir="/var/tmp")))
            self._work_folder.chmod(0o755)
            self._has_devices = stack.enter_context(self._devices())
            stack.callback(self._remove_all, report)
            joining = session_thread(self._plugin, self._socket, INDEX, self._timeout_s, self._configure_recorder)
            self._thread = stack.enter_context(joining)
            try:
                self._try_all(report, begin)
            except _RuntimeGone as error:
                if not report.sections:
                    raise RuntimeUnavailable(self._socket, str(error)) from None
                report.incomplete = f"the runtime stopped during {self._present_case}: {error}"
                report.runtime_gone = True
            except Stopped as stopped:
                if not report.sections:
                    raise
                report.incomplete = f"{stopped.signal} stopped the test during {self._present_case}"
                report.stopped_by = stopped.number
        return report

    def _try_all(self, report: Report, begin: Callable[[str], None]) -> None:
        """Run all sections. An error of a section becomes a row, and the next section begins."""
        version = self._cri.call("Version", pb.VersionRequest())
        runtime = self._plugin.runtime
        report.about.update(
            {
                "runtime": f"{version.runtime_name} {version.runtime_version}",
                "NRI": runtime.nri_version or "not reported",
                "cgroups": f"{self._hierarchies.mode}, {self._driver.value}",
            }
        )
        further = "Configure, Synchronize and pre-installed plugins"
        parts: tuple[tuple[str, Callable[[Section], None]], ...] = (
            ("Events, in order", self._test_life),
            ("Fields of the messages, and the first event that has them", self._reported_fields),
            (further, self._test_surroundings),
            ("Adjustments", self._test_adjustments),
            ("Updates of running containers", self._test_updates),
            ("Errors of a plugin, and their effect on the CRI call", self._test_failures),
            ("Late and refusing plugins", self._test_late_plugins),
            (further, self._test_large_state),
        )
        for number, (title, part) in enumerate(parts, 1):
            begin(f"part {number} of {len(parts)}: {title}")
            section = next((one for one in report.sections if one.title == title), None) or report.section(title)
            try:
                part(section)
            except _CASE_ERRORS as error:
                if not any(one.rows for one in report.sections):
                    raise  # the first pod did not run
                section.add(self._present_case, f"not measured: {describe(error)}")

    def _begin_case(self, case: str) -> None:
        """Store and report the current case. Raises _RuntimeGone if the plugin is no longer connected."""
        if self._thread is not None and not self._thread.is_alive():
            raise _RuntimeGone(f"{self._socket}: the plugin's connection ended")
        self._present_case = case
        self._report_progress(case)

    # -- pods and containers --------------------------------------------------------------------------------------

    def _pod(self, name: str) -> str:
        """Run a pod without containers, for later removal. Returns its id. Raises NriError if it cannot be run."""
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
        node = Node(socket.gethostname(), str(self._work_folder / "pods"), self._cgroup_root, self._driver)
        (pod,) = read_pods(Source("a pod of nri conformance", json.dumps(manifest)), node)
        pod.config.annotations[FOLDER] = str(self._work_folder)
        pod.config.annotations[CGROUP_PARENT] = pod.config.linux.cgroup_parent
        self._plugin.uids.add(pod.config.metadata.uid)
        template, pod.containers = pod.containers, []
        lifecycle.pull(self._cri, pod, template[0], self._report_progress)
        with (
            self._stop.held()
        ):  # so that a signal cannot come before the pod is in `_pods`, which would leave it behind
            pod_id = lifecycle.run(self._cri, pod, self._report_progress)
            self._pods[pod_id] = pod
        pod.containers = template
        return pod_id

    def _create(
        self, pod: str, name: str = "", *, start: bool = True, command: Sequence[str] = (), padding: int = 0
    ) -> ProbeContainer:
        """Create and start a container, which sleeps unless `command` is set.

        `padding` is the size of an annotation.
        """
        self._count += 1
        request_of_pod = self._pods[pod]
        config = pb.ContainerConfig()
        config.CopyFrom(request_of_pod.containers[0].config)
        config.metadata.name = name or f"c{self._count}"
        config.log_path = f"{config.metadata.name}.log"
        config.annotations["of-container"] = "1"
        if padding:
            config.annotations["padding"] = "x" * padding
        if command:
            config.command[:] = command
        request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=request_of_pod.config)
        identity = self._cri.call("CreateContainer", request, _CALL_TIMEOUT_S).container_id
        if start:
            self._cri.call("StartContainer", pb.StartContainerRequest(container_id=identity), _CALL_TIMEOUT_S)
        return ProbeContainer(self._cri, self._hierarchies, identity, self._work_folder).examine()

    def _update(self, container: str) -> None:
        self._cri.call("UpdateContainerResources", _more_memory(container), _CALL_TIMEOUT_S)

    def _update_pod(self, pod: str) -> None:
        resources = pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20)
        request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod, resources=resources)
        self._cri.call("UpdatePodSandboxResources", request, _CALL_TIMEOUT_S)

    def _remove_all(self, report: Report) -> None:
        """Remove all pods, and report pods that the runtime did not remove. Signals do not interrupt it."""
        self._stop.finish()
        self._plugin.on.clear()
        for pod in list(self._pods):
            with suppress(NriError, OSError, _RuntimeGone):
                self._remove_pod_with_files(pod)
        if self._pods:
            names = ", ".join(pod.config.metadata.name for pod in self._pods.values())
            report.about["left behind"] = f"pods {names} of namespace {_NAMESPACE}; remove them with nri pod rm"

    def _remove_pod_with_files(self, pod: str) -> None:
        request = self._pods[pod]
        sandbox = pb.PodSandbox(id=pod, metadata=request.config.metadata)
        lifecycle.remove(self._cri, sandbox, str(self._work_folder / "pods"))
        del self._pods[pod]

    @contextmanager
    def _with_answer(self, event: str, wish: Callable[[SeenEvent], Any]) -> Iterator[None]:
        """Set the plugin's answer to an event for the length of the block."""
        self._plugin.on[event] = wish
        try:
            yield
        finally:
            del self._plugin.on[event]

    # -- parts ----------------------------------------------------------------------------------------------------

    def _test_life(self, section: Section) -> None:
        """Run a pod with a container from creation to removal, without answers of the plugin."""
        self._begin_case("events")
        pod = self._pod("life")
        refused = ""
        steps: list[Callable[[], None]] = [partial(self._update_pod, pod), partial(self._remove_pod_with_files, pod)]
        try:
            container = self._create(pod)
            steps[:1] = [partial(self._update, container.id), steps[0], container.remove]
        except NriError as error:
            refused = describe(error)
        for step in steps:
            with suppress(NriError):
                step()
        _becomes_true(lambda: self._plugin.of("RemovePodSandbox"))
        received_events = list(dict.fromkeys(received.event for received in self._plugin.received))
        for event in LIFE:
            section.add(event, "yes" if event in received_events else "no", "", refused if "Container" in event else "")
        expected = [event for event in LIFE if event in received_events]
        firsts = [event for event in received_events if event in expected]
        section.add("in this order", "yes" if firsts == expected else f"no, the order is {', '.join(firsts)}")

    def _reported_fields(self, section: Section) -> None:
        """Report which fields of pods and containers have a value, and the first event in which they have it."""
        first: dict[str, str] = {}
        for event, pod, container in self._plugin.received:
            for kind, message in (("pod", pod), ("container", container)):
                for path in [] if message is None else _set_field_paths(message, kind):
                    first.setdefault(path, event)
        for kind, message_type in (("pod", m.PodSandbox), ("container", m.Container)):
            for path in _field_paths(message_type.DESCRIPTOR, kind):
                section.add(path, first.get(path, "never"))

    def _test_surroundings(self, section: Section) -> None:
        """Test Configure, Synchronize and addresses. Runs the pod that the other sections use."""
        self._begin_case("the pod of the further tests")
        self._main = self._pod("main")
        timeout_ms = self._configure_recorder.message.request_timeout
        section.add("Configure has the timeouts", "yes" if timeout_ms else "no")
        if self._own_network:
            ips = [event for event in self._plugin.of("RunPodSandbox") if event.pod.ips]
            section.add("RunPodSandbox has the pod's addresses", "yes" if ips else "no")
        else:
            section.add("RunPodSandbox has the pod's addresses", "not measured: give --pod-network")
        second = ProbePlugin(EventMask.of("RemovePodSandbox"))
        second.name = "nri-conformance-2"  # type: ignore[misc]
        self._begin_case("Synchronize has the existing pods")
        with session_thread(second, self._socket, INDEX, self._timeout_s):
            synchronized = self._main in [pod.id for pod in second.initial_state[0]]
            section.add("Synchronize has the existing pods", "yes" if synchronized else "no")

    def _test_adjustments(self, section: Section) -> None:
        """Test every field that a plugin may set."""
        self._begin_case("a container without adjustments")
        pod = self._main
        (self._work_folder / "hello").write_text("hello")
        plain = _ReferenceContainer(
            self._cri, self._hierarchies, self._create(pod, "plain").id, self._work_folder
        ).examine()
        unable = {
            "cdi": "" if self._has_devices else "not measured: give --cdi-dir",
            "cgroups-path": "not measured: systemd creates the cgroups" if self._driver is Driver.SYSTEMD else "",
        }
        for name, case in CASES.items():
            self._begin_case(f"adjustment {case.text}")
            section.add(case.text, unable.get(name) or self._adjustment(pod, plain, case), case.where)

    def _adjustment(self, pod: str, plain: ProbeContainer, case: Case) -> str:
        for file in self._work_folder.glob("hook-*"):
            file.unlink()
        try:
            unadjusted = case.read(plain)
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        if unadjusted == case.effect:
            return "not measured: a container without the adjustment has the same value"
        with self._with_answer("CreateContainer", lambda event: case.adjust(event.pod)):
            try:
                container = self._create(pod, start=case.start)
            except NriError as error:
                return f"refused: {describe(error)}"
        try:
            effect = case.read(container)
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        finally:
            with suppress(NriError):
                container.remove()
        return "applied" if effect == case.effect else "ignored" if effect == unadjusted else f"read back {effect!r}"

    @contextmanager
    def _devices(self) -> Iterator[bool]:
        """Write the file of a CDI device for the length of the block, if its folder is set.

        Yields whether it is set.
        """
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

    def _test_updates(self, section: Section) -> None:
        """Test updates that the plugin requests by itself, updates that it returns, and an eviction."""
        for setter in SETTERS:
            self._case(section, f"{setter}, requested by the plugin", partial(self._update_by_itself, setter))
        for event in ("CreateContainer", "UpdateContainer", "StopContainer"):
            self._case(section, f"set_memory_limit, returned to {event}", partial(self._update_returned, event))
        self._case(section, "an eviction", lambda: self._eviction(self._create(self._main, command=_UNTIL_SIGTERM)))

    def _case(self, section: Section, name: str, measure: Callable[[], str]) -> None:
        """Add a row with the outcome of a case, or the reason why it cannot be measured."""
        self._begin_case(name)
        try:
            outcome = measure()
        except _CASE_ERRORS as error:
            outcome = f"not measured: {describe(error)}"
        section.add(name, outcome)

    def _update_by_itself(self, setter: str) -> str:
        value, *_, text = SETTERS[setter]
        container = self._create(self._main)
        update = getattr(Update(container.id), setter)(value)
        return self._cgroup_effect(container, setter, text, partial(self._request_update, update))

    def _update_returned(self, event: str) -> str:
        """The effect of an update that the plugin returns for an event."""
        container = self._create(self._main)
        changed = container if event == "UpdateContainer" else self._create(self._main)
        wish = Update(changed.id).set_memory_limit((80 if event != "StopContainer" else 72) << 20)
        text = str(wish.message.linux.resources.memory.limit.value)
        acts: dict[str, Callable[[], object]] = {
            "CreateContainer": partial(self._create, self._main),
            "UpdateContainer": partial(self._update, container.id),
            "StopContainer": container.remove,
        }
        with self._with_answer(event, _constant([wish])):
            return self._cgroup_effect(changed, "set_memory_limit", text, acts[event])

    def _request_update(self, update: Any) -> None:
        failed = self._plugin.runtime.update(update).result(_CALL_TIMEOUT_S)
        if failed:
            raise NriError("reported as failed")

    def _cgroup_effect(self, container: ProbeContainer, setter: str, text: str, act: Callable[[], object]) -> str:
        """The effect of an action on a value of a container's cgroup."""
        _, controller, v1_file, v2_file, _ = SETTERS[setter]
        try:
            before = container.cgroup(controller, v1_file, v2_file).split()[0]
            try:
                act()
            except NriError as error:
                return f"refused: {describe(error)}"
            after = container.cgroup(controller, v1_file, v2_file).split()[0]
        except (NriError, OSError, LookupError, StopIteration) as error:
            return f"not measured: {describe(error)}"
        weight = v2_file == "cpu.weight" and (row := self._hierarchies.of("cpu")) is not None and row.version == 2
        if after == text or (weight and after != before):
            return "applied"
        return "ignored" if after == before or setter == "set_memory_limit" else f"read back {after!r}"

    def _eviction(self, container: ProbeContainer) -> str:
        runtime = self._plugin.runtime
        runtime_name = runtime.name
        runtime.name = ""  # the handle does not send evictions to runtimes that are known to ignore them
        try:
            runtime.evict(container.id, "nri conformance").result(_CALL_TIMEOUT_S)
        except NriError as error:
            return f"refused: {describe(error)}"
        finally:
            runtime.name = runtime_name
        ended = _becomes_true(lambda: self._state(container.id) != pb.CONTAINER_RUNNING)
        return "applied" if ended else "ignored"

    def _state(self, container: str) -> int:
        try:
            return int(
                self._cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status.state
            )
        except NriError:
            return -1

    def _test_failures(self, section: Section) -> None:
        """Raise an error at each event, and report whether the CRI call fails, and with which text."""
        pod = self._main
        for event in (event for event in LIFE if not event.startswith("Validate")):
            self._begin_case(f"an error at {event}")
            previous_count = len(self._plugin.of(event))
            with self._with_answer(event, _refuse):
                errors = self._short_life(event, pod)
            if len(self._plugin.of(event)) == previous_count:
                section.add(event, "not measured: the runtime does not send the event")
                continue
            error = errors.get(LIFE[event], "")
            note = "" if not error or _REFUSAL in error else f"without the plugin's text: {error}"
            section.add(event, f"{LIFE[event]} fails" if error else "ignored or only logged", "", note)
        self._remove_extra(pod)

    def _short_life(self, event: str, pod: str) -> dict[str, str]:
        """Run the CRI calls up to an event. Returns the errors by call."""
        errors: dict[str, str] = {}

        def call(name: str, act: Callable[[], Any]) -> Any:
            try:
                return act()
            except NriError as error:
                errors[name] = describe(error)
                return None

        target_pod = (
            pod if "Container" in event or "Update" in event else call("RunPodSandbox", lambda: self._pod("short"))
        )
        if target_pod is None or target_pod != pod:
            if target_pod is not None and event.endswith("PodSandbox"):
                call("StopPodSandbox", lambda: self._stop_pod(target_pod))
                call("RemovePodSandbox", lambda: self._remove_pod(target_pod))
            return errors
        if "PodSandbox" in event:
            call("UpdatePodSandboxResources", lambda: self._update_pod(pod))
            return errors
        container = call("CreateContainer", lambda: self._create(pod, start=False))
        if container is not None:
            steps = {
                "StartContainer": pb.StartContainerRequest(container_id=container.id),
                "UpdateContainerResources": _more_memory(container.id),
                "StopContainer": pb.StopContainerRequest(container_id=container.id),
                "RemoveContainer": pb.RemoveContainerRequest(container_id=container.id),
            }
            for name, request in steps.items():
                call(name, partial(self._cri.call, name, request, _CALL_TIMEOUT_S))
        return errors

    def _stop_pod(self, pod: str) -> None:
        self._cri.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod), _CALL_TIMEOUT_S)

    def _remove_pod(self, pod: str) -> None:
        self._cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod), _CALL_TIMEOUT_S)

    def _remove_extra(self, main_pod: str) -> None:
        for pod in [pod for pod in self._pods if pod != main_pod]:
            with suppress(NriError, OSError):
                self._remove_pod_with_files(pod)

    def _test_late_plugins(self, section: Section) -> None:
        """Test a validator that refuses, and plugins that do not answer in time."""
        pod = self._main
        self._begin_case("a validator that refuses")
        if self._plugin.of("ValidateContainerAdjustment"):
            with self._with_answer("ValidateContainerAdjustment", _reject):
                section.add("a validator refuses a container: the creation", *self._creation(pod))
        else:
            section.add(
                "a validator refuses a container: the creation", "not measured: the runtime does not send the event"
            )
        for title, plugin in (
            ("late, without a failure policy", ProbePlugin),
            ("late, with fail_request and keep_connected", LatePlugin),
        ):
            self._begin_case(f"a plugin that is {title}")
            try:
                self._measure_late(section, pod, title, plugin(EventMask.of("CreateContainer")))
            except _CASE_ERRORS as error:
                section.add(f"{title}: the plugin", f"not measured: {describe(error)}")
        self._begin_case("a plugin that is late in Synchronize")
        late, title = LateAtFirst(partial(self._creation, pod)), "late in Synchronize"
        late.uids = {self._pods[pod].config.metadata.uid}
        outcome = "is disconnected"
        with (
            suppress(NriError),
            session_thread(late, self._socket, INDEX[0] + "7", self._timeout_s + 2 * _CALL_TIMEOUT_S) as thread,
        ):
            thread.join(_EVENT_TIMEOUT_S)
            if thread.is_alive():
                late.received.clear()
                self._creation(pod)
                outcome = "stays connected" + ("" if _becomes_true(lambda: late.received) else ", without events")
        if late.meanwhile is None:
            section.add(f"{title}: the plugin", "not measured: the runtime does not send Synchronize")
            return
        section.add(f"{title}: a creation at the same time", *late.meanwhile)
        section.add(f"{title}: the plugin", outcome)

    def _test_large_state(self, section: Section) -> None:
        """Test a state that is larger than one message."""
        for name in _PRE_INSTALLED:
            section.add(name, _NOT_MEASURED)
        pod = self._main
        title = "Synchronize of more than 4 MiB is sent in parts"
        self._begin_case("a Synchronize of more than 4 MiB")
        try:
            # In several pods, because containerd 2.1 to 2.4 send empty messages without end for a single pod.
            pods = [pod, *(self._pod(f"large{n}") for n in range(_LARGE_PODS))]
            created = {
                self._create(pods[n % len(pods)], f"large{n}", start=False, padding=_PADDING_BYTES).id
                for n in range(_LARGE_CONTAINERS)
            }
        except _CASE_ERRORS as error:
            section.add(title, f"not measured: {describe(error)}")
            return
        plugin = ProbePlugin(EventMask.of("RemovePodSandbox"))
        try:
            with session_thread(plugin, self._socket, INDEX[0] + "8", self._timeout_s):
                reported = created.intersection(container.id for container in plugin.initial_state[1])
        except NriError as error:
            section.add(title, "no", "", describe(error))
            return
        section.add(title, "yes" if reported == created else f"no, only {len(reported)} of {len(created)} containers")

    def _measure_late(self, section: Section, pod: str, title: str, plugin: ProbePlugin) -> None:
        plugin.uids = {self._pods[pod].config.metadata.uid}
        is_over = threading.Event()
        with session_thread(plugin, self._socket, INDEX[0] + "6", self._timeout_s) as thread:
            plugin.on["CreateContainer"] = lambda _: is_over.wait(plugin.runtime.request_timeout_s * 2 + 10.0) and None
            section.add(f"{title}: the creation", *self._creation(pod))
            is_over.set()
            thread.join(_EVENT_TIMEOUT_S)
            section.add(f"{title}: the plugin", "stays connected" if thread.is_alive() else "is disconnected")

    def _creation(self, pod: str) -> tuple[str, str, str]:
        """The outcome of a creation, with the error as a note."""
        try:
            container = self._create(pod)
        except NriError as error:
            return "fails", "", describe(error)
        with suppress(NriError):
            container.remove()
        return "succeeds", "", ""


def _more_memory(container: str) -> pb.UpdateContainerResourcesRequest:
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20)
    return pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)


def _constant(answer: Any) -> Callable[[SeenEvent], Any]:
    """A function that returns the same answer for every event."""
    return lambda _: answer


def _refuse(_: SeenEvent) -> None:
    raise NriError(_REFUSAL)


def _reject(_: SeenEvent) -> None:
    raise Reject(_REFUSAL)


def _becomes_true(holds: Callable[[], object]) -> bool:
    """Whether a condition becomes true before the timeout."""
    deadline = time.monotonic() + _EVENT_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _field_paths(descriptor: Any, path: str, depth: int = 2) -> Iterator[str]:
    """The paths of the fields of a message and of nested messages, two levels deep."""
    for field in descriptor.fields:
        below = f"{path}.{field.name}"
        nested = field.message_type
        if nested is None or field.is_repeated or not depth or nested.name.startswith("Optional"):
            yield below
        else:
            yield from _field_paths(nested, below, depth - 1)


def _set_field_paths(message: Any, path: str, depth: int = 2) -> Iterator[str]:
    """The paths of the fields that have a value in a message; see `_field_paths`."""
    for field, value in message.ListFields():
        below = f"{path}.{field.name}"
        nested = field.message_type
        if nested is None or field.is_repeated or not depth or nested.name.startswith("Optional"):
            yield below
        else:
            yield from _set_field_paths(value, below, depth - 1)
