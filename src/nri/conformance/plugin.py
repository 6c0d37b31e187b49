"""Test a plugin in any language against this package's runtime side.

Each check has its own runtime and process, so that a failure does not affect the next check. A plugin may refuse
requests, but it must not fail, hang, request changes of unknown containers, or keep running without a runtime.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.launch import PluginFile, Process, StderrTail
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.api.naming import REGISTRATION_TIMEOUT_S
from nri.config import Source, read_file
from nri.conformance.report import Report, Section
from nri.errors import LATE, ConfigError, NriError, PluginError, RpcError, ValidationRejected, describe
from nri.metrics import Observer
from nri.oci import Generator, validate
from nri.testing import FakeRuntime, make_container, make_pod
from nri.testing.trial.plugins import name_in
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SOCKET: Final = "{socket}"
_INDEX: Final = "50"
#: How long a program may take to end, in seconds.
END_TIMEOUT_S = 5.0
#: The number of events in a burst.
_BURST = 200
#: The bytes of padding per container in the large state.
_PADDING = 60_000
_POLL_S = 0.02
_READ_BYTES: Final = 1 << 16
#: The events that a plugin can refuse with an error.
_REFUSABLE: Final = ("RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox")
#: A field with the number 15000, which no version defines, as a newer runtime may send.
_UNKNOWN_FIELD: Final = b"\xc2\xd4\x07\x03new"


class Candidate(NamedTuple):
    """The tested program: its command line, its configuration, and how long it may take to answer, in seconds."""

    words: tuple[str, ...]
    config: Source | None
    timeout_s: float

    @property
    def external(self) -> bool:
        """Whether the program connects by itself."""
        return any(SOCKET in word for word in self.words)


class _Notes(Observer):
    """An observer that collects the plugin's failures."""

    __slots__ = ("failures", "left_out")

    def __init__(self) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.left_out: list[str] = []

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:  # noqa: ARG002
        """Store errors and missing answers."""
        if error is not None:
            self.failures.append((operation, error))

    def record_left_out(self, plugin: str, operation: str) -> None:  # noqa: ARG002
        """Store a request for an unknown container."""
        self.left_out.append(operation)


class _RunningPlugin(NamedTuple):
    """A runtime with the connected program. `pid` is the program's process; `ended` returns whether it has ended."""

    runtime: FakeRuntime
    notes: _Notes
    pid: int
    ended: Callable[[], bool]

    @property
    def health(self) -> Any:
        """The plugin's health in the runtime."""
        return self.runtime.plugins[-1]


def candidate(words: Sequence[str], config: str | None, timeout_s: float) -> Candidate:
    """Parse a command line. A Python file is run by `nri run`. Raises ConfigError if the program does not exist."""
    program = words[0]
    if len(words) == 1 and program.endswith(".py") and os.path.isfile(program) and not os.access(program, os.X_OK):
        words = [sys.executable, "-m", "nri", "run", program, "--socket-path", SOCKET, "--no-reconnect"]
    elif not any(SOCKET in word for word in words):
        if len(words) > 1:
            step = f"write {SOCKET} in place of the socket's path, or omit the arguments to start an installed plugin"
            raise ConfigError(str(" ".join(words)), "", f"the arguments do not contain the runtime's socket: {step}")
        if not (os.path.isfile(program) and os.access(program, os.X_OK)):
            path = shutil.which(program)
            step = f"write the program's path, {path}" if path else "specify an executable file"
            raise ConfigError(str(program), "", f"not an executable program: {step}")
    return Candidate(tuple(words), read_file(config) if config else None, timeout_s)


