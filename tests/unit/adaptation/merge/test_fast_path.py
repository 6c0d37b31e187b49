"""The fast path for typical replies: its conditions and its claims."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge.entries import read
from nri.adaptation.merge.fast_path import entries, split, survey
from nri.api import messages as m
from nri.api.fields import TREE
from tests.unit.adaptation.merge.build import adjusts


def test_the_claims_cover_every_field_and_key() -> None:
    fields = survey(
        adjusts(
            env=[{"key": "A"}], annotations={"k": "v"}, args=["x"], hooks={"prestart": [{"path": "/h"}]},
            linux={"resources": {"cpu": {"shares": {"value": "1"}}, "devices": [{"type": "c"}]}},
        ).adjust,
        "ctr",
    )  # fmt: skip
    assert fields is not None
    assert sorted(fields[1]) == sorted(
        [
            ("ctr", m.Field.Env, "A"),
            ("ctr", m.Field.Annotations, "k"),
            ("ctr", m.Field.Args, ""),
            ("ctr", m.Field.OciHooks, ""),
            ("ctr", m.Field.CPUShares, ""),
        ]
    )


@pytest.mark.parametrize(
    "adjust",
    [
        {"env": [{"key": "-A"}]},
        {"annotations": {"-k": ""}},
        {"rlimits": [{"type": "-NOFILE"}]},
        {"args": ["", "x"]},
        {"linux": {"rdt": {"remove": True}}},
    ],
    ids=["variable", "annotation", "mark that means nothing", "arguments taken over", "RDT reset"],
)
def test_a_reply_with_removals_does_not_take_the_fast_path(adjust: dict[str, Any]) -> None:
    assert survey(adjusts(**adjust).adjust, "ctr") is None


def test_empty_hooks_claim_nothing() -> None:
    assert survey(adjusts(hooks={}).adjust, "ctr") == (
        [(m.ContainerAdjustment.DESCRIPTOR.fields_by_name["hooks"], m.Hooks())],
        [],
    )


@pytest.mark.parametrize(
    ("linux", "usual"),
    [
        ({"rdt": {}}, False),
        ({"rdt": {"clos_id": {"value": "a"}}}, True),
        ({}, False),
        ({"resources": {}, "cgroups_path": "/x"}, True),
        ({"resources": {"memory": {}}}, False),
    ],
)
def test_a_reply_with_an_empty_message_does_not_take_the_fast_path(linux: dict[str, Any], usual: bool) -> None:
    assert (survey(adjusts(linux=linux).adjust, "ctr") is not None) is usual


def test_the_entries_equal_those_of_the_slow_path() -> None:
    adjust = adjusts(env=[{"key": "A"}], linux={"resources": {"memory": {"limit": {"value": "5"}}}}, args=["x"]).adjust
    fields = survey(adjust, "ctr")
    assert fields is not None
    assert {entry.row.path for entry in entries(fields[0])} == {entry.row.path for entry in read(adjust, TREE)}


def test_resources_that_a_merge_could_lose_are_separate_entries() -> None:
    adjust = adjusts(
        env=[{"key": "A"}],
        linux={
            "resources": {
                "unified": {"a": "1"},
                "cpu": {"cpus": "0", "shares": {"value": "5"}},
                "memory": {"limit": {"value": "0"}},
                "hugepage_limits": [{"page_size": "2MB"}],
            }
        },
    ).adjust
    fields = survey(adjust, "ctr")
    assert fields is not None
    merging, remainder = split(fields[0])
    assert merging
    assert {entry.row.path for entry in remainder} == {
        "env",
        "linux.resources.memory.limit",
        "linux.resources.hugepage_limits",
    }


def test_without_resources_nothing_is_merged() -> None:
    fields = survey(adjusts(args=["x"]).adjust, "ctr")
    assert fields is not None
    merging, remainder = split(fields[0])
    assert (merging, [entry.row.path for entry in remainder]) == (False, ["args"])
