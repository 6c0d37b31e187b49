"""What a handler may return, and what becomes of it."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import ADJUSTMENT, CONTAINER, CREATE, POD, UPDATE, create_reply, creates


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
