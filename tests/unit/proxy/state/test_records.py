"""Records of pods and containers are values of their own."""

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
    first.shown.name = "x"
    assert not second.config.metadata.name
    assert not second.shown.name


def test_what_plugins_were_told_has_four_words() -> None:
    assert len({CREATING, CREATED, STOPPED, REMOVED}) == 4
