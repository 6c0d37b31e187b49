"""The chain of plugins in calling order, its validators, and missing required plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.peers.builtin import BuiltinPeer, BuiltinPlugin
from nri.adaptation.peers.state import State
from nri.adaptation.registration.chain import Chain
from nri.api.events import BY_METHOD, EVENTS
from nri.plugin_policy.policy import Policies


class Owner:
    def act(self, *_: Any) -> None: ...


class Handles:
    def start_container(self, *_: Any) -> None: ...


def peer(index: str, name: str, state: State = State.ACTIVE, *, validates: bool = False) -> BuiltinPeer:
    peer = BuiltinPeer(Owner(), BuiltinPlugin(index, name, Handles()))
    peer.state = state
    policies: list[Any] = [None] * (len(EVENTS) + 1)
    if validates:
        policies[BY_METHOD["validate_container_adjustment"].number] = object()
    peer.event_policies = policies
    return peer


@pytest.fixture
def chain() -> Chain:
    return Chain(1.0, Policies(None))


def labels(peers: tuple[Any, ...]) -> list[str]:
    return [peer.label for peer in peers]


def test_plugins_are_sorted_by_index_and_time_of_registration(chain: Chain) -> None:
    first, second = peer("20", "z"), peer("20", "a")
    for entry in (second, peer("30", "m"), first, peer("05", "x")):
        chain.add(entry)
    assert labels(chain.peers) == ["05-x", "20-z", "20-a", "30-m"]


def test_the_list_of_plugins_is_replaced_and_never_modified(chain: Chain) -> None:
    chain.add(peer("10", "a"))
    before = chain.peers
    chain.add(peer("05", "b"))
    assert labels(before) == ["10-a"]


def test_a_disconnected_plugin_leaves_the_chain_between_events(chain: Chain) -> None:
    removed, stays = peer("10", "a"), peer("20", "b")
    for entry in (removed, stays):
        chain.add(entry)
    chain.gate.enter(urgent=False, deadline=None, patience_s=1.0)
    removed.state = State.GONE
    chain.leave()
    assert labels(chain.peers) == ["10-a", "20-b"], "the event under way sees the list change"
    chain.gate.leave()
    assert labels(chain.peers) == ["20-b"]


@pytest.mark.pure
def test_plugins_that_receive_validation_are_validators(chain: Chain) -> None:
    chain.add(peer("10", "a"))
    chain.add(peer("20", "b", validates=True))
    assert labels(chain.validators) == ["20-b"]


@pytest.mark.pure
def test_a_changed_policy_updates_the_validators(chain: Chain) -> None:
    created = peer("10", "a", validates=True)
    chain.add(created)
    created.event_policies = [None] * (len(EVENTS) + 1)
    chain.refresh()
    assert chain.validators == ()


def test_a_plugin_without_a_policy_is_not_a_validator(chain: Chain) -> None:
    created = peer("10", "a")
    created.event_policies = ()
    chain.add(created)
    assert chain.validators == ()


def test_required_plugins_are_absent_until_they_join_and_after_they_leave(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('["10-a"]\nrequired = true\n["20-b"]\nrequired = true\n')
    chain = Chain(1.0, Policies(str(path)))
    chain.note_absent()
    assert [label for label, _ in chain.absent] == ["10-a", "20-b"]
    created = peer("10", "a")
    chain.add(created)
    chain.note_absent()
    assert [label for label, _ in chain.absent] == ["20-b"]
    created.state = State.GONE
    chain.note_absent()
    assert [label for label, _ in chain.absent] == ["10-a", "20-b"]


def test_active_plugins_include_late_ones(chain: Chain) -> None:
    for index, state in enumerate((State.ACTIVE, State.LATE, State.OPEN, State.SYNCHRONIZING)):
        chain.add(peer(f"{index}0", "a", state))
    assert chain.active == 3
