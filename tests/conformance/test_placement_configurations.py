"""We accept and refuse the same configurations as nri-plugins (verdicts by record_zones)."""

from typing import Any

import pytest
import yaml

from nri.config import Source
from nri.errors import ConfigError
from nri.placement.ignored_keys import ignored_keys
from nri.placement.machine import Machine
from nri.placement.registry import POLICIES
from nri.placement.simulate import policy_of
from tests.support.placement import DATA, guest

CONFIGURATIONS = {entry["id"]: entry for entry in yaml.safe_load((DATA / "configurations.yaml").read_text())}
ROWS = {row.resource_kind: row for row in POLICIES.values()}


def loaded(name: str) -> Any:
    one = CONFIGURATIONS[name]
    text = yaml.safe_dump({"kind": one["kind"], "spec": one["spec"]})
    return policy_of(ROWS[one["kind"]], Machine.of(guest()), Source(name, text, "yaml"))


def warnings(name: str) -> dict[str, str]:
    return {key.key: key.reason for key in ignored_keys(loaded(name).options, 16)}


@pytest.mark.parametrize("name", [name for name, entry in CONFIGURATIONS.items() if entry["accepted"]])
def test_configurations_that_nri_plugins_accepts_are_accepted(name: str) -> None:
    assert loaded(name).pins == {}


@pytest.mark.parametrize("name", [name for name, entry in CONFIGURATIONS.items() if not entry["accepted"]])
def test_configurations_that_nri_plugins_refuses_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        loaded(name)


def test_an_undefined_class_is_a_warning_with_key_and_name() -> None:
    reason = "it has no effect: {!r} is not in cpuClasses; the CPUs keep their settings"
    assert warnings("sample-with-an-undefined-idle-class")["idleCPUClass"] == reason.format("undefined")
    assert warnings("types-with-undefined-classes")["balloonTypes[1].cpuClass"] == reason.format("absent")
    pools = warnings("pools-with-a-class-that-nothing-defines")
    assert pools["sharedPoolCPUClass"] == reason.format("low")
    assert not any("lass" in key for key in warnings("classes-of-releases-until-2026"))


def test_classes_in_the_older_format_apply_without_the_newer_format() -> None:
    policy = loaded("classes-of-releases-until-2026")
    classes = {cpu_class.name: cpu_class for cpu_class in policy.options.cpuClasses}
    assert (classes["quick"].maxFreq, classes["quick"].energyPerformancePreference) == (3_000_000, 1)
    assert (classes["slow"].minFreq, classes["slow"].energyPerformancePreference) == (700_000, None)
    assert set(policy.tuning().classes) == {"slow"}
    (newer,) = loaded("a-class-in-both-places").options.cpuClasses
    assert newer.maxFreq == "turbo"
    assert warnings("a-class-in-both-places") == {
        "control.cpu.classes.quick": "it has no effect: cpuClasses also has a class quick"
    }
    assert warnings("pools-with-older-classes") == {
        "control.cpu": "it has no effect: classes of CPUs are read from cpuClasses"
    }
