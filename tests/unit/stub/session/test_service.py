"""Requests and replies of a session: statuses, refusals, and the reply to Configure."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time

import pytest

import nri
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.stub.session.service import unwrap
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import CONTAINER, CREATE, POD, START, Names, creates


def test_the_failure_policy_is_declared() -> None:
    class Strict(Names):
        failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)

    with plugin_thread(Strict()) as running:
        policy = running.runtime.begin().failure_policy
        assert policy.fail_request and policy.keep_connected


def test_by_default_no_failure_policy_is_declared() -> None:
    with plugin_thread(Names()) as running:
        assert not running.runtime.begin().HasField("failure_policy")


class Unready(Exception): ...


@pytest.mark.parametrize("method", ["configure", "synchronize"])
@pytest.mark.parametrize("error", [Unready("no API server yet"), nri.Reject("no API server yet")])
def test_an_exception_of_configure_or_synchronize_is_logged_and_ends_the_session(
    method: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise error

    with plugin_thread(type("Flaky", (Names,), {method: fail})(), name="flaky") as running:
        running.runtime.register()
        response = running.runtime.configure()
        if method == "synchronize":
            response = running.runtime.call("Synchronize", m.SynchronizeRequest())
        assert response.code and response.message.startswith("plugin 10-flaky") and "no API server" in response.message
        running.runtime.close()
        assert running.ended() is error
    assert running.session.fatal is None, "the plugin may connect again"
    assert running.session.failure == f"{method} failed: {type(error).__name__}: no API server yet"
    record = next(r for r in caplog.records if f"{method.title()} failed" in r.getMessage())
    assert record.exc_info and record.exc_info[1] is error


def test_the_logged_traceback_starts_at_the_authors_line(caplog: pytest.LogCaptureFixture) -> None:
    class Flaky(nri.Plugin):
        def create_container(self, pod, container):
            return container.nope

    with plugin_thread(Flaky()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE)
    record = next(r for r in caplog.records if r.getMessage().startswith("CreateContainer failed"))
    assert record.exc_info and record.exc_info[2]
    assert record.exc_info[2].tb_frame.f_code.co_filename == __file__, "the library's frames tell an author nothing"


def test_an_invalid_return_value_is_logged_without_the_librarys_lines(caplog: pytest.LogCaptureFixture) -> None:
    with plugin_thread(type("Odd", (nri.Plugin,), {"create_container": lambda *_: {"env": 1}})()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE)
    record = next(r for r in caplog.records if r.getMessage().startswith("CreateContainer failed"))
    assert "create_container returned dict" in record.getMessage() and record.exc_info is None


def test_sys_exit_in_a_handler_is_reported_in_the_status(caplog: pytest.LogCaptureFixture) -> None:
    def leave(*_: object) -> None:
        raise SystemExit("enough")

    with plugin_thread(type("Leaves", (nri.Plugin,), {"create_container": leave})()) as running:
        running.runtime.begin()
        with contextlib.suppress(EOFError):  # there is no answer to it
            running.runtime.call("CreateContainer", CREATE)
        assert isinstance(running.ended(), SystemExit)
    assert "CreateContainer called sys.exit('enough'), which ends the plugin" in caplog.text


def test_a_second_synchronize_after_a_failure_can_succeed() -> None:
    class Once(Names):
        fails = True

        def synchronize(self, pods, containers):
            if self.fails:
                self.fails = False
                raise OSError("not yet")

    with plugin_thread(Once()) as running:
        running.runtime.register()
        running.runtime.configure()
        assert running.runtime.call("Synchronize", m.SynchronizeRequest()).code
        assert not running.runtime.call("Synchronize", m.SynchronizeRequest()).code
        running.runtime.close()
        assert running.ended() == "closed"


@pytest.mark.parametrize(
    ("nri_version", "reason"),
    [
        ("v0.12.3", "it has NRI v0.12.3"),
        ("", "it has an unknown version of NRI"),
        ("v0.12.4", ""),
        ("v1.0.0", ""),
    ],
)
def test_a_warning_names_a_runtime_that_ignores_the_failure_policy(
    nri_version: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Strict(Names):
        failure_policy = nri.FailurePolicy(fail_request=True)

    with plugin_thread(Strict()) as running:
        running.runtime.begin(name="old", version="v7", nri=nri_version)
    lines = [r.getMessage() for r in caplog.records if "failure_policy" in r.getMessage()]
    assert len(lines) == (1 if reason else 0)
    assert all(line.startswith(f"old v7 ignores failure_policy: {reason}, ") for line in lines), lines


def test_a_plugin_that_is_never_synchronized_is_ready_at_its_first_event() -> None:
    """Runtimes on NRI 0.6.1 do not synchronize the plugins that they launch themselves."""
    ready: list[str] = []
    with plugin_thread(Names(), on_ready=lambda: ready.append("ready")) as running:
        running.runtime.register()
        running.runtime.configure(nri="")
        assert ready == []
        assert not running.runtime.call("CreateContainer", CREATE).code
        assert not running.runtime.call("CreateContainer", CREATE).code
        wait_for(lambda: ready, "readiness")
        assert (ready, running.session.stage) == (["ready"], "ready")


def test_handlers_run_one_at_a_time_also_when_a_runtime_does_not_wait() -> None:
    at_once, highest, lock = [0], [0], threading.Lock()

    class Slow(nri.Plugin):
        max_concurrent = 3  # an attribute like any other

        def start_container(self, pod, container):
            with lock:
                at_once[0] += 1
                highest[0] = max(highest[0], at_once[0])
            time.sleep(0.02)
            with lock:
                at_once[0] -= 1

    with plugin_thread(Slow()) as running:
        running.runtime.begin()
        for _ in range(3):
            running.runtime.send("StartContainer", START)
        for _ in range(3):
            assert not running.runtime.response().code
    assert highest[0] == 1


class TooLarge(nri.Reject):
    """An error class of an author, with its own message."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __str__(self) -> str:
        return f"{self.size} is too large"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (nri.Reject("not on this node"), "not on this node"),
        (nri.Reject(), "without a reason"),
        (nri.Reject("line\n" * 2000), "line\n" * 2000),
        (TooLarge(3), "3 is too large"),
    ],
    ids=["a reason", "none", "long", "an author's class"],
)
def test_a_reject_is_status_7_with_plugin_name_and_text(error: nri.Reject, reason: str) -> None:
    def refuse():
        raise error

    with plugin_thread(creates(refuse)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert (response.code, response.message) == (Code.PERMISSION_DENIED, f"plugin 10-answers refused: {reason}")


def test_other_exceptions_are_status_2_and_their_traceback_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail():
        raise KeyError("zone")

    with plugin_thread(creates(fail)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert (response.code, response.message) == (Code.UNKNOWN, "plugin 10-answers: KeyError: 'zone'")
        running.runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
    record = next(r for r in caplog.records if "CreateContainer failed" in r.getMessage())
    assert record.exc_info and "default/web" in record.getMessage(), record.getMessage()


def test_an_event_without_a_handler_gets_an_empty_reply() -> None:
    with plugin_thread(creates(None)) as running:
        running.runtime.begin()
        response = running.runtime.call("StopContainer", m.StopContainerRequest(pod=POD, container=CONTAINER))
        assert not response.code and response.payload == b""


@pytest.mark.parametrize("seconds", [0.12, 0.25], ids=["more than half", "more than all"])
def test_a_handler_that_needs_half_of_the_timeout_logs_a_warning(
    caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    with plugin_thread(creates(lambda: time.sleep(seconds))) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE, timeout_s=0.2)
        running.runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
    message = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (line,) = [entry for entry in message if entry.startswith("CreateContainer")]  # other calls may be slow, too
    assert re.match(r"CreateContainer took \d+\.\d\d s; the runtime allows 0\.20 s", line)


def test_an_rpc_error_of_a_handler_keeps_its_status() -> None:
    def refuse():
        raise nri.RpcError(Code.UNAVAILABLE, "come back later")

    with plugin_thread(creates(refuse)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert (response.code, response.message) == (Code.UNAVAILABLE, "plugin 10-answers: come back later")


def test_an_exception_without_a_text_is_reported_by_its_type() -> None:
    def fail():
        raise ZeroDivisionError

    with plugin_thread(creates(fail)) as running:
        running.runtime.begin()
        assert running.runtime.call("CreateContainer", CREATE).message == "plugin 10-answers: ZeroDivisionError"


def test_an_invalid_message_is_an_error_of_the_sender(caplog: pytest.LogCaptureFixture) -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", b"\xff\xff")
        assert response.code == Code.INTERNAL and "unmarshalling payload" in response.message
    assert "failed" not in caplog.text


def test_a_second_configure_keeps_a_plugin_ready() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        assert not running.runtime.configure("again").code
        assert running.session.stage == "ready"
        assert running.plugin.config == "again"


#: A field whose length exceeds the data that follows.
BROKEN = b"\x0a\x7fx"


class Everything(Names):
    """Would notice a handler that runs too early."""

    ran: list[str]

    def __init__(self) -> None:
        self.ran = []

    def synchronize(self, pods, containers):
        self.ran.append("synchronize")

    def validate_container_adjustment(self, request):
        self.ran.append("validate")

    def start_container(self, pod, container):
        self.ran.append("start")

    def create_container(self, pod, container):
        self.ran.append("create")

    def shutdown(self):
        self.ran.append("shutdown")


METHODS = [spec.rpc for spec in EVENTS] + ["Synchronize", "StateChange", "Shutdown"]


@pytest.mark.parametrize("method", [*METHODS, "Configure"])
@pytest.mark.parametrize("plugin", [Everything, Names])
def test_an_unreadable_request_has_the_same_status_for_all_methods_and_is_not_logged(
    method: str, plugin: type[nri.Plugin], caplog: pytest.LogCaptureFixture
) -> None:
    with plugin_thread(plugin()) as running:
        running.runtime.begin()
        caplog.clear()
        response = running.runtime.call(method, BROKEN)
        assert response.code == Code.INTERNAL
        assert "ttrpc: error unmarshalling payload: " in response.message
        assert not running.runtime.call("CreateContainer", CREATE).code, "the connection stays open"
    records = [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING]
    assert not [record for record in records if "the runtime allows" not in record.getMessage()]  # of a slow machine


def test_an_unreadable_configure_is_an_error_of_the_runtime() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.register()
        assert running.runtime.call("Configure", BROKEN).code == Code.INTERNAL
        running.runtime.close()
        assert isinstance(running.ended(), nri.errors.ConnectionClosed)


@pytest.mark.parametrize("method", METHODS)
def test_no_handler_runs_before_configure(method: str) -> None:
    plugin = Everything()
    with plugin_thread(plugin) as running:
        running.runtime.register()
        response = running.runtime.call(method, b"")
        assert response.code == Code.FAILED_PRECONDITION
        assert response.message == f"plugin 10-everything: {method} before Configure has succeeded"
        assert plugin.ran == []
        assert not running.runtime.configure().code
        assert not running.runtime.call("CreateContainer", CREATE).code
        assert plugin.ran == ["create"]


def test_no_handler_runs_after_a_failed_configure() -> None:
    class Unready(Everything):
        def configure(self):
            raise ValueError("not yet")

    plugin = Unready()
    with plugin_thread(plugin) as running:
        running.runtime.register()
        assert running.runtime.configure().code == Code.UNKNOWN
        assert running.runtime.call("CreateContainer", CREATE).code == Code.FAILED_PRECONDITION
        assert plugin.ran == []


@pytest.mark.parametrize(("service", "method"), [("\x1b[2J" + "x" * 100_000, "Configure"), (None, "No\nSuch\x1b")])
def test_an_unknown_method_is_unimplemented(service: str | None, method: str) -> None:
    with plugin_thread(Names()) as running:
        options = {} if service is None else {"service": service}
        running.runtime.register()
        for _ in range(2):
            response = running.runtime.call(method, b"", **options)
            assert response.code == Code.UNIMPLEMENTED
            assert response.message.isprintable()
            assert len(response.message) < 1100
            running.runtime.configure()


def test_a_state_above_the_limit_logs_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nri.stub.session.synchronize.MAX_STATE_BYTES", 10)
    with plugin_thread(Names()) as running:
        running.runtime.register()
        running.runtime.configure()
        state = m.SynchronizeRequest(pods=[m.PodSandbox(id="a-long-name")])
        assert running.runtime.call("Synchronize", state).code == Code.RESOURCE_EXHAUSTED
        running.runtime.close()
        running.ended()
    record = next(r for r in caplog.records if "Synchronize failed" in r.getMessage())
    assert "the state to synchronize is over 10 bytes" in record.getMessage()
    assert record.exc_info is None


def test_an_event_inside_a_state_change_calls_the_same_handler() -> None:
    observed = []

    class Old(nri.Plugin):
        def post_start_container(self, pod, container):
            observed.append((pod.id, container.id))

        def run_pod_sandbox(self, pod):
            observed.append((pod.id,))

    with plugin_thread(Old()) as running:
        running.runtime.begin(nri="")
        for event in ("POST_START_CONTAINER", "RUN_POD_SANDBOX", "REMOVE_CONTAINER"):
            change = m.StateChangeEvent(event=m.Event.Value(event), pod=POD, container=CONTAINER)
            assert not running.runtime.call("StateChange", change).code
    assert observed == [("p0", "c0"), ("p0",)]


def test_a_creation_inside_a_state_change_is_ignored() -> None:
    called = []
    with plugin_thread(creates(lambda: called.append(1))) as running:
        running.runtime.begin()
        running.runtime.call(
            "StateChange", m.StateChangeEvent(event=m.Event.CREATE_CONTAINER, pod=POD, container=CONTAINER)
        )
    assert called == []


def change(event: int) -> bytes:
    return m.StateChangeEvent(event=event, pod=POD, container=CONTAINER).SerializeToString()


def test_a_state_change_becomes_the_request_of_its_event() -> None:
    for spec in EVENTS:
        event = unwrap(change(spec.number))
        if not spec.relayed:
            assert event is None, f"{spec.rpc} has its own call"
            continue
        assert event is not None and event[0] is spec
        request = getattr(m, spec.request).FromString(event[1])
        assert request.pod == POD
        assert spec.kind == "pod" or request.container == CONTAINER


def test_an_unknown_event_number_is_ignored() -> None:
    assert unwrap(change(0)) is None
    assert unwrap(change(99)) is None


def test_unknown_fields_are_ignored() -> None:
    later = b"\xfa\x3f\x03new" + b"\xc0\x3e\x07"
    event = unwrap(later + change(m.Event.RUN_POD_SANDBOX) + later)
    assert event is not None and m.RunPodSandboxRequest.FromString(event[1]).pod == POD
