"""CPU classes and interrupt affinities for each CPU and interrupt."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from nri.host.cpu_tuning import Limits, Setting
from nri.placement import masks
from nri.placement.choices import Choices
from nri.placement.containers import NoPlace
from nri.placement.machine import Machine
from nri.placement.policy import Devices, document
from nri.placement.topology_aware.policy import TopologyAware
from nri.placement.tuning import (
    CpuClass,
    IrqAffinity,
    Tuning,
    affinities,
    check_annotations,
    class_of,
    irq_affinity_of,
    settings,
    tuning_document,
)
from tests.support.placement import balloons, container, guest, topology_aware

LIMITS = Limits(800_000, 2_000_000, 3_600_000)
MACHINE = Machine.of(guest())
FAST, SLOW = CpuClass("fast", minFreq="turbo", turboPriority=1), CpuClass("slow", minFreq="base", maxFreq="turbo")


@pytest.mark.parametrize(
    ("values", "khz"),
    [("3.2GHz", 3_200_000), ("2900MHz", 2_900_000), ("2900000kHz", 2_900_000), ("2900000", 2_900_000),
     (1_000_000, 1_000_000), ("min", 800_000), ("base", 2_000_000), ("turbo", 3_600_000), ("", 0)],
)  # fmt: skip
def test_a_frequency_is_a_number_with_a_unit_or_a_name(values: str | int, khz: int) -> None:
    kind = CpuClass("x", maxFreq=values)
    assert settings([kind], {"x": 0b10}, MACHINE, lambda _: LIMITS).cpus == {1: Setting(max_khz=khz)}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": ""}, "must have a name"),
        ({"minFreq": "fast"}, "minFreq 'fast' is not a frequency; write 3.2GHz"),
        ({"uncoreMaxFreq": "3200GHz"}, "uncoreMaxFreq '3200GHz' is not a frequency"),
        ({"pctMinFreq": "0MHz"}, "pctMinFreq '0MHz' is not a frequency"),
        ({"minFreq": "3GHz", "maxFreq": 2_000_000}, r"minFreq 3GHz is above maxFreq \(2000000\)"),
        ({"uncoreMinFreq": "2.1GHz", "uncoreMaxFreq": "2GHz"}, "uncoreMinFreq 2.1GHz is above uncoreMaxFreq"),
        ({"energyPerformancePreference": 256}, "is out of range"),
        ({"freqGovernor": "../x"}, "is not a valid name of a governor"),
        ({"pctPriority": "high", "sstClosID": 1}, "exclude each other"),
    ],
)
def test_an_impossible_class_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CpuClass(**{"name": "x", **values})


@pytest.mark.parametrize("values", [{"minFreq": "2GHz", "maxFreq": "2GHz"}, {"minFreq": "turbo", "maxFreq": "2GHz"},
                                   {"minFreq": "2GHz", "maxFreq": "base"}, {"minFreq": "2GHz"}])  # fmt: skip
def test_equal_and_named_frequencies_are_accepted(values: dict[str, Any]) -> None:
    assert CpuClass("x", **values)


def test_unsupported_keys_are_reported_with_the_reason() -> None:
    kind = CpuClass("x", pctPriority="high", pctMaxFreq="turbo", publishExtendedResource=True)
    message = dict(kind.ignored_keys())
    assert list(message) == ["pctPriority", "pctMaxFreq", "publishExtendedResource"]
    assert list(SLOW.ignored_keys()) == []


def test_only_the_class_of_the_highest_priority_in_a_package_has_turbo() -> None:
    members = {"fast": masks.parse("0"), "slow": masks.parse("1,8")}
    actual = settings([FAST, SLOW], members, MACHINE, lambda _: LIMITS).cpus
    assert actual[0] == Setting(3_600_000)
    assert actual[1] == Setting(2_000_000, 2_000_000), "in the package of the faster class"
    assert actual[8] == Setting(2_000_000, 3_600_000), "in another package"
    cpu_settings = settings([FAST, SLOW], members, MACHINE, lambda _: LIMITS, one_turbo_domain=True).cpus
    assert cpu_settings[8] == Setting(2_000_000, 2_000_000)


def test_the_uncore_of_a_die_gets_the_maximum_of_its_classes() -> None:
    kinds = [CpuClass("a", uncoreMinFreq="1GHz"), CpuClass("b", uncoreMinFreq="2GHz", uncoreMaxFreq="3GHz")]
    cpu_settings = settings(kinds, {"a": masks.parse("0,8"), "b": masks.parse("1")}, MACHINE, lambda _: LIMITS)
    assert cpu_settings.uncore == {(0, 0): (2_000_000, 3_000_000), (1, 0): (1_000_000, 0)}


def test_idle_states_are_enabled_again_by_another_class() -> None:
    kinds = [CpuClass("awake", disabledCstates=["C6"], energyPerformancePreference=0, freqGovernor="performance"), SLOW]
    cpu_settings = settings(kinds, {"awake": 1, "slow": 2, "gone": 4}, MACHINE, lambda _: LIMITS).cpus
    assert cpu_settings[0] == Setting(0, 0, "performance", "0", frozenset({"C6"}))
    assert cpu_settings[1].disabled == frozenset()
    assert 2 not in cpu_settings


# -- interrupts --------------------------------------------------------------------------------------------------------

INTERRUPTS = {24: ("PCI-MSI 1-edge nvme0q0", 0b1111), 25: ("PCI-MSI 2-edge eth0", 0b1111), 26: ("timer", 0b1)}


def moved(*irq_affinities: IrqAffinity, controllable: tuple[str, ...] = ("*",)) -> dict[int, int]:
    return affinities(INTERRUPTS, irq_affinities, controllable, 0b11111111)


def test_a_claimed_interrupt_is_moved_to_all_claimants() -> None:
    assert moved() == {24: 0b1111, 25: 0b1111, 26: 0b1}
    assert moved(IrqAffinity("a", 0b10, ("*nvme*",)), IrqAffinity("b", 0b100, ("24",)))[24] == 0b110
    assert moved(IrqAffinity("a", 0b10, ("*eth0 *",)))[25] == 0b10, "a description has a space behind it"


def test_a_masked_interrupt_is_moved_to_other_cpus() -> None:
    masked = moved(IrqAffinity("a", 0b11, mask=("*",)))
    assert masked == {24: 0b1100, 25: 0b1100, 26: 0b11111100}
    assert moved(IrqAffinity("a", 0b11111111, mask=("*",)))[26] == 0b1


def test_claims_and_masks_of_later_entries_have_precedence() -> None:
    both = IrqAffinity("a", 0b10, ("*eth0 *",), ("*",))
    assert moved(both)[25] == 0b10
    assert moved(both)[24] == 0b1101
    assert moved(both._replace(claim_first=True))[25] == 0b1101


def test_a_sink_gets_unclaimed_interrupts() -> None:
    sunk = moved(IrqAffinity("sink", 0b1, sink=True), IrqAffinity("b", 0b10, ("*nvme*",)))
    assert sunk == {24: 0b10, 25: 0b1, 26: 0b1}


def test_only_controllable_interrupts_are_moved() -> None:
    assert list(moved(IrqAffinity("a", 1, ("*",)), controllable=("*nvme*",))) == [24]


# -- containers --------------------------------------------------------------------------------------------------------


def test_annotations_of_a_container_are_read() -> None:
    good = container("c", 2000, cpu_class="fast", irq_affinity='{claim: ["*eth*", 24], mode: claim-first}')
    check_annotations(good, True, [FAST])
    assert class_of(good, [FAST], "slow") == "fast"
    assert irq_affinity_of(good, 0b110) == IrqAffinity("default/c/c", 0b110, ("*eth*", "24"), (), True)
    assert irq_affinity_of(good, 0) is None
    assert good.doubts == []


def test_a_container_without_shares_has_no_exclusive_cpus() -> None:
    least = container("c", 0, 1 << 20, qos="Guaranteed", **{"irq_affinity/container.c": "{mask: ['*']}"})
    with pytest.raises(NoPlace, match="the container has no exclusive CPUs"):
        check_annotations(least, False, [])


FOR_ITSELF, FOR_ALL = "container.c", "pod"
NOT_OWN, UNKNOWN, UNREAD = (
    "the container has no exclusive CPUs",
    "unknown CPU class 'turbo'; write fast",
    "irq-affinity",
)


@pytest.mark.parametrize(
    ("key", "scope", "value", "qos", "has_exclusive", "refused"),
    [
        ("cpu_class", FOR_ITSELF, "fast", "Guaranteed", False, NOT_OWN),
        ("cpu_class", FOR_ITSELF, "fast", "Burstable", False, NOT_OWN),
        ("cpu_class", FOR_ITSELF, "", "Burstable", False, NOT_OWN),
        ("cpu_class", FOR_ITSELF, "", "Guaranteed", False, ""),
        ("cpu_class", FOR_ITSELF, "turbo", "Guaranteed", True, UNKNOWN),
        ("cpu_class", FOR_ALL, "turbo", "Guaranteed", True, UNKNOWN),
        ("cpu_class", FOR_ALL, "turbo", "Guaranteed", False, UNKNOWN),
        ("cpu_class", FOR_ALL, "turbo", "Burstable", False, ""),
        ("cpu_class", FOR_ALL, "fast", "Guaranteed", False, ""),
        ("irq_affinity", FOR_ITSELF, "{mask: ['*']}", "Guaranteed", False, NOT_OWN),
        ("irq_affinity", FOR_ITSELF, "{mask: ['*']}", "BestEffort", False, NOT_OWN),
        ("irq_affinity", FOR_ALL, "{mask: ['*']}", "Guaranteed", False, ""),
        *((("irq_affinity", scope, value, qos, False, UNREAD))
          for scope in (FOR_ITSELF, FOR_ALL) for qos in ("Guaranteed", "BestEffort")
          for value in ("{mode: first}", "[1]", "{claim: x}", "{claim: [[]]}", "[",
                        f"{{claim: [{', '.join(['x'] * 60)}], mask: [{', '.join(['y'] * 41)}]}}")),
    ],
)  # fmt: skip
def test_impossible_requests_for_exclusive_cpus_refuse_the_container(
    key: str, scope: str, value: str, qos: str, has_exclusive: bool, refused: str
) -> None:
    one = container("c", 2000, qos=qos, **{f"{key}/{scope}": value})
    total = f"annotation {key.replace('_', '-')}.resource-policy.nri.io/{scope}: "
    if not refused:
        check_annotations(one, has_exclusive, [FAST])
        return
    with pytest.raises(NoPlace, match=re.escape(total)) as error:
        check_annotations(one, has_exclusive, [FAST])
    assert refused in error.value.reason


def test_without_classes_a_requested_class_has_no_effect() -> None:
    one = container("c", 2000, irq_affinity="{Claim: ['*'], mask: , other: 1}", **{"cpu_class/container.c": "fast"})
    check_annotations(one, False, [])
    assert irq_affinity_of(one, 1) == IrqAffinity("default/c/c", 1, ("*",))
    assert [doubt.split(": ", 1)[1] for doubt in one.doubts] == [
        "it has no effect: cpuClasses is empty", "unknown key 'other'; known keys: claim, mask, mode"
    ]  # fmt: skip


def test_invalid_annotations_of_a_running_container_are_ignored() -> None:
    one = container("c", 0, qos="Guaranteed", cpu_class="turbo", irq_affinity="[1]")
    check_annotations(one, False, [FAST])
    assert (class_of(one, [FAST], "slow"), irq_affinity_of(one, 1)) == ("slow", None)
    assert len(one.doubts) == 1


@pytest.mark.parametrize(
    ("patterns", "controllable", "actual", "original"),
    [
        ("claim: ['*eth0*']", ["*nvme*"], "'*eth0*' is interrupt 25 (PCI-MSI 2-edge eth0)", True),
        ("claim: ['*nvme*'], mask: ['*eth*']", ["*nvme*"], "'*eth*' is interrupt 25", True),
        ("claim: ['*nvme*']", ["*nvme*"], "", False),
        ("mask: ['*']", ["*nvme*"], "", True),
        ("mask: ['*']", [], "nvme0q0), which must not be moved; controllableInterrupts: none", True),
        ("claim: [26]", ["*nvme*", "*eth*"], "'26' is interrupt 26 (timer)", False),
        ("claim: [26]", ["26"], "", False),
        ("claim: ['*sda*']", ["*nvme*"], "", False),
        ("mask: ['*']", ["*"], "", False),
    ],
)  # fmt: skip
def test_a_container_that_claims_only_fixed_interrupts_is_refused(
    patterns: str, controllable: list[str], actual: str, original: bool
) -> None:
    for choices in (Choices.DEFAULT, replace(Choices.DEFAULT, movable_interrupts_will_do=False), Choices.REFERENCE):
        outcome = {number: words for number, (words, _) in INTERRUPTS.items()}
        like = topology_aware(choices=choices, controllableInterrupts=controllable)
        devices = Devices()
        devices.interrupts = outcome.copy  # type: ignore[method-assign]
        policy = TopologyAware(like.machine, like.options, choices, devices=devices)
        placed = container("c", 2000, irq_affinity=f"{{{patterns}}}")
        if actual if choices is Choices.DEFAULT else original:
            with pytest.raises(NoPlace, match=r"annotation irq-affinity\.resource-policy") as error:
                policy.create(placed)
            assert choices is not Choices.DEFAULT or actual in error.value.reason
            assert policy.pins == {}
        else:
            assert policy.create(placed)["c"].cpus


# -- of policies -------------------------------------------------------------------------------------------------------

CLASSES = [{"name": "low", "maxFreq": "base"}, {"name": "system"}, {"name": "own"}, {"name": "fast", "minFreq": "turbo",
           "energyPerformancePreference": 0, "disabledCstates": ["C6", "C8"]}]  # fmt: skip


def class_cpus(tuning: Tuning) -> dict[str, str]:
    return {name: masks.text(cpus) for name, cpus in tuning.classes.items()}


def test_for_topology_aware_shared_reserved_and_exclusive_cpus_have_classes() -> None:
    policy = topology_aware(cpuClasses=CLASSES, sharedPoolCPUClass="low", reservedPoolCPUClass="system",
                            defaultExclusiveCPUClass="own")  # fmt: skip
    assert class_cpus(policy.tuning()) == {"low": "1-15", "system": "0"}
    policy.create(container("a", 2000))
    policy.create(container("b", 2000, irq_affinity="{mask: ['*']}", **{"cpu_class/container.b": "fast"}))
    policy.create(container("c", 500, qos="Burstable", cpu_class="fast"))
    assert class_cpus(policy.tuning()) == {"low": "1-3,6-7,10-15", "system": "0", "own": "4-5", "fast": "8-9"}
    assert policy.tuning().irq_affinities == [IrqAffinity("default/b/b", 0b1100000000, (), ("*",))]
    shown = document(policy)
    assert {"class": "fast", "cpus": "8-9", "settings": "minFreq turbo, disabledCstates C6 C8, "
            "energyPerformancePreference 0"} in shown["cpu_classes"]  # fmt: skip
    assert shown["interrupts"] == [{"who": "default/b/b", "cpus": "8-9", "claim": [], "mask": ["*"], "sink": False}]
    with pytest.raises(NoPlace, match="the container has no exclusive CPUs"):
        policy.create(container("d", 500, **{"cpu_class/container.d": "fast"}))
    policy.release("b")
    policy.release("a")
    assert class_cpus(policy.tuning()) == {"low": "1-15", "system": "0"}
    assert policy.tuning().irq_affinities == []


def test_without_classes_topology_aware_changes_no_cpu() -> None:
    policy = topology_aware()
    policy.create(container("a", 2000))
    assert policy.tuning() == Tuning({}, [])
    assert tuning_document([], Tuning({"x": 1})) == {"cpu_classes": [], "interrupts": []}
    with pytest.raises(ValueError, match="sharedPoolCPUClass: required"):
        topology_aware(cpuClasses=CLASSES)


def test_for_balloons_cpus_idle_cpus_and_interrupts_have_settings() -> None:
    policy = balloons(
        {"name": "quiet", "cpuClass": "fast", "irqMode": "isolate", "minCPUs": 2, "namespaces": ["*"]},
        {"name": "nic", "irqClaim": ["*eth*"], "irqMode": "sink", "minBalloons": 1, "minCPUs": 1},
        cpuClasses=CLASSES, idleCPUClass="low",
    )  # fmt: skip
    policy.create(container("a", 1000))
    classes, irq_affinities = policy.tuning()
    (quiet,) = [balloon for balloon in policy.balloons if balloon.type.name == "quiet"]
    assert classes["fast"] == quiet.cpus
    assert classes["low"] == policy.free
    by_name = {rule.who: rule for rule in irq_affinities}
    assert by_name["quiet[0]"] == IrqAffinity("quiet[0]", quiet.cpus, (), ("*",))
    assert (by_name["nic[0]"].claim, by_name["nic[0]"].sink) == (("*eth*",), True)
