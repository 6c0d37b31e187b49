"""A plugin in any language, put before our adaptation and told what it does wrong.

Each check has a runtime and a process of its own, so that what one breaks does not count in the next. A program of one
word is started as a runtime starts an installed plugin; one with `{socket}` among its words connects by itself. Rules:
a plugin may refuse what it is asked, but not break, hang, ask for what cannot be, or run on without a runtime. Next:
`nri.testing.trial.trial`, which starts the first kind.
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

__all__ = ["SOCKET", "Candidate", "candidate", "examine"]

SOCKET: Final = "{socket}"
_INDEX: Final = "50"
#: How long a program has to end, in seconds.
ENDS_S = 5.0
#: How many events come in a row; how large the state is that comes in parts.
_BURST, _PADDING = 200, 60_000
_LOOK_S = 0.02
_PIECE: Final = 1 << 16
#: The events at which an error is a refusal that counts.
_REFUSABLE: Final = ("RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox")
#: A field that no version has, with the number 15000, as a newer runtime may send one.
_FUTURE: Final = b"\xc2\xd4\x07\x03new"


class Candidate(NamedTuple):
    """The program that is examined: its words, its configuration, and how long it may take to answer, in seconds."""

    words: tuple[str, ...]
    config: Source | None
    timeout_s: float

    @property
    def external(self) -> bool:
        """Whether it connects by itself."""
        return any(SOCKET in word for word in self.words)


class _Notes(Observer):
    """The plugin as its runtime sees it."""

    __slots__ = ("failures", "left_out")

    def __init__(self) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.left_out: list[str] = []

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:  # noqa: ARG002
        """Keep what was no answer, and an error that it answered."""
        if error is not None:
            self.failures.append((operation, error))

    def record_left_out(self, plugin: str, operation: str) -> None:  # noqa: ARG002
        """Keep that it asked for something of a container that is not there."""
        self.left_out.append(operation)


class _Running(NamedTuple):
    """A runtime with the program in it: `pid` is the program's, `ended` tells whether it has ended."""

    runtime: FakeRuntime
    notes: _Notes
    pid: int
    ended: Callable[[], bool]

    @property
    def health(self) -> Any:
        """The plugin as the runtime sees it."""
        return self.runtime.plugins[-1]


def candidate(words: Sequence[str], config: str | None, timeout_s: float) -> Candidate:
    """Read a command line; a Python file is run by `nri run`. ConfigError if there is no such program."""
    program = words[0]
    if len(words) == 1 and program.endswith(".py") and os.path.isfile(program) and not os.access(program, os.X_OK):
        words = [sys.executable, "-m", "nri", "run", program, "--socket-path", SOCKET, "--no-reconnect"]
    elif not any(SOCKET in word for word in words):
        if len(words) > 1:
            step = (
                f"write {SOCKET} where its socket's path is to be; a program of one word is started as installed ones"
            )
            raise ConfigError(str(" ".join(words)), "", f"how does it find the runtime? {step}")
        if not (os.path.isfile(program) and os.access(program, os.X_OK)):
            path = shutil.which(program)
            step = f"write its path: {path}" if path else "name a file that may be executed"
            raise ConfigError(str(program), "", f"no program that can be run; {step}")
    return Candidate(tuple(words), read_file(config) if config else None, timeout_s)


