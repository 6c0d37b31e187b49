"""Profiles are found by name and know the owner of each knob."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.profile import PROFILES, profile_of
from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.errors import ConfigError
from nri.host.cgroups import KNOBS


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_found_by_its_name(name: str) -> None:
    assert profile_of(name).name == name == AgentSettings(profile=name).profile


def test_an_unknown_profile_is_an_error_that_lists_the_profiles(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use koordinator, rubik"):
        profile_of("kordinator")
    file = tmp_path / "agent.toml"
    file.write_text('profile = "kordinator"\n')
    with pytest.raises(
        ConfigError, match=r'profile: expected one of koordinator, rubik, not "kordinator".*did you mean'
    ):
        AGENT_SETTINGS.load(file, environment={})


def test_a_gate_without_a_hook_or_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gates\.Resctl is not a hook or strategy of profile koordinator"):
        AgentSettings(gates={"Resctl": True})


def test_owners_of_a_knob_are_hooks_and_strategies() -> None:
    profile = profile_of("koordinator")
    assert profile.owners_of("cpu.cfs_quota") == (
        "BatchResource", "CPUNormalization", "CPUSetAllocator", "BECPUSuppress", "CPUBurst",
    )  # fmt: skip
    assert profile.owners_of("nothing") == ()
    assert {owner.name for owner in profile.owners()} <= profile.gates.keys()


#: Fields of NRI, and what the agent writes in addition to cgroups.
_OTHERS = {"env", "mounts", "devices", "oom_score_adj", "resctrl", "sysctl", "core_sched.cookie", "tc", "terway"}


@pytest.mark.parametrize("name", PROFILES)
def test_every_owned_knob_exists(name: str) -> None:
    profile = profile_of(name)
    owned = {owns.knob for row in (*profile.hooks, *profile.strategies) for owns in row.owns}
    assert owned <= set(KNOBS) | _OTHERS
