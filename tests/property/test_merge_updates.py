"""Properties of the merge of any updates in replies to UpdateContainer and StopContainer."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.merge import StopMerge, UpdateMerge
from nri.api import messages as m
from nri.errors import ConflictError, NriError, PluginError, UpdateError
from nri.rules import Rules
from tests.property.merge_messages import KEYS, fill, rules, updates

ANY = updates(("ctr", "o1", "o2"))
REPLIES = st.lists(st.lists(ANY, max_size=3), min_size=1, max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> m.UpdateContainerRequest:
    request = m.UpdateContainerRequest()
    request.container.id = "ctr"
    if draw(st.booleans()):
        fill(draw, request.linux_resources, KEYS, 4)
    return request


def fold(state: Any, reply: Any, replies: list[Any]) -> None:
    for place, some in enumerate(replies):
        try:
            state.apply(f"{place}0-p", reply(update=some))
        except (ConflictError, PluginError, UpdateError):
            return


def snapshot(state: UpdateMerge) -> tuple[Any, ...]:
    copy = m.LinuxResources()
    copy.CopyFrom(state.resources)
    return state.reply(), state.owners(), copy, list(state.side.ignored)


@given(requests(), REPLIES, rules())
def test_the_last_update_is_for_the_requested_container(request: Any, replies: list[Any], which: Rules) -> None:
    state = UpdateMerge(request, which)
    fold(state, m.UpdateContainerResponse, replies)
    merged = state.reply().update
    assert merged[-1].container_id in ("ctr", "")
    assert "ctr" not in [update.container_id for update in merged[:-1]]
    if merged[-1].linux.resources.ListFields() and state.revision:
        assert merged[-1].linux.resources == state.resources, "the last update is not what later plugins see"


@given(requests(), REPLIES, rules())
def test_other_containers_are_updated_once_in_order_of_first_mention(
    request: Any, replies: list[Any], which: Rules
) -> None:
    state = UpdateMerge(request, which)
    fold(state, m.UpdateContainerResponse, replies)
    other_entries = [update.container_id for update in state.reply().update[:-1]]
    assert len(set(other_entries)) == len(other_entries)


@given(requests(), REPLIES, rules())
def test_a_reply_is_accepted_completely_or_not_at_all(request: Any, replies: list[Any], which: Rules) -> None:
    state = UpdateMerge(request, which)
    for place, some in enumerate(replies):
        before = snapshot(state)
        try:
            state.apply(f"{place}0-p", m.UpdateContainerResponse(update=some))
        except NriError:
            assert snapshot(state) == before, "a refused reply left something behind"


@given(requests(), REPLIES)
def test_unchanged_fields_of_a_request_are_kept(request: Any, replies: list[Any]) -> None:
    """Fields that no plugin sets stay as requested."""
    state = UpdateMerge(request, Rules.DEFAULT)
    fold(state, m.UpdateContainerResponse, replies)
    last = state.reply().update[-1]
    if not last.container_id:
        return
    claimed = {(claim.field, claim.key) for claim in state.ledger.claims() if claim.container == "ctr"}
    if (m.Field.CPUShares, "") not in claimed:
        assert last.linux.resources.cpu.shares == request.linux_resources.cpu.shares
    if (m.Field.MemLimit, "") not in claimed:
        assert last.linux.resources.memory.limit == request.linux_resources.memory.limit
    assert list(last.linux.resources.devices) == list(request.linux_resources.devices)


@given(requests(), REPLIES, rules())
def test_the_merge_does_not_change_the_runtimes_request(request: Any, replies: list[Any], which: Rules) -> None:
    before = request.SerializeToString(deterministic=True)
    state = UpdateMerge(request, which)
    fold(state, m.UpdateContainerResponse, replies)
    assert request.SerializeToString(deterministic=True) == before


@given(REPLIES, rules())
def test_every_updated_field_has_an_owner(replies: list[Any], which: Rules) -> None:
    state = StopMerge(m.StopContainerRequest(container=m.Container(id="ctr")), which)
    fold(state, m.StopContainerResponse, replies)
    for update in state.reply().update:
        resources = update.linux.resources
        if resources.cpu.HasField("shares"):
            assert state.ledger.owner(update.container_id, m.Field.CPUShares)
        for limit in resources.hugepage_limits:
            assert state.ledger.owner(update.container_id, m.Field.HugepageLimits, limit.page_size)
        for key in resources.unified:
            assert state.ledger.owner(update.container_id, m.Field.CgroupsUnified, key)
