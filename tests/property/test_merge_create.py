"""Properties of the merge of any replies to CreateContainer."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.merge.entries import read
from nri.api import messages as m
from nri.api.fields import COMPOUND_FIELDS, FIELD_NAMES, TREE, Kind
from nri.errors import ConflictError, NriError, PluginError, UpdateError
from nri.rules import Rules
from tests.property.merge_messages import containers, create_replies, rules

SEVERAL = st.lists(create_replies(), min_size=1, max_size=4)


def state_for(container: m.Container, which: Rules) -> CreateMerge:
    request = m.CreateContainerRequest()
    request.container.CopyFrom(container)
    return CreateMerge(request, which)


def snapshot(state: CreateMerge) -> tuple[Any, ...]:
    return state.reply(), state.owners(), state.request, list(state.ignored), list(state.evictions)


def joined_bytes(origin: m.Container, state: CreateMerge) -> bytes:
    parts = m.Container()
    normalise(parts)
    encoded = origin.SerializeToString() + parts.SerializeToString()
    for step in state.steps():
        encoded = b"" if step is None else encoded + step
    if None in state.steps():
        encoded = state.encoded_base() + encoded
    return encoded


def fold(state: CreateMerge, replies: list[m.CreateContainerResponse]) -> str:
    for place, reply in enumerate(replies):
        try:
            state.apply(f"{place}0-p", reply)
        except (ConflictError, PluginError, UpdateError) as error:
            return str(error)
    return ""


@given(containers(), SEVERAL, rules())
def test_a_reply_is_accepted_completely_or_not_at_all(container: m.Container, replies: list[Any], which: Rules) -> None:
    state = state_for(container, which)
    for place, reply in enumerate(replies):
        before = snapshot(state)
        try:
            state.apply(f"{place}0-p", reply)
        except NriError:
            assert snapshot(state) == before, "a refused reply left something behind"


@given(containers(), SEVERAL, rules())
def test_the_merge_changes_neither_request_nor_reply(container: m.Container, replies: list[Any], which: Rules) -> None:
    given_before = [message.SerializeToString(deterministic=True) for message in (container, *replies)]
    state = CreateMerge(m.CreateContainerRequest(container=container), which)
    fold(state, replies)
    state.request, state.reply(), state.owners(), state.steps()
    assert [message.SerializeToString(deterministic=True) for message in (container, *replies)] == given_before


@given(containers(), SEVERAL, rules())
def test_the_merged_reply_and_owners_survive_encoding_and_decoding(
    container: m.Container, replies: list[Any], which: Rules
) -> None:
    state = state_for(container, which)
    fold(state, replies)
    for message in (state.reply(), state.owners(), state.request):
        assert type(message).FromString(message.SerializeToString()) == message


@given(containers(), SEVERAL, rules())
def test_the_encoded_reply_equals_the_merged_reply(container: m.Container, replies: list[Any], which: Rules) -> None:
    state, accepted = state_for(container, which), []
    for place, reply in enumerate(replies):
        try:
            state.apply(f"{place}0-p", reply)
        except NriError:
            continue
        accepted.append((f"{place}0-p", reply.SerializeToString()))
    assert m.CreateContainerResponse.FromString(state.encoded_reply(accepted)) == state.reply()


def claims_of(adjust: m.ContainerAdjustment) -> list[tuple[int, str]]:
    """Field and key of everything that an adjustment sets; a field that is not compound has the key ""."""
    claims: list[tuple[int, str]] = []
    for entry in read(adjust, TREE):
        row = entry.row
        if row.claim in COMPOUND_FIELDS:
            claims += [(row.claim, key) for key in entry.sets]
        elif row.claim and (row.kind is not Kind.ACCUMULATED or entry.value.ListFields()):
            claims.append((row.claim, ""))
    return claims


@given(containers(), SEVERAL)
def test_every_field_of_the_merged_reply_has_an_owner(container: m.Container, replies: list[Any]) -> None:
    """The owner of a field that is not a removal is the last plugin that set it."""
    state = state_for(container, Rules.DEFAULT)
    last: dict[tuple[int, str], str] = {}
    for place, reply in enumerate(replies):
        plugin = f"{place}0-p"
        try:
            state.apply(plugin, reply)
        except NriError:
            continue
        last.update(dict.fromkeys(claims_of(reply.adjust), plugin))
    for field, key in claims_of(state.reply().adjust):
        owner, expected = state.ledger.owner("ctr", field, key), last[field, key]
        assert expected in owner.split(","), f"{FIELD_NAMES[field]} {key}: owned by {owner!r}, set by {expected!r}"


@given(containers(), SEVERAL)
def test_a_key_is_in_the_merged_reply_only_once(container: m.Container, replies: list[Any]) -> None:
    state = state_for(container, Rules.DEFAULT)
    for place, reply in enumerate(replies):
        try:
            state.apply(f"{place}0-p", reply)
        except NriError:
            continue
    for entry in read(state.reply().adjust, TREE):
        if entry.row.claim in COMPOUND_FIELDS and entry.row.removable:
            bare = [key.removeprefix("-") for key in entry.keys if not key.startswith("--")]
            assert len(set(bare)) == len(bare), f"{entry.row.path} has {entry.keys}"


def _merged_or_conflict(container: m.Container, replies: list[Any], order: tuple[int, int]) -> Any:
    state = state_for(container, Rules.REFERENCE)
    try:
        for place in order:
            state.apply(f"{place}0-p", replies[place])
    except ConflictError:
        return "conflict"
    adjust = state.reply().adjust
    for field, value in adjust.ListFields():
        if field.is_repeated and field.message_type is not None and not field.message_type.GetOptions().map_entry:
            value.sort(key=lambda entry: entry.SerializeToString(deterministic=True))
    linux = adjust.linux
    for entry in (linux.devices, linux.namespaces, linux.resources.hugepage_limits, linux.resources.devices):
        entry.sort(key=lambda element: element.SerializeToString(deterministic=True))
    for hooks in adjust.hooks.DESCRIPTOR.fields_by_name:
        getattr(adjust.hooks, hooks).sort(key=lambda hook: hook.SerializeToString(deterministic=True))
    return adjust


@given(containers(), st.lists(create_replies(marks=False), min_size=2, max_size=2))
def test_without_removals_the_order_of_plugins_has_no_effect(container: m.Container, replies: list[Any]) -> None:
    for reply in replies:
        reply.adjust.linux.rdt.remove = False
        if reply.adjust.args and not reply.adjust.args[0]:
            reply.adjust.ClearField("args")
        reply.ClearField("update")
    forth, back = (_merged_or_conflict(container, replies, order) for order in ((0, 1), (1, 0)))
    assert forth == back


@given(containers(), SEVERAL, st.sampled_from([Rules.DEFAULT, Rules.REFERENCE]))
def test_the_bulk_merge_equals_the_merge_field_by_field(
    container: m.Container, replies: list[Any], which: Rules
) -> None:
    bulk, slow = state_for(container, which), state_for(container, which)
    errors = [fold(bulk, replies)]
    from nri.adaptation.merge import create

    original, survey = create.Claimer.claim, create.survey
    try:
        create.survey = lambda _adjust, _container: None  # type: ignore[assignment]
        create.Claimer.claim = lambda self, entries: bool(original(self, entries)) and False  # type: ignore[method-assign]
        errors.append(fold(slow, replies))
    finally:
        create.Claimer.claim, create.survey = original, survey  # type: ignore[method-assign]
    assert errors[0] == errors[1]
    assert bulk.reply() == slow.reply()
    assert bulk.owners() == slow.owners()
    assert bulk.container == slow.container


@given(containers(), SEVERAL, rules(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_an_adjustment_with_its_encoded_bytes_is_merged_like_any_other(
    container: m.Container, replies: list[Any], which: Rules, looks: list[bool]
) -> None:
    plain, joined = state_for(container, which), state_for(container, which)
    for place, reply in enumerate(replies):
        reply.ClearField("update")
        reply.ClearField("evict")
        adjust, errors = reply.adjust, []
        for take in (
            lambda: plain.apply(f"{place}0-p", reply),  # noqa: B023 - called here
            lambda: joined.adjusted(f"{place}0-p", adjust, adjust.SerializeToString()),  # noqa: B023
        ):
            try:
                take()
            except NriError as error:
                errors.append(str(error))
        assert len(set(errors)) <= 1
        assert len(errors) in (0, 2)
        if looks[place]:
            assert m.Container.FromString(joined_bytes(container, joined)) == plain.container
            assert joined.reply() == plain.reply()
    assert joined.reply() == plain.reply()
    assert joined.owners() == plain.owners()
    assert joined.container == plain.container


@given(containers(), SEVERAL, rules(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_joined_bytes_equal_the_container_of_the_next_plugin(
    container: m.Container, replies: list[Any], which: Rules, looks: list[bool]
) -> None:
    """Joined bytes are used where a plugin only added; both forms agree in any order of reading."""
    state = state_for(container, which)
    for place, reply in enumerate(replies):
        try:
            state.apply(f"{place}0-p", reply)
        except NriError:
            continue
        if looks[place]:
            assert m.Container.FromString(joined_bytes(container, state)) == state.container


@given(containers(), SEVERAL)
def test_the_container_of_the_next_plugin_does_not_depend_on_earlier_reads(
    container: m.Container, replies: list[Any]
) -> None:
    patient, curious = state_for(container, Rules.DEFAULT), state_for(container, Rules.DEFAULT)
    for place, reply in enumerate(replies):
        for state in (patient, curious):
            try:
                state.apply(f"{place}0-p", reply)
            except NriError:
                continue
        curious.steps()
    assert patient.container == curious.container


@given(containers())
def test_without_plugins_the_container_is_only_normalised(container: m.Container) -> None:
    state = state_for(container, Rules.DEFAULT)
    normalise(container)
    assert state.container == container
    assert state.reply().adjust.HasField("linux")
    assert not state.owners().owners
