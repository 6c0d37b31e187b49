"""The target for the merge: replies of several plugins with any content, in both modes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.api import messages as m
from nri.errors import NriError, ProtocolError
from nri.rules import Rules
from nri.testing import make_container, make_pod
from nri.wire import bytes_field, iter_fields
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_POD, _CONTAINER = make_pod(name="web"), make_container(name="app")


def _merge(data: bytes) -> None:
    """Replies of three plugins, as the fields 1 (create), 2 (update) and 3 (stop) of the input."""
    create = m.CreateContainerRequest(pod=_POD, container=_CONTAINER)
    update = m.UpdateContainerRequest(pod=_POD, container=_CONTAINER)
    stop = m.StopContainerRequest(pod=_POD, container=_CONTAINER)
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        states: dict[int, Any] = {
            1: CreateMerge(create, rules),
            2: UpdateMerge(update, rules),
            3: StopMerge(stop, rules),
        }
        kinds = {1: m.CreateContainerResponse, 2: m.UpdateContainerResponse, 3: m.StopContainerResponse}
        for place, (number, _, value) in enumerate(iter_fields(data)):
            if number not in states or not isinstance(value, bytes):
                continue
            try:
                reply: Any = kinds[number].FromString(value)
            except Exception:  # the decoder's errors have no common base
                continue
            try:
                states[number].apply(f"{place % 100:02}-p", reply)
            except NriError as error:
                # The text of a conflict is the reference's word for word in its mode, key and all.
                assert rules is Rules.REFERENCE or str(error).isprintable(), repr(str(error))
        for state in states.values():
            state.reply().SerializeToString()
            state.owners().SerializeToString()


_MERGES = st.lists(
    st.one_of(
        st.builds(bytes_field, st.just(1), inputs.messages(m.CreateContainerResponse)),
        st.builds(bytes_field, st.just(2), inputs.messages(m.UpdateContainerResponse)),
        st.builds(bytes_field, st.just(3), inputs.messages(m.StopContainerResponse)),
    ),
    max_size=4,
).map(b"".join)

TARGETS = (Target("merge", _MERGES, _merge, (ProtocolError,)),)
