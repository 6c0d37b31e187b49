"""Setters of the Linux part take keywords or whole messages, and names of every enum."""

from __future__ import annotations

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment


def test_keywords_make_the_same_message_as_whole_messages() -> None:
    by_keywords = (
        Adjustment()
        .add_mount("/a", source="/b", type="bind", options=["ro"])
        .add_device("/dev/x", "b", 8, 1, file_mode=0o660, uid=0)
        .add_hook("poststop", "/bin/h", ["h", "x"], ["A=b"], timeout_s=2)
        .set_scheduler("FIFO", priority=5, flags=["RECLAIM"])
        .add_net_device("eth0", "e0")
        .add_cdi_device("v/c=d")
    )
    device = m.LinuxDevice(path="/dev/x", type="b", major=8, minor=1)
    device.file_mode.value = 0o660
    device.uid.value = 0
    device.uid.SetInParent()
    hook = m.Hook(path="/bin/h", args=["h", "x"], env=["A=b"], timeout=m.OptionalInt(value=2))
    by_messages = (
        Adjustment()
        .add_mount(m.Mount(destination="/a", source="/b", type="bind", options=["ro"]))
        .add_device(device)
        .add_hooks(m.Hooks(poststop=[hook]))
        .set_scheduler(m.LinuxScheduler(policy="SCHED_FIFO", priority=5, flags=["SCHED_FLAG_RECLAIM"]))
        .add_net_device("eth0", m.LinuxNetDevice(name="e0"))
        .add_cdi_device(m.CDIDevice(name="v/c=d"))
    )
    assert by_keywords == by_messages


def test_short_names_of_every_enum_are_known() -> None:
    adjustment = (
        Adjustment().set_scheduler("OTHER", flags=["RESET_ON_FORK"]).set_memory_policy("BIND", "0", ["STATIC_NODES"])
    )
    linux = adjustment.message.linux
    assert linux.scheduler.policy == m.LinuxSchedulerPolicy.SCHED_OTHER
    assert list(linux.scheduler.flags) == [m.LinuxSchedulerFlag.SCHED_FLAG_RESET_ON_FORK]
    assert linux.memory_policy.mode == m.MpolMode.MPOL_BIND
    assert list(linux.memory_policy.flags) == [m.MpolFlag.MPOL_F_STATIC_NODES]
