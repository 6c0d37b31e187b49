"""The states of a plugin's connection as a table: state and signal in, next state and actions out.

    connected -> registered -> configured -> synchronizing -> active -> late -> open
                                                               ^         |       |
                                                               '-answers-+-------'

| state | the plugin | events |
|---|---|---|
| connected | has a connection, but no name yet | no events |
| registered | has given its name, and is being configured | no events |
| configured | has subscribed to events, and waits for its turn at the gate | no events |
| synchronizing | is in the chain, and processes the state of the runtime | wait for it |
| active | takes part | are sent to it |
| late | takes part, and did not answer the last event in time | are sent to it |
| open | missed several events in a row: its breaker leaves it out | skip it, except for occasional trials |
| gone | has lost its connection, in any state | skip it |

A name is accepted once, in `connected`. Updates are accepted in `configured` and later. A pair that is not in the table
changes nothing: signals that lost a race (an answer after the connection ended) are harmless. "crash loop" and "not
launched" are states of an installed plugin without a connection; `nri.adaptation.launch.supervisor` reports them.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a plugin. The values are the words of health reports."""

    CONNECTED = "connected"
    REGISTERED = "registered"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"
    ACTIVE = "active"
    LATE = "late"
    OPEN = "open"
    CRASH_LOOP = "crash loop"
    NOT_LAUNCHED = "not launched"
    GONE = "gone"


class Signal(Enum):
    """Something that happened to a plugin or its connection."""

    REGISTER = "the plugin gave its name"
    UPDATE = "the plugin requests updates of containers"
    CONFIGURED = "the plugin answered Configure"
    JOINING = "the plugin entered the chain; the state of the runtime is being sent"
    SYNCHRONIZED = "the plugin took the state of the runtime"
    ANSWERED = "the plugin answered a request, perhaps with an error"
    MISSED = "the plugin did not answer in time, and stays connected"
    TRIPPED = "the plugin missed too many answers"
    FATAL = "the plugin failed in a way that ends the connection"
    LOST = "the connection ended"
    STOP = "the runtime stops, or replaces the plugin"


class Action(Enum):
    """An action that the peer or its owner has to carry out."""

    CONFIGURE = "run Configure and Synchronize in a separate thread"
    REFUSE_REPEAT = "answer that the plugin is registered already"
    REFUSE_UPDATE = "answer that the plugin is not configured yet"
    APPLY_UPDATE = "hand the updates to a worker"
    REPORT_READY = "notify the threads that wait for this plugin"
    REPORT_LATE = "log that the plugin is late"
    REPORT_OPEN = "log that the plugin is skipped for a while"
    REPORT_BACK = "log that the plugin answers again"
    REPORT_GONE = "log that the plugin is gone"
    CLOSE = "close the connection"
    LEAVE = "take the plugin out of the chain as soon as no event is being processed"


_A, _G, _S = Action, Signal, State
_Row = tuple[State, tuple[Action, ...]]

#: The plugin has the state of the runtime and takes part in events, unless its breaker leaves it out.
JOINED = frozenset((State.ACTIVE, State.LATE, State.OPEN))

_ALIVE = (_S.CONNECTED, _S.REGISTERED, _S.CONFIGURED, _S.SYNCHRONIZING, _S.ACTIVE, _S.LATE, _S.OPEN)
_IN_CHAIN = (_S.SYNCHRONIZING, *sorted(JOINED, key=lambda state: state.value))
_CONFIGURED = (_S.CONFIGURED, *_IN_CHAIN)

TABLE: dict[tuple[State, Signal], _Row] = {
    # The end of the connection: the same row for all states; plugins in the chain also leave it (below).
    **{(state, signal): (_S.GONE, (_A.CLOSE,)) for state in _ALIVE for signal in (_G.FATAL, _G.LOST, _G.STOP)},
    **{
        (state, signal): (_S.GONE, (_A.CLOSE, _A.LEAVE, _A.REPORT_GONE))
        for state in _IN_CHAIN
        for signal in (_G.FATAL, _G.LOST)
    },
    **{(state, _G.STOP): (_S.GONE, (_A.CLOSE, _A.LEAVE)) for state in _IN_CHAIN},
    # A name is accepted once.
    **{(state, _G.REGISTER): (state, (_A.REFUSE_REPEAT,)) for state in _ALIVE},
    (_S.CONNECTED, _G.REGISTER): (_S.REGISTERED, (_A.CONFIGURE,)),
    # Updates are accepted from plugins that are configured.
    **{(state, _G.UPDATE): (state, (_A.REFUSE_UPDATE,)) for state in (_S.CONNECTED, _S.REGISTERED)},
    **{(state, _G.UPDATE): (state, (_A.APPLY_UPDATE,)) for state in _CONFIGURED},
    # Joining.
    (_S.REGISTERED, _G.CONFIGURED): (_S.CONFIGURED, ()),
    (_S.CONFIGURED, _G.JOINING): (_S.SYNCHRONIZING, ()),
    (_S.SYNCHRONIZING, _G.SYNCHRONIZED): (_S.ACTIVE, (_A.REPORT_READY,)),
    # Events.
    (_S.LATE, _G.ANSWERED): (_S.ACTIVE, (_A.REPORT_BACK,)),
    (_S.OPEN, _G.ANSWERED): (_S.ACTIVE, (_A.REPORT_BACK,)),
    (_S.ACTIVE, _G.MISSED): (_S.LATE, (_A.REPORT_LATE,)),
    (_S.LATE, _G.MISSED): (_S.LATE, ()),
    (_S.OPEN, _G.MISSED): (_S.OPEN, ()),
    (_S.ACTIVE, _G.TRIPPED): (_S.OPEN, (_A.REPORT_OPEN,)),
    (_S.LATE, _G.TRIPPED): (_S.OPEN, (_A.REPORT_OPEN,)),
}


def step(state: State, signal: Signal) -> _Row:
    """The next state and its actions. A pair that is not in the table changes nothing."""
    return TABLE.get((state, signal), (state, ()))
