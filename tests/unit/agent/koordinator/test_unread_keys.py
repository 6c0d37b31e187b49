"""Rule keys without an effect."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator.documents import DEFAULTS
from nri.agent.koordinator.unread_keys import unread, unread_annotations

THRESHOLD = "resourceUsedThresholdWithBE"
SATISFACTION = ("cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent")
REFUSE = "Koordinator's manager would refuse it"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"resourceUsedThresholdWithBE": {"cpuSupressThresholdPercent": 5}},
            f"{THRESHOLD}.cpuSupressThresholdPercent: nothing reads it; did you mean cpuSuppressThresholdPercent?",
        ),
        (
            {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"groupIdentiti": 2}}}},
            "resourceQOSStrategy.lsClass.cpuQOS.groupIdentiti: nothing reads it; did you mean groupIdentity?",
        ),
        (
            {"resourceQOSStrategy": {"beClass": {"blkioQOS": {"blocks": [{"nam": "x"}]}}}},
            "resourceQOSStrategy.beClass.blkioQOS.blocks[0].nam: nothing reads it; did you mean name?",
        ),
        ({"zzz": {"a": 1}}, "zzz: nothing reads it"),
        (
            {THRESHOLD: {"enable": True, "cpuAllocatableEvictThresholdPercent": 90}},
            (
                f"{THRESHOLD}.cpuAllocatableEvictThresholdPercent: "
                "allocatableEvictPriorityThreshold is missing, so no pod is evicted"
            ),
        ),
        (
            {THRESHOLD: {"enable": True, "memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 70}},
            (
                f"{THRESHOLD}.memoryEvictThresholdPercent: memoryEvictThresholdPercent 70 with "
                "memoryEvictLowerPercent 70 is not valid: it must be 0 or more, and the "
                "lower threshold must be below it"
            ),
        ),
        (
            {THRESHOLD: {"enable": True, **dict.fromkeys(SATISFACTION, 100)}},
            (
                f"{THRESHOLD}.cpuEvictBESatisfactionUpperPercent: cpuEvictBESatisfactionUpperPercent 100 with "
                "cpuEvictBESatisfactionLowerPercent 100 is not valid: it must be from the lower threshold to 99, and "
                "the lower threshold from 1 to 60"
            ),
        ),
        (
            {"resourceQOSStrategy": {"beClass": {"memoryQOS": {"enable": True, "wmarkRatio": 150}}}},
            "resourceQOSStrategy.beClass.memoryQOS.wmarkRatio: 150 is not between 0 and 100, and " + REFUSE,
        ),
        (
            {
                "resourceQOSStrategy": {
                    "lsClass": {"resctrlQOS": {"catRangeStartPercent": 50, "catRangeEndPercent": 50}}
                }
            },
            (
                "resourceQOSStrategy.lsClass.resctrlQOS.catRangeStartPercent: 50 is not below catRangeEndPercent 50, "
                "and " + REFUSE
            ),
        ),
        (
            {"systemStrategy": {"minFreeKbytesFactor": 100, "schedFeatures": {"ID_BOOK_CPU": True}}},
            (
                "systemStrategy.schedFeatures: nothing reads it, not even koordlet: "
                "group identity and core scheduling set the sysctls that they need"
            ),
        ),
        (
            {"resourceQOSStrategy": {"policies": {"cpuPolicy": "groupIdentiti"}}},
            (
                'resourceQOSStrategy.policies.cpuPolicy: "groupIdentiti" has no effect: write one of groupIdentity, '
                "coreSched; did you mean groupIdentity?"
            ),
        ),
        (
            {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 99, "schedIdle": 1}}}},
            ("resourceQOSStrategy.lsClass.cpuQOS.groupIdentity: 99 is not between -1 and 2, and " + REFUSE),
        ),
        (
            {"hostApplications": [{"name": "x", "qos": "LS", "cgroupPath": {"base": "Root"}}]},
            (
                'hostApplications[0].cgroupPath.base: "Root" has no effect: write one of CgroupRoot, Kubepods, '
                "KubepodsBurstable, KubepodsBesteffort"
            ),
        ),
        (
            {"resourceQOSStrategy": {"lsClass": {"networkQOS": {"enable": True, "egressRequest": "50%"}}}},
            (
                "resourceQOSStrategy.lsClass.networkQOS.egressRequest: '50%' is neither a percentage from 0 to 100 "
                "nor a bandwidth, for example '100M'"
            ),
        ),
        (
            {"resourceQOSStrategy": {"beClass": {"networkQOS": {"enable": True, "egressLimit": 101}}}},
            (
                "resourceQOSStrategy.beClass.networkQOS.egressLimit: 101 is neither a percentage from 0 to 100 "
                "nor a bandwidth, for example '100M'"
            ),
        ),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_known_one(spec: dict[str, Any], line: str) -> None:
    assert [str(entry) for entry in unread({"spec": spec})] == [line]


def test_ranges_of_a_disabled_or_incomplete_part_are_not_checked() -> None:
    half = {"resctrlQOS": {"catRangeStartPercent": 50}, "memoryQOS": {"enable": False, "wmarkScalePermill": 0}}
    assert unread({"spec": {"resourceQOSStrategy": {"lsClass": half}}}) == []


def test_meaningful_words_and_shares_are_not_reported() -> None:
    network = {"networkQOS": {"enable": True, "egressRequest": 50, "egressLimit": "100M", "ingressLimit": None}}
    strategy = {"policies": {"cpuPolicy": "coreSched", "netQOSPolicy": ""}, "lsClass": network}
    assert [entry.key for entry in unread({"spec": {"resourceQOSStrategy": strategy}})] == [
        "resourceQOSStrategy.lsClass.networkQOS.ingressLimit"  # null
    ]
    terway = {"policies": {"netQOSPolicy": "terway-qos"}, "lsClass": {"networkQOS": {"egressLimit": 150}}}
    assert unread({"spec": {"resourceQOSStrategy": terway}}) == []


def test_a_part_of_the_spec_outside_it_is_reported_with_its_place() -> None:
    (line,) = unread({"kind": "NodeSLO", "cpuBurstStrategy": {"policy": "auto"}})
    assert str(line) == "cpuBurstStrategy: nothing reads it; did you mean spec.cpuBurstStrategy?"


def test_an_unknown_top_level_key_is_reported() -> None:
    assert [str(entry) for entry in unread({"kind": "NodeSLO", "spce": {"a": 1}})] == [
        "spce: nothing reads it; did you mean spec?"
    ]


@pytest.mark.parametrize("place", ["resourceQOSStrategy", "resourceQOSStrategy.lsClass", "cpuBurstStrategy.policy"])
def test_a_null_value_is_reported_because_the_default_applies(place: str) -> None:
    value: Any = None
    for key in reversed(place.split(".")):
        value = {key: value}
    assert [str(entry) for entry in unread({"spec": value})] == [f"{place}: the value is null, so the default applies"]


def test_known_keys_in_any_letter_case_and_empty_values_are_not_reported() -> None:
    assert unread({"spec": {"CPUBurstStrategy": {"POLICY": "auto"}, "hostApplications": [{"name": "a"}]}}) == []
    assert unread({"spec": DEFAULTS}) == [], "the manager writes all of them"
    (actual,) = unread({"spec": {"resourceQOSStrategy": {"lsClass": {"blkioQOS": {"enable": True}}}}})
    assert actual.key == "resourceQOSStrategy.lsClass.blkioQOS"


@pytest.mark.parametrize("spec", [None, [], {THRESHOLD: None}, {THRESHOLD: {"cpuEvictThresholdPercent": 5}}])
def test_thresholds_that_are_disabled_or_invalid_are_not_reported(spec: Any) -> None:
    assert not [entry for entry in unread({"spec": spec}) if "evict" in entry.why]


def test_a_threshold_of_two_features_is_effective_if_one_of_them_is() -> None:
    assert unread({"spec": {THRESHOLD: {"enable": True, "memoryEvictThresholdPercent": 70}}}) == []


def test_mistakes_in_topology_annotations_are_reported_in_keys_and_values() -> None:
    source = {
        "node.koordinator.sh/cpu-shared-pool": "[]",
        "kubelet.koordinator.sh/cpu-manager-policy": '{"policy": "static", "reservedCPU": "0"}',
        "node.koordinator.sh/reservation": "{",
        "node.koordinator.sh/cpu-basic-info": "{}",
        "other/cpu-shared-pool": "x",
    }
    message = "; ".join(map(str, unread_annotations({"metadata": {"annotations": source}})))
    assert message == (
        "annotation node.koordinator.sh/cpu-shared-pool: nothing reads it; "
        "did you mean node.koordinator.sh/cpu-shared-pools?; "
        "annotation kubelet.koordinator.sh/cpu-manager-policy: reservedCPU: nothing reads it; "
        "did you mean reservedCPUs?"
    )


@pytest.mark.parametrize("odd", [None, 5, [], {1: 2}, {"x" * 100_000: 1}, {str(n): 1 for n in range(10_000)}])
def test_unusual_documents_cost_little(odd: Any) -> None:
    actual = [*unread({"spec": odd}), *unread_annotations({"metadata": {"annotations": odd}})]
    assert len(actual) <= 200 and all(len(str(entry)) < 500 for entry in actual)
