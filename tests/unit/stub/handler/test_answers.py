"""Return values of handlers and their effect."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import ADJUSTMENT, CONTAINER, CREATE, POD, UPDATE, create_reply, creates


async def _nothing_later(self, pod, container) -> None:
    return None


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
def test_create_container_accepts_these_return_values(answer, env, updated) -> None:
    with plugin_thread(creates(answer)) as running:
        running.runtime.begin()
        reply = create_reply(running)
        assert ([e.key for e in reply.adjust.env], [u.container_id for u in reply.update]) == (env, updated)


def test_an_answer_without_values_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with plugin_thread(creates([nri.Update("other")])) as running:
        running.runtime.begin()
        assert [update.container_id for update in create_reply(running).update] == ["other"]
    assert any("an update of container other without values" in text for text in caplog.messages)


def test_updates_may_contain_an_eviction() -> None:
    with plugin_thread(creates([nri.Eviction("bad", "too greedy")])) as running:
        running.runtime.begin()
        assert create_reply(running).evict[0].reason == "too greedy"


@pytest.mark.parametrize("answer", ["text", 5, {"env": 1}, ["x"], (ADJUSTMENT, "x"), (1, 2, 3)])
def test_an_invalid_return_value_is_an_error_that_names_the_method(answer) -> None:
    with plugin_thread(creates(answer)) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert response.code == Code.UNKNOWN and "create_container returned" in response.message, response.message


def test_an_update_of_the_created_container_is_an_error_with_advice() -> None:
    own_update = nri.Update(CONTAINER).set_cpu_shares(2)
    with plugin_thread(creates([UPDATE, own_update])) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE)
        assert "an Update of the container that is being created: return an Adjustment instead" in response.message
    with plugin_thread(creates(nri.Update(CONTAINER).set_cpu_shares(2).set_ignore_failure())) as running:
        running.runtime.begin()
        assert [u.container_id for u in create_reply(running).update] == [CONTAINER.id], "the runtime skips it"


def test_an_empty_update_of_the_updated_container_is_omitted(caplog: pytest.LogCaptureFixture) -> None:
    class Cancels(nri.Plugin):
        def update_container(self, pod, container, resources):
            return [nri.Update(container.id), nri.Update("other").set_cpu_shares(2)]

    with plugin_thread(Cancels()) as running:
        running.runtime.begin()
        request = m.UpdateContainerRequest(pod=POD, container=CONTAINER)
        response = running.runtime.call("UpdateContainer", request)
        reply = m.UpdateContainerResponse.FromString(response.payload)
        assert [u.container_id for u in reply.update] == ["other"]
    assert "update of container c0 without values" in caplog.text


@pytest.mark.parametrize("answer", [nri.Eviction("bad", "too greedy"), [UPDATE, nri.Eviction("bad", "too greedy")]])
@pytest.mark.parametrize("event", ["StopContainer", "Synchronize"])
def test_an_eviction_without_a_field_in_the_reply_is_requested_after_the_reply(event: str, answer) -> None:
    class Evicts(nri.Plugin):
        def stop_container(self, pod, container):
            return answer

        def synchronize(self, pods, containers):
            return answer if event == "Synchronize" else None

    with plugin_thread(Evicts()) as running:
        running.runtime.register()
        running.runtime.configure()
        request = m.SynchronizeRequest() if event == "Synchronize" else m.StopContainerRequest(pod=POD)
        reply = getattr(m, f"{event}Response").FromString(running.runtime.call(event, request).payload)
        assert [u.container_id for u in reply.update] == (["other"] if isinstance(answer, list) else [])
        message = m.UpdateContainersRequest.FromString(running.runtime.request().payload)
        assert [(e.container_id, e.reason) for e in message.evict] == [("bad", "too greedy")]


@pytest.mark.parametrize("name", ["containerd", "cri-o"])
def test_if_the_runtime_ignores_evictions_a_warning_is_logged_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    class Evicts(nri.Plugin):
        def create_container(self, pod, container):
            return [UPDATE, nri.Eviction("bad")]

        def stop_container(self, pod, container):
            return nri.Eviction("bad")

    plugin = Evicts()
    with plugin_thread(plugin) as running:
        running.runtime.begin(name=name, version="v2.1.9")
        reply = create_reply(running)
        assert ([update.container_id for update in reply.update], list(reply.evict)) == (["other"], [])
        assert not running.runtime.call("StopContainer", m.StopContainerRequest(pod=POD)).code
        with pytest.raises(nri.RpcError, match=f"unsupported: {name} v2.1.9 ignores them") as caught:
            plugin.runtime.evict("bad").result()
        assert (caught.value.code, plugin.runtime.outstanding) == (Code.UNIMPLEMENTED, 0)
    assert caplog.text.count("unsupported") == 1


def test_a_failed_request_for_an_eviction_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Evicts(nri.Plugin):
        def stop_container(self, pod, container):
            return nri.Eviction("bad")

    with plugin_thread(Evicts()) as running:
        running.runtime.begin()
        assert not running.runtime.call("StopContainer", m.StopContainerRequest(pod=POD)).code
        running.runtime.request()
    assert "an eviction that a handler returned could not be requested: ttrpc: closed" in caplog.text


@pytest.mark.parametrize("refusal", [nri.Reject("no"), nri.Reject, ValueError("no")])
@pytest.mark.parametrize("event", ["CreateContainer", "StartContainer", "ValidateContainerAdjustment"])
def test_a_returned_exception_is_an_error_with_advice(event: str, refusal) -> None:
    class Refuses(nri.Plugin):
        def create_container(self, pod, container):
            return refusal

        def start_container(self, pod, container):
            return refusal

        def validate_container_adjustment(self, request):
            return refusal

    with plugin_thread(Refuses()) as running:
        running.runtime.begin()
        request = getattr(m, f"{event}Request")(pod=POD, container=CONTAINER)
        response = running.runtime.call(event, request)
        kind = refusal.__name__ if isinstance(refusal, type) else type(refusal).__name__
        assert f"returned {kind}: raise it, do not return it" in response.message


@pytest.mark.parametrize(
    ("answer", "next_step"),
    [
        (ADJUSTMENT, "containers are adjusted in create_container"),
        (UPDATE, "self.runtime.update()"),
        (5, "it must return None"),
    ],
)
def test_an_answer_to_an_event_without_answers_is_an_error_with_advice(answer, next_step: str) -> None:
    class Answers(nri.Plugin):
        def start_container(self, pod, container):
            return answer

    with plugin_thread(Answers()) as running:
        running.runtime.begin()
        message = running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD)).message
        assert f"start_container returned {type(answer).__name__}" in message and next_step in message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (nri.Adjustment, "the class Adjustment, not an instance of it"),
        ((ADJUSTMENT, ADJUSTMENT), "(Adjustment, Adjustment)"),
        ((ADJUSTMENT, 5), "int"),
        ([ADJUSTMENT], "a list that contains Adjustment"),
        ((ADJUSTMENT, [UPDATE], 5), "a list that contains Adjustment"),
    ],
)
def test_a_nearly_right_answer_is_an_error_with_the_expected_type(answer, kind: str) -> None:
    class Answers(nri.Plugin):
        def create_container(self, pod, container):
            return answer

    with plugin_thread(Answers()) as running:
        running.runtime.begin()
        request = m.CreateContainerRequest(pod=POD, container=CONTAINER)
        message = running.runtime.call("CreateContainer", request).message
        assert f"create_container returned {kind}: None, an Adjustment, an Update" in message


@pytest.mark.parametrize(
    "plugin",
    [
        creates(None),
        creates([]),
        creates(UPDATE),
        creates((None, [UPDATE])),
        type("Async", (nri.Plugin,), {"create_container": _nothing_later})(),
        type("Other", (nri.Plugin,), {"stop_container": lambda self, pod, container: None})(),
        type("Mirrored", (nri.Plugin,), {"mirror": True})(),
        type("Chosen", (nri.Plugin,), {"create_container": nri.when(namespaces="x")(lambda *_: ADJUSTMENT)})(),
    ],
    ids=["None", "empty", "Update", "pair", "async", "not-handled", "mirror", "another-pod"],
)
def test_a_reply_to_create_container_always_has_an_adjustment(plugin: nri.Plugin) -> None:
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        assert create_reply(running).HasField("adjust")


@pytest.mark.parametrize(
    "adjustment",
    [
        nri.Adjustment().add_device("/dev/x", "c", 1, 3),
        nri.Adjustment().set_oom_score_adj(5),
        nri.Adjustment().set_cgroups_path("/x"),
        nri.Adjustment().set_sysctl("net.ipv4.ip_forward", "1"),
        m.ContainerAdjustment(linux=m.LinuxContainerAdjustment()),
    ],
)
def test_a_reply_with_linux_fields_has_resources(adjustment) -> None:
    with plugin_thread(creates(adjustment)) as running:
        running.runtime.begin()
        assert create_reply(running).adjust.linux.HasField("resources")


def test_a_reply_without_linux_fields_has_no_linux_message() -> None:
    with plugin_thread(creates(ADJUSTMENT)) as running:
        running.runtime.begin()
        assert not create_reply(running).adjust.HasField("linux")
