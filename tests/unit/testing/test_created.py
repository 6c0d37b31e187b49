"""What becomes of a creation, in the words of plugin authors."""

from __future__ import annotations

import pytest

import nri
from nri.testing import FakeRuntime, make_container


class Answers(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container):
        updates = [nri.Update("other").set_cpu_shares(5), nri.Eviction("other", "too greedy")]
        return nri.Adjustment().add_env("A", "1"), updates


@pytest.fixture
def runtime(nri_runtime: FakeRuntime) -> FakeRuntime:
    nri_runtime.start_container(None, make_container(id="other"))
    return nri_runtime.add(Answers())


def test_the_merged_adjustment_updates_and_evictions_are_at_hand(runtime: FakeRuntime) -> None:
    created = runtime.create_container()
    assert created.env == {"A": "1"} == created.adjust.env
    assert {name: update.cpu_shares for name, update in created.updates.items()} == {"other": 5}
    assert created.evictions == [nri.Eviction("other", "too greedy")]
    assert nri.env_of(created.container) == {"A": "1"}
    assert created.owners == created.reply.owners


def test_it_shows_what_was_asked_for(runtime: FakeRuntime) -> None:
    shown = repr(runtime.create_container())
    assert shown.startswith("Created(Adjustment(") and "Update(container_id='other'" in shown


def test_a_reader_that_does_not_exist_is_an_attribute_error(runtime: FakeRuntime) -> None:
    created = runtime.create_container()
    with pytest.raises(AttributeError):
        created.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        created._message  # noqa: B018


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_commit_and_abort_are_those_of_the_adaptation(runtime: FakeRuntime, end: str) -> None:
    called: list[str] = []

    class Reply:
        def commit(self) -> None:
            called.append("commit")

        def abort(self) -> None:
            called.append("abort")

    created = runtime.create_container()
    created.reply = Reply()
    getattr(created, end)()
    assert called == [end]
