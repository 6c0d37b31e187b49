"""What the settings say to the policy."""

from nri.agent.settings import AgentSettings, base_node
from nri.agent.settings.values import GpuSettings
from nri.policies.koordinator.profile import Node
from nri.policies.koordinator.quirks import Quirks


def test_an_agent_without_settings_decides_with_the_hooks_that_koordinator_has_on() -> None:
    node = base_node(AgentSettings())
    assert node == Node(gates=frozenset({"GroupIdentity", "CPUSetAllocator", "BatchResource"}))


def test_every_setting_of_the_policy_reaches_it() -> None:
    settings = AgentSettings(
        failure_policy="Fail",
        disabled_stages=("PreCreateContainer",),
        keep_quota=True,
        compat="reference",
        gates={"BECPUManager": True, "Resctrl": True, "GroupIdentity": False},
        gpu=GpuSettings("/lib.so", monitor=True),
    )
    assert base_node(settings) == Node(
        gates=frozenset({"CPUSetAllocator", "BatchResource", "Resctrl"}),
        disabled_stages=frozenset({"PreCreateContainer"}),
        fail=True,
        batch_pools=True,
        keep_quota=True,
        gpu_library="/lib.so",
        gpu_monitor=True,
        quirks=Quirks.REFERENCE,
    )