@contextmanager
def _run_plugin(subject: Candidate, **options: Any) -> Iterator[_RunningPlugin]:
    """Run the program, connected to a runtime, for the length of the block. Raises NriError if it does not connect."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="nri-conformance-", dir="/tmp"))
        path = os.path.join(folder, "nri.sock")
        notes = _Notes()
        more: dict[str, Any] = {"socket_path": path} if subject.external else {}
        runtime = FakeRuntime(
            name="nri-conformance", request_timeout_s=subject.timeout_s, observer=notes, **more, **options
        )
        stack.callback(runtime.close)
        pid, ended, words = (
            _start_external(subject, path, stack) if subject.external else _start_installed(subject, runtime, stack)
        )
        deadline = time.monotonic() + REGISTRATION_TIMEOUT_S * 2
        while not (runtime.plugins and runtime.adaptation.ready([runtime.plugins[-1].plugin], _POLL_S, settled=True)):
            if ended() or time.monotonic() > deadline:
                state = runtime.plugins[-1].last_error if runtime.plugins else ""
                why = state or ("the program has ended" if ended() else "the program never registered")
                raise NriError(f"{why}: {words() or 'start it by hand to see its output'}")
            time.sleep(_POLL_S)
        yield _RunningPlugin(runtime, notes, pid, ended)


_Started = tuple[int, "Callable[[], bool]", "Callable[[], str]"]


def _start_installed(subject: Candidate, runtime: FakeRuntime, stack: ExitStack) -> _Started:
    """Start the program as a runtime starts installed plugins."""
    program = subject.words[0]
    index_match = re.match(r"[0-9]{2}(?=-.)", os.path.basename(program))
    index = index_match[0] if index_match else _INDEX
    process = Process(PluginFile(os.path.abspath(program), index, name_in(program) or os.path.basename(program)))
    waiter = threading.Thread(target=process.wait, args=(lambda: 1.0,), name="nri-conformance", daemon=True)
    waiter.start()
    stack.callback(waiter.join, END_TIMEOUT_S)
    stack.callback(process.kill)
    runtime.adaptation.connect(process.socket, "" if subject.config is None else subject.config.text)
    return process.pid, lambda: not waiter.is_alive(), lambda: process.last_words


def _start_external(subject: Candidate, path: str, stack: ExitStack) -> _Started:
    """Start the program with the path of the runtime's socket in its arguments."""
    argv, output = [word.replace(SOCKET, path) for word in subject.words], StderrTail()
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's command line, without a shell
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=write_end
        )
    except OSError as error:
        os.close(read_end)
        raise ConfigError(str(argv[0]), "", f"cannot be run: {error.strerror}") from None
    finally:
        os.close(write_end)
    stack.callback(process.wait)
    stack.callback(process.kill)

    def listen() -> None:
        with open(read_end, "rb", buffering=0) as stream:
            while data := stream.read(_READ_BYTES):
                output.add(data)

    def last_words() -> str:
        listener.join(1.0)  # a timeout, because a child process may keep the pipe open
        return output.text

    listener = threading.Thread(target=listen, name="nri-conformance", daemon=True)
    listener.start()
    return process.pid, lambda: process.poll() is not None, last_words


# -- checks ---------------------------------------------------------------------------------------------------------


def examine(subject: Candidate, report_progress: Callable[[str], None]) -> Report:
    """Run all checks. Raises NriError if the plugin never becomes active."""
    report = Report("How this plugin behaves")
    with _run_plugin(subject) as running:
        health = running.health
        report.about.update({"plugin": health.plugin, "protocol": health.nri_version or "not reported"})
        report.about["events"] = health.events.replace(",", ", ") or "none"
        report.section("Connecting").add("registers and is synchronized", "ok")
        subscribed = set(health.events.split(","))
    joining = report.sections[0]
    _scenario(
        joining,
        "accepts a state of more than 4 MiB, in parts",
        subject,
        report_progress,
        lambda _: None,
        **_large_state(),
    )
    events = report.section("Events")
    for spec in EVENTS:
        if spec.rpc in subscribed and spec.kind != "validation":
            _scenario(events, spec.rpc, subject, report_progress, partial(_measure_event, spec.method))
    answers = report.section("Answers")
    for name, check in _ANSWERS.items():
        _scenario(answers, name, subject, report_progress, check)
    unexpected = report.section("Unusual requests")
    for name, (pod, container) in _unusual_messages().items():
        _scenario(unexpected, name, subject, report_progress, partial(_send_life, pod, container))
    for name, check in _UNEXPECTED.items():
        _scenario(unexpected, name, subject, report_progress, check)
    _check_end(report.section("The end"), subject, report_progress)
    return report


