"""What a plugin's methods get and what becomes of what they return."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

import nri
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
CREATE = m.CreateContainerRequest(pod=POD, container=CONTAINER)


def create_reply(running) -> m.CreateContainerResponse:
    response = running.runtime.call("CreateContainer", CREATE)
    assert not response.code, response.message
    return m.CreateContainerResponse.FromString(response.payload)


def creates(answer):
    """A plugin whose create_container returns, raises or awaits `answer`."""

    class Answers(nri.Plugin):
        def create_container(self, pod, container):
            return answer() if callable(answer) else answer

    return Answers()


ADJUSTMENT = nri.Adjustment().add_env("A", "1")
UPDATE = nri.Update("other").set_cpu_shares(512)


@pytest.mark.parametrize(
    ("answer", "env", "updated"),
    [
        (None, [], []),
        (ADJUSTMENT, ["A"], []),
        (ADJUSTMENT.message, ["A"], []),
        (UPDATE, [], ["other"]),
        ([UPDATE, nri.Update("third").set_pids_limit(5)], [], ["other", "third"]),
        ((ADJUSTMENT, [UPDATE]), ["A"], ["other"]),
        ((ADJUSTMENT, None), ["A"], []),
        ((None, [UPDATE]), [], ["other"]),
        ((ADJUSTMENT, UPDATE), ["A"], ["other"]),
        ([], [], []),
    ],
    ids=["None", "Adjustment", "message", "Update", "list", "pair", "pair-None", "None-pair", "pair-single", "empty"],
)
def test_create_container_may_return(answer, env, updated) -> None:
    with plugin_thread(creates(answer)) as running:
        running.runtime.begin()
        reply = create_reply(running)
        assert ([e.key for e in reply.adjust.env], [u.container_id for u in reply.update]) == (env, updated)


def test_an_eviction_may_be_among_the_updates() -> None:
    with plugin_thread(creates([nri.Eviction("bad", "too greedy")])) as running:
        running.runtime.begin()
        assert create_reply(running).evict[0].reason == "too greedy"


@pytest.mark.parametrize("answer", ["text", 5, {"env": 1}, ["x"], (ADJUSTMENT, "x"), (1, 2, 3)])
def test_anything_else_is_an_error_that_names_the_method(answer) -> None:
    with plugin_thread(creates(answer)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert response.code == Code.UNKNOWN and "create_container returned" in response.message, response.message


def test_an_event_without_an_answer_must_return_nothing() -> None:
    class Talks(nri.Plugin):
        def start_container(self, pod, container):
            return ADJUSTMENT

    with plugin_thread(Talks()) as running:
        running.runtime.begin()
        response = running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD, container=CONTAINER))
        assert response.code == Code.UNKNOWN and "start_container returned Adjustment" in response.message


def test_a_reject_is_status_7_with_its_text() -> None:
    def refuse():
        raise nri.Reject("not on this node")

    with plugin_thread(creates(refuse)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert (response.code, response.message) == (Code.PERMISSION_DENIED, "not on this node")


def test_another_exception_is_status_2_and_the_log_has_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def fail():
        raise KeyError("zone")

    with plugin_thread(creates(fail)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert (response.code, response.message) == (Code.UNKNOWN, "'zone'")
        running.runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
    record = next(r for r in caplog.records if "CreateContainer failed" in r.getMessage())
    assert record.exc_info and "default/web" in record.getMessage(), record.getMessage()


def test_validation_rejects_with_a_reason() -> None:
    class Refuses(nri.Plugin):
        def validate_container_adjustment(self, request):
            if request.container.name == "app":
                raise nri.Reject("no")

    with plugin_thread(Refuses()) as running:
        running.runtime.begin()
        request = m.ValidateContainerAdjustmentRequest(pod=POD, container=CONTAINER)
        response = running.runtime.call("ValidateContainerAdjustment", request)
        answer = m.ValidateContainerAdjustmentResponse.FromString(response.payload)
        assert (answer.reject, answer.reason) == (True, "no")
        accepted = running.runtime.call("ValidateContainerAdjustment", m.ValidateContainerAdjustmentRequest(pod=POD))
        assert not accepted.code and not accepted.payload


def test_every_event_reaches_its_method_with_its_arguments() -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    def recorder(method: str, arguments: tuple[str, ...]):
        scope: dict[str, object] = {}
        names = ", ".join(arguments)
        exec(f"def {method}(self, {names}): record({method!r}, ({names},))", {"record": record}, scope)
        return scope[method]

    def record(method, values):
        seen.append((method, tuple(getattr(v, "id", "") or type(v).__name__ for v in values)))

    from nri.stub.support.checks import ARGUMENTS

    members = {spec.method: recorder(spec.method, ARGUMENTS[spec.method]) for spec in EVENTS}
    everything = type("Everything", (nri.Plugin,), members)
    with plugin_thread(everything()) as running:
        mask = running.runtime.begin().events
        assert mask == 0x3FFF, hex(mask)
        for spec in EVENTS:
            request = getattr(m, spec.request)(pod=POD)
            if spec.kind != "pod":
                request.container.CopyFrom(CONTAINER)
            response = running.runtime.call(spec.rpc, request)
            assert not response.code, response.message
    wanted = {"pod": ("p0",), "container": ("p0", "c0"), "validation": ("ValidateContainerAdjustmentRequest",)}
    expected = []
    for spec in EVENTS:
        extra = {"update_container": ("LinuxResources",), "update_pod_sandbox": ("LinuxResources", "LinuxResources")}
        expected.append((spec.method, wanted[spec.kind] + extra.get(spec.method, ())))
    assert seen == expected


def test_an_event_that_is_not_handled_is_answered_empty() -> None:
    with plugin_thread(creates(None)) as running:
        running.runtime.begin()
        response = running.runtime.call("StopContainer", m.StopContainerRequest(pod=POD, container=CONTAINER))
        assert not response.code and response.payload == b""


def test_state_change_reaches_the_same_methods() -> None:
    seen = []

    class Old(nri.Plugin):
        def post_start_container(self, pod, container):
            seen.append((pod.id, container.id))

        def run_pod_sandbox(self, pod):
            seen.append((pod.id,))

    with plugin_thread(Old()) as running:
        running.runtime.begin(nri="")
        for event in ("POST_START_CONTAINER", "RUN_POD_SANDBOX", "REMOVE_CONTAINER"):
            change = m.StateChangeEvent(event=m.Event.Value(event), pod=POD, container=CONTAINER)
            assert not running.runtime.call("StateChange", change).code
    assert seen == [("p0", "c0"), ("p0",)]


def test_create_is_never_taken_from_a_state_change() -> None:
    called = []
    with plugin_thread(creates(lambda: called.append(1))) as running:
        running.runtime.begin()
        running.runtime.call(
            "StateChange", m.StateChangeEvent(event=m.Event.CREATE_CONTAINER, pod=POD, container=CONTAINER)
        )
    assert called == []


def test_an_update_of_the_updated_container_without_resources_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    class Cancels(nri.Plugin):
        def update_container(self, pod, container, resources):
            return [nri.Update(container.id), nri.Update("other").set_cpu_shares(2)]

    with plugin_thread(Cancels()) as running:
        running.runtime.begin()
        request = m.UpdateContainerRequest(pod=POD, container=CONTAINER)
        response = running.runtime.call("UpdateContainer", request)
        reply = m.UpdateContainerResponse.FromString(response.payload)
        assert [u.container_id for u in reply.update] == ["other"]
    assert "without resources" in caplog.text


def test_synchronize_gets_everything_and_returns_updates() -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers):
            return [nri.Update(c).set_cpu_shares(7) for c in containers]

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Syncs()) as running:
        running.runtime.register()
        running.runtime.configure()
        response = running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        reply = m.SynchronizeResponse.FromString(response.payload)
        assert [(u.container_id, u.linux.resources.cpu.shares.value) for u in reply.update] == [("c0", 7)]


# -- async ------------------------------------------------------------------------------------------------------------


def test_an_async_handler_may_wait() -> None:
    class Waits(nri.Plugin):
        async def create_container(self, pod, container):
            async with asyncio.timeout(self.time_left()):
                await asyncio.sleep(0.01)
            return nri.Adjustment().add_env("POD", pod.name)

    with plugin_thread(Waits()) as running:
        running.runtime.begin()
        assert create_reply(running).adjust.env[0].value == "web"


def test_an_async_handler_that_raises_is_an_error() -> None:
    class Fails(nri.Plugin):
        async def create_container(self, pod, container):
            await asyncio.sleep(0)
            raise nri.Reject("later")

    with plugin_thread(Fails()) as running:
        running.runtime.begin()
        assert running.runtime.call("CreateContainer", CREATE).message == "later"


def test_a_background_task_of_an_async_handler_lives_on() -> None:
    done = []

    class Spawns(nri.Plugin):
        async def start_container(self, pod, container):
            async def later():
                await asyncio.sleep(0.05)
                done.append(container.id)

            self.task = asyncio.create_task(later())

    with plugin_thread(Spawns()) as running:
        running.runtime.begin()
        running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD, container=CONTAINER))
        until = time.monotonic() + 5
        while not done and time.monotonic() < until:
            time.sleep(0.01)
    assert done == ["c0"], "the task did not outlive its handler"


# -- deadline and log -------------------------------------------------------------------------------------------------


def test_the_deadline_is_what_the_runtime_allows() -> None:
    seen = []

    class Looks(nri.Plugin):
        def create_container(self, pod, container):
            seen.append((self.time_left(), self.deadline - time.monotonic()))

    with plugin_thread(Looks()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE, timeout_s=2.0)
    left, until = seen[0]
    assert 1.0 < left <= 2.0 and 1.0 < until <= 2.0, seen


def test_there_is_no_deadline_outside_handlers() -> None:
    plugin = creates(None)
    assert (plugin.deadline, plugin.time_left()) == (None, None)


def test_a_handler_that_takes_half_of_its_time_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with plugin_thread(creates(lambda: time.sleep(0.12))) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE, timeout_s=0.2)
        running.runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
    assert any("CreateContainer took 0.1" in r.getMessage() for r in caplog.records if r.levelno == logging.WARNING), (
        caplog.text
    )


def test_log_lines_carry_pod_and_container(caplog: pytest.LogCaptureFixture) -> None:
    class Logs(nri.Plugin):
        def create_container(self, pod, container):
            self.log.warning("100%% %s", "sure")

    with plugin_thread(Logs()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE)
    record = caplog.records[0]
    assert record.getMessage() == "100% sure [pod default/web, container app]"
    assert (record.pod, record.container, record.name) == ("default/web", "app", "nri.plugin.logs")


def test_a_handler_can_be_called_without_a_runtime() -> None:
    class Names(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("POD", pod.name)

    assert Names().create_container(POD, CONTAINER).env == {"POD": "web"}
