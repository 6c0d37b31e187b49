"""What the kubelet asked for, from the annotation and from the API."""

from __future__ import annotations

import pytest

from nri.agent.transports.asked import ASKED_QUOTA, asked_before, by_api
from nri.api import messages as m
from nri.policies.koordinator.contexts import Resources


def test_a_quota_that_is_none_needs_no_note() -> None:
    for resources in (None, Resources(), Resources(cfs_quota=-1), Resources(cpu_shares=2)):
        assert asked_before(m.PodSandbox(), m.Container(), resources) == resources


@pytest.mark.parametrize(
    ("note", "quota"),
    [("200000 50000", 200_000), ("200000 60000", None), ("", None), ("x 50000", None), ("9" * 30 + " 50000", None)],
)
def test_the_note_counts_if_the_quota_is_the_one_that_was_made_then(note: str, quota: int | None) -> None:
    container = m.Container(annotations={ASKED_QUOTA: note})
    found = asked_before(m.PodSandbox(), container, Resources(cfs_quota=50_000, cpu_shares=3))
    assert found == Resources(cfs_quota=quota, cpu_shares=3)


def test_a_note_that_the_pod_has_as_well_is_a_users() -> None:
    annotations = {ASKED_QUOTA: "9000000 50000"}
    found = asked_before(
        m.PodSandbox(annotations=annotations), m.Container(annotations=annotations), Resources(cfs_quota=50_000)
    )
    assert found == Resources()


def test_pods_of_the_api_tell_and_one_that_cannot_be_read_is_passed_over() -> None:
    pods = [
        {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}},
        {"metadata": {"uid": "v"}, "spec": {"containers": [{"name": "a", "resources": 3}, {"name": "b"}]}},
        {},
    ]
    found = by_api(pods)
    assert found[("u", "a")].cfs_quota == 200_000
    assert set(found) == {("u", "a"), ("v", "b")}