@contextmanager
def _running(one: Candidate, **options: Any) -> Iterator[_Running]:
    """Have the program take part in a runtime while the block lasts. NriError if it does not."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="nri-conformance-", dir="/tmp"))
        path = os.path.join(folder, "nri.sock")
        notes = _Notes()
        more: dict[str, Any] = {"socket_path": path} if one.external else {}
        runtime = FakeRuntime(
            name="nri-conformance", request_timeout_s=one.timeout_s, observer=notes, **more, **options
        )
        stack.callback(runtime.close)
        pid, ended, words = _connecting(one, path, stack) if one.external else _installed(one, runtime, stack)
        until = time.monotonic() + REGISTRATION_TIMEOUT_S * 2
        while not (runtime.plugins and runtime.adaptation.ready([runtime.plugins[-1].plugin], _LOOK_S, settled=True)):
            if ended() or time.monotonic() > until:
                state = runtime.plugins[-1].last_error if runtime.plugins else ""
                why = state or ("it has ended" if ended() else "it never registered")
                raise NriError(f"{why}: {words() or 'start it by hand to see what it says'}")
            time.sleep(_LOOK_S)
        yield _Running(runtime, notes, pid, ended)


_Begun = tuple[int, "Callable[[], bool]", "Callable[[], str]"]


def _installed(one: Candidate, runtime: FakeRuntime, stack: ExitStack) -> _Begun:
    """Start it as a runtime starts installed plugins."""
    program = one.words[0]
    own = re.match(r"[0-9]{2}(?=-.)", os.path.basename(program))
    index = own[0] if own else _INDEX
    process = Process(PluginFile(os.path.abspath(program), index, name_in(program) or os.path.basename(program)))
    waiter = threading.Thread(target=process.wait, args=(lambda: 1.0,), name="nri-conformance", daemon=True)
    waiter.start()
    stack.callback(waiter.join, ENDS_S)
    stack.callback(process.kill)
    runtime.adaptation.connect(process.socket, "" if one.config is None else one.config.text)
    return process.pid, lambda: not waiter.is_alive(), lambda: process.last_words


def _connecting(one: Candidate, path: str, stack: ExitStack) -> _Begun:
    """Start it with the path of our socket among its words."""
    words, heard = [word.replace(SOCKET, path) for word in one.words], StderrTail()
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - the words of the person who runs this; no shell reads them
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs
        )
    except OSError as error:
        os.close(ours)
        raise ConfigError(str(words[0]), "", f"cannot be run: {error.strerror}") from None
    finally:
        os.close(theirs)
    stack.callback(process.wait)
    stack.callback(process.kill)

    def listen() -> None:
        with open(ours, "rb", buffering=0) as stream:
            while data := stream.read(_PIECE):
                heard.add(data)

    def last_words() -> str:
        listener.join(1.0)  # what it started may run on, and hold the pipe
        return heard.text

    listener = threading.Thread(target=listen, name="nri-conformance", daemon=True)
    listener.start()
    return process.pid, lambda: process.poll() is not None, last_words


# -- what is checked ------------------------------------------------------------------------------------------------


def examine(one: Candidate, say: Callable[[str], None]) -> Report:
    """Examine a plugin. NriError if it never takes part."""
    report = Report("How this plugin behaves")
    with _running(one) as running:
        health = running.health
        report.about.update({"plugin": health.plugin, "protocol": health.nri_version or "not told"})
        report.about["events"] = health.events.replace(",", ", ") or "none"
        report.section("Joining").add("takes part", "ok")
        wanted = set(health.events.split(","))
    joining = report.sections[0]
    _scenario(joining, "takes a state of more than 4 MiB, in parts", one, say, lambda _: None, **_large_state())
    events = report.section("Events")
    for spec in EVENTS:
        if spec.rpc in wanted and spec.kind != "validation":
            _scenario(events, spec.rpc, one, say, partial(_ask, spec.method))
    answers = report.section("Answers")
    for name, check in _ANSWERS.items():
        _scenario(answers, name, one, say, check)
    others = report.section("What it does not expect")
    for name, (pod, container) in _strange().items():
        _scenario(others, name, one, say, partial(_life, pod, container))
    for name, check in _ODD.items():
        _scenario(others, name, one, say, check)
    _ends(report.section("The end"), one, say)
    return report


def _scenario(
    section: Section, name: str, one: Candidate, say: Callable[[str], None], check: Callable[[_Running], str | None],
    **options: Any,
) -> None:  # fmt: skip
    """Run a check in a runtime of its own; its outcome is what it returns, or what it breaks with."""
    say(name)
    note = ""
    try:
        with _running(one, **options) as running:
            try:
                found = check(running) or "ok"
            except NriError as error:
                found, note = "wrong", describe(error)
            if running.ended() or running.health.state == "gone":
                found, note = "wrong", f"its connection has ended: {running.health.last_error or 'it has left'}"
            elif found.startswith("ok") and running.notes.failures:
                found, note = _judged(*running.notes.failures[0])
    except NriError as error:
        found, note = "wrong", f"it does not take part: {error}"
    outcome, _, rest = found.partition(": ")
    section.add(name, outcome, "", note or rest)


def _judged(event: str, error: BaseException) -> tuple[str, str]:
    """The outcome and the note for an event that got no answer, or an error."""
    if isinstance(error, LATE):
        return "wrong", f"{event}: no answer in time"
    if isinstance(error, RpcError) and event in _REFUSABLE:
        return "refuses", f"{event}: {describe(error)}"
    step = "; nothing can be refused there" if isinstance(error, RpcError) else ""
    return "wrong", f"{event}: {describe(error)}{step}"


def _subject() -> tuple[m.PodSandbox, m.Container]:
    """A pod and a container as they are."""
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


def _ask(method: str, running: _Running) -> str:
    """Bring one event, and tell how long it took."""
    pod, container = _subject()
    runtime = running.runtime
    began = time.monotonic()
    _event(runtime, method, pod, container)
    return f"ok: {(time.monotonic() - began) * 1000:.1f} ms"


def _event(runtime: FakeRuntime, method: str, pod: m.PodSandbox, container: m.Container) -> Any:
    """Bring an event; a refusal is the plugin's right."""
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


def _life(pod: m.PodSandbox, container: m.Container, running: _Running) -> None:
    """A whole life of a pod with a container."""
    for method in _LIFE:
        _event(running.runtime, method, pod, container)


def _large_state() -> dict[str, Any]:
    pod = make_pod()
    containers = [make_container(name=f"c{n}", pod=pod, annotations={"padding": "x" * _PADDING}) for n in range(100)]
    return {"pods": [pod], "containers": containers}


