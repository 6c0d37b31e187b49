"""What the runtime gets for its events, and the two ways in which its request ends."""

from __future__ import annotations

from typing import Any

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod


class Shrinks(nri.Plugin):
    """Takes shares from another container whenever one is stopped."""

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> Any:
        return nri.Update("other").set_cpu_shares(512)


def stopped(runtime: FakeRuntime) -> Any:
    other = make_container(id="other")
    other.linux.resources.cpu.shares.value = 1024
    runtime.create_container(make_pod(), other)
    runtime.create_container(make_pod(), make_container(id="own"))
    return runtime.adaptation.stop_container(make_pod(), make_container(id="own"))


def test_updates_of_others_and_their_owners_are_told() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        assert [(each.container_id, each.linux.resources.cpu.shares.value) for each in reply.updates] == [
            ("other", 512)
        ]
        assert reply.owners.owners["other"].simple[m.Field.CPUShares] == "10-shrinks"


def test_abort_gives_back_what_the_others_had() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        undone: list[Any] = []
        reply.abort(undone.extend)
        assert [each.container_id for each in undone] == ["other"]
        undone.clear()
        reply.abort(undone.extend)
        assert undone == [], "what was given back once is not given back again"


def test_after_commit_there_is_nothing_to_abort() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        reply.commit()
        undone: list[Any] = []
        reply.abort(undone.extend)
        assert undone == []
