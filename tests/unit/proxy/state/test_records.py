"""Records of pods and containers share no state."""

from __future__ import annotations

from nri.proxy.state.records import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord


def test_two_records_share_no_message() -> None:
    one, two = ContainerRecord("a"), ContainerRecord("b")
    one.config.metadata.name = "x"
    one.resources.cpu_shares = 2
    assert not two.config.metadata.name
    assert not two.resources.cpu_shares
    first, second = PodRecord("a"), PodRecord("b")
    first.config.metadata.name = "x"
    first.plugin_view.name = "x"
    assert not second.config.metadata.name
    assert not second.plugin_view.name


def test_there_are_four_reported_states() -> None:
    assert len({CREATING, CREATED, STOPPED, REMOVED}) == 4
