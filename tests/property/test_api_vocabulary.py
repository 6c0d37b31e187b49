"""Properties of event masks, removal marks, versions and builders."""

import string

from hypothesis import given
from hypothesis import strategies as st

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.api.events import ALL, EVENTS, EventMask
from nri.api.naming import check_index, check_name, split_file_name
from nri.api.removal import is_marked, mark, split
from nri.versions import infer_nri_version, parse_version, version_at_least

MASKS = st.integers(0, 0x3FFF).map(EventMask)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
KEYS = TEXT.filter(lambda text: text and not text.startswith("-") and "=" not in text)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
LIMITS = st.integers(-1, (1 << 63) - 1)
SHARES = st.integers(2, 262144)
VERSION_LIKE = st.text("v0123456789.-+~abcdgmr ", max_size=24)


@given(MASKS.filter(bool))
def test_a_mask_is_parsed_from_its_text(mask: EventMask) -> None:
    assert EventMask.parse(str(mask)) == mask
    assert EventMask.parse(*str(mask).split(",")) == mask
    assert EventMask.of(*mask) == mask


@given(MASKS, MASKS)
def test_masks_follow_the_rules_of_sets(one: EventMask, other: EventMask) -> None:
    names = {spec.name for spec in one}
    other_entries = {spec.name for spec in other}
    assert {spec.name for spec in one | other} == names | other_entries
    assert {spec.name for spec in one & other} == names & other_entries
    assert {spec.name for spec in one - other} == names - other_entries
    assert {spec.name for spec in one ^ other} == names ^ other_entries
    assert one | ~one == ALL
    assert one & ~one == 0


@given(st.integers(0, (1 << 31) - 1).map(EventMask))
def test_no_bit_of_a_mask_is_lost(mask: EventMask) -> None:
    assert sum(spec.bit for spec in mask) + mask.unknown == mask
    assert all(mask.has(spec) == (spec in set(mask)) for spec in EVENTS)


@given(TEXT)
def test_split_returns_the_key_of_a_marked_key(key: str) -> None:
    assert split(mark(key)) == (key, True)
    assert is_marked(mark(key))


@given(TEXT)
def test_split_removes_only_one_mark(key: str) -> None:
    remainder, removed = split(key)
    assert (mark(remainder) if removed else remainder) == key


@given(st.one_of(TEXT, VERSION_LIKE))
def test_any_text_is_a_version_or_none_and_never_an_error(text: str) -> None:
    assert parse_version(text) is None or version_at_least(text, text)
    assert isinstance(infer_nri_version("containerd", text), str)


@given(VERSION_LIKE, VERSION_LIKE)
def test_versions_are_totally_ordered(one: str, other: str) -> None:
    if parse_version(one) is not None and parse_version(other) is not None:
        assert version_at_least(one, other) or version_at_least(other, one)


@given(
    st.text(string.digits, min_size=2, max_size=2), st.text(string.ascii_letters + string.digits + "_.+-", min_size=1)
)
def test_an_index_and_a_name_are_parsed_from_their_file_name(index: str, name: str) -> None:
    assert split_file_name(f"{check_index(index)}-{check_name(name)}") == (index, name)


@given(
    env=st.dictionaries(KEYS, TEXT),
    annotations=st.dictionaries(KEYS, TEXT),
    removed=st.lists(KEYS, unique=True),
    args=st.lists(TEXT, min_size=1).filter(lambda args: args[0] != ""),
    limit=LIMITS,
    shares=SHARES,
)
def test_an_adjustment_survives_encoding_and_decoding(
    env: dict[str, str], annotations: dict[str, str], removed: list[str], args: list[str], limit: int, shares: int
) -> None:
    adjustment = Adjustment().set_args(args).set_memory_limit(limit).set_cpu_shares(shares)
    for name, value in env.items():
        adjustment.add_env(name, value)
    for key, value in annotations.items():
        adjustment.add_annotation(key, value)
    for path in removed:
        adjustment.remove_mount(path)
    second = Adjustment.from_bytes(adjustment.to_bytes())
    assert second == adjustment == adjustment.copy()
    assert (second.env, second.annotations, second.args) == (env, annotations, tuple(args))
    assert (second.memory_limit, second.cpu_shares) == (limit, shares)
    assert second.removed().get("mounts", []) == removed
    assert repr(second).startswith("Adjustment(")
    assert second.to_json() == adjustment.to_json()


@given(
    container_id=TEXT.filter(bool),
    unified=st.dictionaries(KEYS.filter(lambda key: "/" not in key), TEXT),
    pids=st.integers(-1, (1 << 63) - 1),
    quota=st.integers(1000, (1 << 63) - 1) | st.integers(-5, 0),
)
def test_an_update_survives_encoding_and_decoding(
    container_id: str, unified: dict[str, str], pids: int, quota: int
) -> None:
    update = Update(container_id).set_pids_limit(pids).set_cpu_quota(quota)
    for key, value in unified.items():
        update.add_unified(key, value)
    second = Update.from_bytes(update.to_bytes())
    assert second == update
    assert (second.container_id, second.unified, second.pids_limit, second.cpu_quota) == (
        container_id,
        unified,
        pids,
        quota,
    )