def _scenario(
    section: Section, name: str, subject: Candidate, report_progress: Callable[[str], None],
    check: Callable[[_RunningPlugin], str | None], **options: Any,
) -> None:  # fmt: skip
    """Run a check with its own runtime, and add its outcome, or its failure, to the section."""
    report_progress(name)
    note = ""
    try:
        with _run_plugin(subject, **options) as running:
            try:
                result = check(running) or "ok"
            except NriError as error:
                result, note = "wrong", describe(error)
            if running.ended() or running.health.state == "gone":
                result, note = "wrong", f"the connection ended: {running.health.last_error or 'closed by the plugin'}"
            elif result.startswith("ok") and running.notes.failures:
                result, note = _failure_outcome(*running.notes.failures[0])
    except NriError as error:
        result, note = "wrong", f"the plugin does not connect: {error}"
    outcome, _, detail = result.partition(": ")
    section.add(name, outcome, "", note or detail)


def _failure_outcome(event: str, error: BaseException) -> tuple[str, str]:
    """The outcome and the note for an event that was not answered, or that failed."""
    if isinstance(error, LATE):
        return "wrong", f"{event}: no answer in time"
    if isinstance(error, RpcError) and event in _REFUSABLE:
        return "refuses", f"{event}: {describe(error)}"
    step = "; this event cannot be refused" if isinstance(error, RpcError) else ""
    return "wrong", f"{event}: {describe(error)}{step}"


def _typical_messages() -> tuple[m.PodSandbox, m.Container]:
    """A typical pod and container."""
    pod = make_pod(name="web", namespace="shop", labels={"app": "web"}, annotations={"example.org/a": "b"})
    pod.linux.cgroup_parent = "/kubepods/burstable/podweb"
    container = make_container(
        name="app",
        pod=pod,
        env={"A": "1"},
        args=["sleep", "9"],
        cpu_shares=512,
        cpu_quota=50_000,
        memory_limit=64 << 20,
    )
    container.mounts.add(destination="/data", source="/srv", type="bind", options=["rbind", "ro"])
    return pod, container


def _measure_event(method: str, running: _RunningPlugin) -> str:
    """Send an event. Returns how long it took."""
    pod, container = _typical_messages()
    runtime = running.runtime
    began = time.monotonic()
    _send_event(runtime, method, pod, container)
    return f"ok: {(time.monotonic() - began) * 1000:.1f} ms"


def _send_event(runtime: FakeRuntime, method: str, pod: m.PodSandbox, container: m.Container) -> Any:
    """Send an event. A refusal is not a fault."""
    about: tuple[Any, ...] = (pod,) if "pod_sandbox" in method else (pod, container)
    if method == "update_container":
        about = (pod, container, m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=600))))
    with suppress(PluginError, ValidationRejected):
        return getattr(runtime, method)(*about)
    return None


_LIFE: Final = (
    "run_pod_sandbox", "create_container", "post_create_container", "start_container", "post_start_container",
    "update_container", "post_update_container", "update_pod_sandbox", "post_update_pod_sandbox", "stop_container",
    "remove_container", "stop_pod_sandbox", "remove_pod_sandbox",
)  # fmt: skip


def _send_life(pod: m.PodSandbox, container: m.Container, running: _RunningPlugin) -> None:
    """Send all events of a pod with a container, in order."""
    for method in _LIFE:
        _send_event(running.runtime, method, pod, container)


def _large_state() -> dict[str, Any]:
    pod = make_pod()
    containers = [make_container(name=f"c{n}", pod=pod, annotations={"padding": "x" * _PADDING}) for n in range(100)]
    return {"pods": [pod], "containers": containers}


def _unusual_messages() -> dict[str, tuple[m.PodSandbox, m.Container]]:
    """Pods and containers that runtimes may send, but plugins often do not expect."""
    pod, container = _typical_messages()
    newer = (m.PodSandbox.FromString(pod.SerializeToString() + _UNKNOWN_FIELD),
             m.Container.FromString(container.SerializeToString() + _UNKNOWN_FIELD))  # fmt: skip
    texts, inside = _typical_messages()
    for message in (texts, inside):
        message.name = "naïve-\u4f60\u597d-\U0001f600"
        message.annotations.update({f"example.org/{n}": "\u00fc" * 500 for n in range(300)})
    return {
        "a pod and a container with only ids": (
            m.PodSandbox(id="pod-bare"),
            m.Container(id="container-bare", pod_sandbox_id="pod-bare"),
        ),
        "fields of a newer version": newer,
        "long texts in other scripts, 300 annotations": (texts, inside),
    }


