"""Any JSON as a spec and any adjustment: only a SpecError, an unchanged spec, and no lost unknown keys."""

import copy
import random
from typing import Any

from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from nri.api import messages as m
from nri.errors import SpecError
from nri.oci import Generator, MountPoint, MountTable, canonical, difference, validate
from nri.oci.fields import OBJECTS, fields_of
from tests.differential.generate import Draw

HOST = MountTable([MountPoint("/"), MountPoint("/src", "shared:1")])
SCALARS = (
    st.none() | st.booleans() | st.integers(-(1 << 65), 1 << 65) | st.text(max_size=8) | st.floats(allow_nan=False)
)
NAMES = st.sampled_from(["type", "path", "destination", "limit", "x", "pageSize", "major", "A=1", "FOO", "RLIMIT_CORE"])
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)


def objects(kind: str, depth: int = 2) -> st.SearchStrategy[Any]:
    """An object of the table, in which any field may have any value."""
    fields: dict[str, st.SearchStrategy[Any]] = {"x-unknown": ANY}
    for key, field in fields_of(kind).items():
        single = objects(field.kind, depth - 1) if field.kind in OBJECTS and depth else SCALARS
        complete = single
        if field.container == "[":
            complete = st.lists(single, max_size=3)
        elif field.container == "{":
            complete = st.dictionaries(st.sampled_from(["a", "b", "memory.high"]), single, max_size=2)
        fields[key] = complete | ANY
    return st.fixed_dictionaries({}, optional=fields)


SPECS = objects("Spec")


@given(SPECS, st.randoms(use_true_random=False), st.sampled_from(["default", "reference"]))
def test_any_adjustment_succeeds_or_is_a_spec_error(spec: Any, source: random.Random, compat: Any) -> None:
    adjustment = json_format.ParseDict(Draw(source).adjustment(), m.ContainerAdjustment())
    before = copy.deepcopy(spec)
    generator = Generator(
        spec, compat=compat, mounts=HOST, rdt=lambda name: {"closID": name}, blockio=lambda name: None
    )
    try:
        created = generator.adjust(adjustment)
    except SpecError:
        assert generator.spec is spec
    else:
        assert created.get("x-unknown") == before.get("x-unknown")
    assert spec == before


@given(SPECS)
def test_an_empty_adjustment_changes_nothing(spec: Any) -> None:
    assert Generator(spec).adjust(m.ContainerAdjustment()) == spec


@given(SPECS, SPECS)
def test_any_two_specs_can_be_compared(one: Any, other: Any) -> None:
    assert difference(one, one) == []
    if canonical(one) != canonical(other):
        existing, back = difference(one, other), difference(other, one)
        assert len(existing) == len(back)
        assert all(str(change) for change in existing)


@given(SPECS)
def test_a_canonical_spec_is_unchanged_by_canonical(spec: Any) -> None:
    entry = canonical(spec)
    assert canonical(entry) == entry


@given(ANY | SPECS)
def test_any_spec_can_be_validated(spec: Any) -> None:
    assert all(str(problem) for problem in validate(spec))


@given(st.text(max_size=300))
def test_any_text_is_a_mount_table(text: str) -> None:
    assert MountTable.parse(text).propagation("/a") in (None, "", "rshared", "rslave")
