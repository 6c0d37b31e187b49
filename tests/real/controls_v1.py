"""Every control of cgroup v1 that a plugin can set: how, and what the container's file then says.

Rules: as in controls.py: all of them fit into one container, and each has a second value for an update. Where a file
has several lines, the text is one of them.
"""

from __future__ import annotations

from tests.real.controls import MIB, Control, disk, disk_path


def classes(*, weight: bool = True) -> str:
    """Classes of block I/O: `gold`, set at creation, and `silver`, for an update; crun 1.8 can set no weight."""
    disk = disk_path() or "/dev/none"
    created = ["Classes:"]
    for name, least in (("gold", 0), ("silver", 2)):
        created += [f"  {name}:", f"  - Weight: {200 + 50 * least}"] if weight else [f"  {name}:"]
        bps = f"ThrottleReadBps: {3 + least}Mi, ThrottleWriteBps: {4 + least}Mi"
        iops = f"ThrottleReadIOPS: {500 + least}, ThrottleWriteIOPS: {600 + least}"
        created.append(f"  - {{Devices: [{disk}], {bps}, {iops}}}")
    return "\n".join(created) + "\n"


def simple(file: str, setter: str, value: object, updated: object) -> Control:
    """A control whose file says what it was set to."""
    return Control(file, {setter: value}, str(value), {setter: updated}, str(updated))


def blockio(file: str, text: str, updated: str) -> Control:
    """A control that comes with a class of block I/O."""
    return Control(file, {"set_blockio_class": "gold"}, text, {"set_blockio_class": "silver"}, updated)


def throttle(name: str, value: int, updated: int) -> Control:
    return blockio(f"blkio/blkio.throttle.{name}_device", f"{disk()} {value}", f"{disk()} {updated}")


def device(access: str) -> dict[str, object]:
    return {"add_device_rule": [{"allow": True, "type": "c", "major": 10, "minor": 229, "access": access}]}


_ROWS = (
    simple("memory/memory.limit_in_bytes", "set_memory_limit", 96 * MIB, 90 * MIB),
    simple("memory/memory.memsw.limit_in_bytes", "set_memory_swap", 128 * MIB, 120 * MIB),
    simple("memory/memory.soft_limit_in_bytes", "set_memory_reservation", 32 * MIB, 24 * MIB),
    simple("memory/memory.swappiness", "set_memory_swappiness", 7, 9),
    simple("memory/memory.kmem.tcp.limit_in_bytes", "set_memory_kernel_tcp", 8 * MIB, 16 * MIB),
    Control(
        "memory/memory.oom_control",
        {"set_memory_disable_oom_killer": True},
        "oom_kill_disable 1",
        {"set_memory_disable_oom_killer": False},
        "oom_kill_disable 0",
    ),
    simple("cpu/cpu.shares", "set_cpu_shares", 512, 300),
    simple("cpu/cpu.cfs_quota_us", "set_cpu_quota", 30_000, 40_000),
    simple("cpu/cpu.cfs_period_us", "set_cpu_period", 60_000, 80_000),
    simple("cpu/cpu.rt_runtime_us", "set_cpu_realtime_runtime", 5_000, 6_000),
    simple("cpu/cpu.rt_period_us", "set_cpu_realtime_period", 500_000, 600_000),
    simple("cpuset/cpuset.cpus", "set_cpuset_cpus", "1", "0-1"),
    simple("cpuset/cpuset.mems", "set_cpuset_mems", "0", "0"),
    simple("pids/pids.max", "set_pids_limit", 55, 66),
    blockio("blkio/blkio.bfq.weight", "200", "300"),
    throttle("read_bps", 3 * MIB, 5 * MIB),
    throttle("write_bps", 4 * MIB, 6 * MIB),
    throttle("read_iops", 500, 502),
    throttle("write_iops", 600, 602),
    Control("devices/devices.list", device("r"), "c 10:229 r", device("rw"), "c 10:229 rw"),
)
CONTROLS = {row.file.partition("/")[2]: row for row in _ROWS}
"""Control by its file."""