def _send_unknown_ends(running: _RunningPlugin) -> None:
    """Send the last events of an unknown pod and container, twice."""
    pod, container = _typical_messages()
    for _ in range(2):
        for method in ("stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"):
            _send_event(running.runtime, method, pod, container)


def _send_burst(running: _RunningPlugin) -> str:
    """Send the creations of many containers. Returns the slowest answer."""
    slowest = 0.0
    pod, _ = _typical_messages()
    for _ in range(_BURST):
        container = _typical_messages()[1]
        began = time.monotonic()
        _send_event(running.runtime, "create_container", pod, container)
        slowest = max(slowest, time.monotonic() - began)
        _send_event(running.runtime, "remove_container", pod, container)
    return f"ok: the slowest creation took {slowest * 1000:.1f} ms"


def _check_adjustment(running: _RunningPlugin) -> str:
    """Check that the plugin's adjustment results in a valid OCI spec."""
    pod, container = _typical_messages()
    reply = _send_event(running.runtime, "create_container", pod, container)
    if reply is None:
        return "refuses: the plugin refuses the container"
    spec = {"ociVersion": "1.2.0", "process": {"args": ["sleep", "9"], "cwd": "/", "env": ["A=1"]},
            "root": {"path": "rootfs"}, "linux": {"resources": {}, "namespaces": [{"type": "pid"}]}}  # fmt: skip
    anything: Callable[..., Any] = lambda spec_part, *_: spec_part  # noqa: E731 - classes and devices depend on the machine
    adjusted = Generator(spec, cdi=anything, blockio=lambda _: {}, rdt=lambda _: {}).adjust(reply.message)
    problems = validate(adjusted)
    return f"wrong: {problems[0]}" if problems else "ok"


def _check_repeatable(running: _RunningPlugin) -> str:
    """Check that the plugin gives the same answer to the same request."""
    pod, container = _typical_messages()
    copy = m.Container()
    copy.CopyFrom(container)
    first = _send_event(running.runtime, "create_container", pod, container)
    _send_event(running.runtime, "remove_container", pod, container)
    second = _send_event(running.runtime, "create_container", pod, copy)
    if first is None or second is None:
        return "refuses: the plugin refuses the container"
    same = first.message == second.message
    return "ok" if same else "differs: a repeated creation gets another answer"


def _check_requested_containers(running: _RunningPlugin) -> str:
    """Check that the plugin updates and evicts only existing containers."""
    pod, container = _typical_messages()
    for method in ("run_pod_sandbox", "create_container", "start_container", "update_container", "stop_container"):
        _send_event(running.runtime, method, pod, container)
    left_out = running.notes.left_out
    return (
        f"wrong: {count(len(left_out), 'update')} of a container that does not exist, in {left_out[0]}"
        if left_out
        else "ok"
    )


_ANSWERS: Final[dict[str, Callable[[_RunningPlugin], str | None]]] = {
    "the adjustment results in a valid OCI spec": _check_adjustment,
    "the same request gets the same answer": _check_repeatable,
    "updates only existing containers": _check_requested_containers,
}
_UNEXPECTED: Final[dict[str, Callable[[_RunningPlugin], str | None]]] = {
    "the end of unknown pods, twice": _send_unknown_ends,
    f"{_BURST} containers one after the other": _send_burst,
}


def _check_end(section: Section, subject: Candidate, report_progress: Callable[[str], None]) -> None:
    """Check that the program ends when the runtime stops, and at SIGTERM."""
    report_progress("the end")
    for name, act in (
        ("the runtime stops", lambda running: running.runtime.adaptation.stop()),
        ("SIGTERM", lambda running: os.kill(running.pid, signal.SIGTERM)),
    ):
        try:
            with _run_plugin(subject) as running:
                with suppress(ProcessLookupError):  # the program may just have ended
                    act(running)
                deadline = time.monotonic() + END_TIMEOUT_S
                while not running.ended() and time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                if running.ended():
                    section.add(name, "ok", "", "the program ends")
                elif subject.external and name != "SIGTERM":
                    section.add(name, "ok", "", "the program keeps running, to reconnect")
                else:
                    section.add(name, "wrong", "", f"the program still runs after {END_TIMEOUT_S:g} s")
        except NriError as error:
            section.add(name, "wrong", "", f"the plugin does not connect: {error}")
