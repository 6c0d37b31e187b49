"""Bursts: who gets one, the pod's sum, and one that is no longer asked for."""

from __future__ import annotations

import pytest

from nri.agent.rubik.decisions import quota_burst
from nri.agent.rubik.decisions.quota_burst import ANNOTATION, Quota
from nri.agent.rubik.pods import Container, Pod

POD = Pod("u", folder="p", containers=(Container("1", folder="p/1"), Container("2", folder="p/2")))


def _asking(text: str) -> Pod:
    return Pod("u", folder="p", annotations={ANNOTATION: text}, containers=POD.containers)


def _written(pod: Pod, **quotas: Quota) -> dict[str, str]:
    found = {"p": Quota(200_000, 100_000, 0), "p/1": Quota(50_000, 100_000, 0), "p/2": Quota(100_000, 100_000, 0)}
    found |= {name.replace("_", "/"): quota for name, quota in quotas.items()}
    burst = quota_burst.burst_of(pod.annotations) or 0
    return {write.folder: write.value for write in quota_burst.writes(pod, burst, found.__getitem__, 4)}


def test_a_burst_above_the_quota_is_refused_and_the_pod_has_the_sum_of_the_others() -> None:
    assert _written(_asking("60000")) == {"p/2": "60000", "p": "60000"}
    assert _written(_asking("50000")) == {"p/1": "50000", "p/2": "50000", "p": "100000"}
    assert _written(_asking("50000"), p_1=Quota(None, 100_000, 0), p=Quota(400_000, 100_000, 0)) == {"p/2": "50000"}


def test_an_unlimited_quota_takes_any_burst() -> None:
    unlimited = Quota(-1, 100_000, 0)
    assert _written(_asking("60000"), p=unlimited, p_1=unlimited) == {
        "p/1": "60000",
        "p/2": "60000",
        "p": "120000",
    }


def test_zeros_before_a_burst_are_nothing() -> None:
    assert quota_burst.burst_of({ANNOTATION: "0" * 24 + "7"}) == 7


@pytest.mark.parametrize("text", ["-5", "abc", "0x10", " 7", "1_000", "9999999999999999999"])
def test_what_is_no_number_of_microseconds_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of microseconds"):
        _written(_asking(text))
