"""The states of a plugin's connection as a table."""

from __future__ import annotations

import pytest

from nri.adaptation.peers.state import JOINED, TABLE, Action, Signal, State, step

WAY_IN = [
    (Signal.REGISTER, State.REGISTERED),
    (Signal.CONFIGURED, State.CONFIGURED),
    (Signal.JOINING, State.SYNCHRONIZING),
    (Signal.SYNCHRONIZED, State.ACTIVE),
]
#: States of an installed plugin that its supervisor reports.
WITHOUT_CONNECTION = {State.CRASH_LOOP, State.NOT_LAUNCHED}
CONNECTIONS = [state for state in State if state not in {State.GONE, *WITHOUT_CONNECTION}]


def test_the_handshake_leads_to_the_active_state() -> None:
    state = State.CONNECTED
    for signal, expected in WAY_IN:
        state, _ = step(state, signal)
        assert state is expected


@pytest.mark.parametrize("state", CONNECTIONS)
@pytest.mark.parametrize("signal", [Signal.LOST, Signal.FATAL, Signal.STOP])
def test_every_connection_can_end_and_is_then_closed(state: State, signal: Signal) -> None:
    after, actions = step(state, signal)
    assert after is State.GONE
    assert Action.CLOSE in actions


@pytest.mark.parametrize("state", sorted([*JOINED, State.SYNCHRONIZING], key=lambda state: state.value))
@pytest.mark.parametrize("signal", [Signal.LOST, Signal.FATAL, Signal.STOP])
def test_a_plugin_in_the_chain_leaves_it_at_the_end(state: State, signal: Signal) -> None:
    assert Action.LEAVE in step(state, signal)[1]


@pytest.mark.parametrize("signal", list(Signal))
def test_a_disconnected_plugin_ignores_later_signals(signal: Signal) -> None:
    assert step(State.GONE, signal) == (State.GONE, ())


@pytest.mark.parametrize("state", [state for state in CONNECTIONS if state is not State.CONNECTED])
def test_a_second_registration_is_refused(state: State) -> None:
    assert step(state, Signal.REGISTER) == (state, (Action.REFUSE_REPEAT,))


@pytest.mark.parametrize("state", CONNECTIONS)
def test_updates_are_accepted_after_configure(state: State) -> None:
    early = state in (State.CONNECTED, State.REGISTERED)
    assert step(state, Signal.UPDATE) == (state, (Action.REFUSE_UPDATE if early else Action.APPLY_UPDATE,))


def test_an_open_breaker_returns_to_active_after_an_answer() -> None:
    assert step(State.ACTIVE, Signal.MISSED)[0] is State.LATE
    assert step(State.LATE, Signal.TRIPPED)[0] is State.OPEN
    assert step(State.OPEN, Signal.MISSED)[0] is State.OPEN
    assert step(State.OPEN, Signal.ANSWERED) == (State.ACTIVE, (Action.REPORT_BACK,))


def test_lateness_is_reported_once() -> None:
    assert step(State.LATE, Signal.MISSED) == (State.LATE, ())


def test_every_state_of_a_connection_can_be_reached() -> None:
    reachable = {State.CONNECTED}
    while True:
        more = reachable | {after for (state, _), (after, _) in TABLE.items() if state in reachable}
        if more == reachable:
            break
        reachable = more
    assert reachable == set(State) - WITHOUT_CONNECTION
