"""Replies to events, as tests of plugins read them."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container


class Answers(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container):
        updates = [nri.Update("other").set_cpu_shares(5), nri.Eviction("other", "too greedy")]
        return nri.Adjustment().add_env("A", "1"), updates


@pytest.fixture
def runtime(nri_runtime: FakeRuntime) -> FakeRuntime:
    nri_runtime.start_container(None, make_container(id="other"))
    return nri_runtime.add(Answers())


def test_a_reply_has_the_merged_adjustment_updates_and_evictions(runtime: FakeRuntime) -> None:
    created = runtime.create_container()
    assert created.env == {"A": "1"} == created.adjust.env
    assert {name: update.cpu_shares for name, update in created.updates.items()} == {"other": 5}
    assert created.evictions == [nri.Eviction("other", "too greedy")]
    assert nri.env_of(created.container) == {"A": "1"}
    assert created.owners == created.reply.owners


def test_the_text_of_a_reply_shows_the_requested_changes(runtime: FakeRuntime) -> None:
    shown = repr(runtime.create_container())
    assert shown.startswith("CreateReply(Adjustment(") and "Update(container_id='other'" in shown


def test_an_unknown_attribute_of_a_reply_is_an_attribute_error(runtime: FakeRuntime) -> None:
    created = runtime.create_container()
    with pytest.raises(AttributeError):
        created.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        created._none_such  # noqa: B018


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_commit_and_abort_call_the_adaptation(runtime: FakeRuntime, end: str) -> None:
    called: list[str] = []

    class Reply:
        def commit(self) -> None:
            called.append("commit")

        def abort(self) -> list[m.ContainerUpdate]:
            called.append("abort")
            return [m.ContainerUpdate(container_id="stuck")]

    created = runtime.create_container()
    created.reply = Reply()
    remaining = getattr(created, end)()
    assert called == [end]
    assert remaining == (None if end == "commit" else {"stuck": nri.Update("stuck")}), "what could not be undone"


class Balances(nri.Plugin):
    """Answers every event with an update of another container, and one of the container itself."""

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources):
        return [nri.Update(container).set_memory_limit(5), nri.Update("other").set_cpu_shares(7)]

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container):
        return nri.Update("other").set_cpu_shares(9)


def test_updates_of_other_containers_have_the_same_type_in_every_reply(nri_runtime: FakeRuntime) -> None:
    nri_runtime.start_container(None, make_container(id="other"))
    nri_runtime.add(Answers(), idx="10").add(Balances(), idx="20")
    expected = {"create": 5, "update": 7, "stop": 9}
    replies = {
        "create": nri_runtime.create_container(None, make_container(id="app")),
        "update": nri_runtime.update_container(None, nri_runtime.containers["app"]),
        "stop": nri_runtime.stop_container(None, nri_runtime.containers["app"]),
    }
    for event, reply in replies.items():
        assert {name: update.cpu_shares for name, update in reply.updates.items()} == {"other": expected[event]}, event
        assert isinstance(reply.updates["other"], nri.Update) and "updates=[Update(" in repr(reply)


def test_an_update_has_readable_attributes(nri_runtime: FakeRuntime) -> None:
    nri_runtime.start_container(None, make_container(id="other"))
    reply = nri_runtime.add(Balances()).update_container(None, None, nri.Update("x").set_cpu_shares(12))
    assert (reply.changed, reply.memory_limit, reply.cpu_shares) == (True, 5, 12)
    assert reply.resources is reply.reply.resources
    assert reply.evictions == []