def _strange() -> dict[str, tuple[m.PodSandbox, m.Container]]:
    """Pods and containers that a runtime may send, and that plugins forget."""
    pod, container = _subject()
    newer = (m.PodSandbox.FromString(pod.SerializeToString() + _FUTURE),
             m.Container.FromString(container.SerializeToString() + _FUTURE))  # fmt: skip
    texts, inside = _subject()
    for message in (texts, inside):
        message.name = "naïve-\u4f60\u597d-\U0001f600"
        message.annotations.update({f"example.org/{n}": "\u00fc" * 500 for n in range(300)})
    return {
        "a pod and a container with nothing but ids": (
            m.PodSandbox(id="pod-bare"),
            m.Container(id="container-bare", pod_sandbox_id="pod-bare"),
        ),
        "fields of a newer version": newer,
        "long texts in other scripts, 300 annotations": (texts, inside),
    }


def _unknown(running: _Running) -> None:
    """Ends of what it was never told of, twice."""
    pod, container = _subject()
    for _ in range(2):
        for method in ("stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"):
            _event(running.runtime, method, pod, container)


def _burst(running: _Running) -> str:
    """Many containers one after the other; the slowest answer counts."""
    slowest = 0.0
    pod, _ = _subject()
    for _ in range(_BURST):
        container = _subject()[1]
        began = time.monotonic()
        _event(running.runtime, "create_container", pod, container)
        slowest = max(slowest, time.monotonic() - began)
        _event(running.runtime, "remove_container", pod, container)
    return f"ok: the slowest creation took {slowest * 1000:.1f} ms"


def _adjusts(running: _Running) -> str:
    """Whether its adjustment makes a valid OCI spec."""
    pod, container = _subject()
    made = _event(running.runtime, "create_container", pod, container)
    if made is None:
        return "refuses: it refuses the container"
    spec = {"ociVersion": "1.2.0", "process": {"args": ["sleep", "9"], "cwd": "/", "env": ["A=1"]},
            "root": {"path": "rootfs"}, "linux": {"resources": {}, "namespaces": [{"type": "pid"}]}}  # fmt: skip
    anything: Callable[..., Any] = lambda given, *_: given  # noqa: E731 - classes and devices are the machine's
    adjusted = Generator(spec, cdi=anything, blockio=lambda _: {}, rdt=lambda _: {}).adjust(made.message)
    problems = validate(adjusted)
    return f"wrong: {problems[0]}" if problems else "ok"


def _again(running: _Running) -> str:
    """Whether it answers the same to the same."""
    pod, container = _subject()
    copy = m.Container()
    copy.CopyFrom(container)
    first = _event(running.runtime, "create_container", pod, container)
    _event(running.runtime, "remove_container", pod, container)
    second = _event(running.runtime, "create_container", pod, copy)
    if first is None or second is None:
        return "refuses: it refuses the container"
    same = first.message == second.message
    return "ok" if same else "differs: a creation that is tried again gets another answer"


def _asks_for(running: _Running) -> str:
    """Whether it asks only for containers that there are."""
    pod, container = _subject()
    for method in ("run_pod_sandbox", "create_container", "start_container", "update_container", "stop_container"):
        _event(running.runtime, method, pod, container)
    left_out = running.notes.left_out
    return (
        f"wrong: {count(len(left_out), 'update')} of a container that is not there, at {left_out[0]}"
        if left_out
        else "ok"
    )


_ANSWERS: Final[dict[str, Callable[[_Running], str | None]]] = {
    "its adjustment makes a valid OCI spec": _adjusts,
    "the same question gets the same answer": _again,
    "it asks only for containers that there are": _asks_for,
}
_ODD: Final[dict[str, Callable[[_Running], str | None]]] = {
    "ends of pods that it was never told of, twice": _unknown,
    f"{_BURST} containers one after the other": _burst,
}


def _ends(section: Section, one: Candidate, say: Callable[[str], None]) -> None:
    """Whether it ends when the runtime goes, and at SIGTERM."""
    say("the end")
    for name, act in (
        ("the runtime goes away", lambda running: running.runtime.adaptation.stop()),
        ("SIGTERM", lambda running: os.kill(running.pid, signal.SIGTERM)),
    ):
        try:
            with _running(one) as running:
                with suppress(ProcessLookupError):  # it ends by itself in this moment
                    act(running)
                until = time.monotonic() + ENDS_S
                while not running.ended() and time.monotonic() < until:
                    time.sleep(_LOOK_S)
                if running.ended():
                    section.add(name, "ok", "", "it ends")
                elif one.external and name != "SIGTERM":
                    section.add(name, "ok", "", "it runs on, to connect again")
                else:
                    section.add(name, "wrong", "", f"it still runs after {ENDS_S:g} s, without a runtime")
        except NriError as error:
            section.add(name, "wrong", "", f"it does not take part: {error}")
