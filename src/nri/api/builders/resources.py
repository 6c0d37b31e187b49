"""The resource setters that adjustments and updates share: `Resources`, a mixin over a message's `linux.resources`.

A setter checks the value, creates the messages on its path (presence means "set", even to zero), and returns the
builder. Units are the kernel's: bytes and microseconds.
"""

from __future__ import annotations

from nri.api import optional
from nri.api.builders.builder import Answer
from nri.api.builders.checks import (
    I64,
    LIMIT,
    MAX_CFS_PERIOD_US,
    U64,
    cfs_time,
    cpu_shares,
    flag,
    folder_name,
    integer,
    memory_limit,
    number_list,
    one_of,
    text,
)
from nri.api.builders.checks import page_size as check_page_size
from nri.api.builders.checks import (
    swappiness as check_swappiness,
)
from nri.api.builders.unified import check_unified
from nri.api.builders.view import ResourceView
from nri.api.messages import HugepageLimit, LinuxDeviceCgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class Resources(Answer, ResourceView):
    """Setters and readers of resources. Every setter returns the builder, so that calls chain.

    Raises, all setters:
        TypeError: the value has the wrong type.
        ValueError: no runtime could apply the value; the error names the argument.
    """

    __slots__ = ()

    message: Any

    def set_memory_limit(self, limit_bytes: int) -> Self:
        """Set the memory limit in bytes; -1 is unlimited."""
        memory, checked = self.message.linux.resources.memory, memory_limit("limit_bytes", limit_bytes)
        if memory.HasField("swap") and 0 < memory.swap.value < checked:
            raise ValueError(
                f"limit_bytes must not exceed memory and swap together, {memory.swap.value}, but is {checked}:"
                " call set_memory_swap() first"
            )
        memory.limit.value = checked
        return self

    def set_memory_reservation(self, reservation_bytes: int) -> Self:
        """Set the soft limit of memory in bytes; -1 is unlimited."""
        self.message.linux.resources.memory.reservation.value = memory_limit("reservation_bytes", reservation_bytes)
        return self

    def set_memory_swap(self, swap_bytes: int) -> Self:
        """Set the limit of memory and swap together in bytes, not below the memory limit; -1 is unlimited."""
        memory, checked = self.message.linux.resources.memory, memory_limit("swap_bytes", swap_bytes)
        if memory.HasField("limit") and 0 < checked < memory.limit.value:
            raise ValueError(
                f"swap_bytes must be at least the memory limit, {memory.limit.value}, because it includes memory, not"
                f" {checked}"
            )
        memory.swap.value = checked
        return self

    def set_memory_kernel(self, kernel_bytes: int) -> Self:
        """Set the limit of kernel memory in bytes (cgroup v1); -1 is unlimited."""
        self.message.linux.resources.memory.kernel.value = integer("kernel_bytes", kernel_bytes, LIMIT)
        return self

    def set_memory_kernel_tcp(self, kernel_tcp_bytes: int) -> Self:
        """Set the memory limit of TCP buffers in bytes (cgroup v1); -1 is unlimited."""
        self.message.linux.resources.memory.kernel_tcp.value = integer("kernel_tcp_bytes", kernel_tcp_bytes, LIMIT)
        return self

    def set_memory_swappiness(self, swappiness: int) -> Self:
        """Set the tendency to swap, 0 to 100, or to 200 with runtimes other than runc (cgroup v1)."""
        self.message.linux.resources.memory.swappiness.value = check_swappiness("swappiness", swappiness)
        return self

    def set_memory_disable_oom_killer(self, disable: bool = True) -> Self:
        """Pause processes instead of killing them when out of memory (cgroup v1)."""
        self.message.linux.resources.memory.disable_oom_killer.value = flag("disable", disable)
        return self

    def set_memory_use_hierarchy(self, use: bool = True) -> Self:
        """Count the memory of child groups (cgroup v1)."""
        self.message.linux.resources.memory.use_hierarchy.value = flag("use", use)
        return self

    def set_cpu_shares(self, shares: int) -> Self:
        """Set the relative weight, 2 to 262144 (the scale of cgroup v1; runtimes convert it)."""
        self.message.linux.resources.cpu.shares.value = cpu_shares("shares", shares)
        return self

    def set_cpu_quota(self, quota_us: int) -> Self:
        """Set the run time per period in microseconds, 1000 or more; -1 is unlimited."""
        self.message.linux.resources.cpu.quota.value = cfs_time("quota_us", quota_us, I64, U64[1])
        return self

    def set_cpu_period(self, period_us: int) -> Self:
        """Set the length of a period in microseconds, 1000 to 1000000."""
        self.message.linux.resources.cpu.period.value = cfs_time("period_us", period_us, U64, MAX_CFS_PERIOD_US)
        return self

    def set_cpu_realtime_runtime(self, runtime_us: int) -> Self:
        """Set the realtime run time per realtime period in microseconds."""
        self.message.linux.resources.cpu.realtime_runtime.value = integer("runtime_us", runtime_us, I64)
        return self

    def set_cpu_realtime_period(self, period_us: int) -> Self:
        """Set the length of a realtime period in microseconds."""
        self.message.linux.resources.cpu.realtime_period.value = integer("period_us", period_us, U64)
        return self

    def set_cpuset_cpus(self, cpus: str) -> Self:
        """Set the allowed CPUs in the kernel's list format, `0-3,8`. They cannot be reset, so "" is an error."""
        self.message.linux.resources.cpu.cpus = number_list("cpus", cpus)
        return self

    def set_cpuset_mems(self, mems: str) -> Self:
        """Set the allowed memory nodes in the kernel's list format, `0-3,8`.

        They cannot be reset, so "" is an error.
        """
        self.message.linux.resources.cpu.mems = number_list("mems", mems)
        return self

    def set_pids_limit(self, limit: int) -> Self:
        """Set the limit of processes and threads; -1 is unlimited."""
        checked = integer("limit", limit, LIMIT)
        pids = self.message.linux.resources.pids
        pids.limit = checked
        pids.SetInParent()
        return self

    def add_hugepage_limit(self, page_size: str, limit_bytes: int) -> Self:
        """Limit the huge pages of a size (`2MB`, `1GB`), in bytes."""
        limit = HugepageLimit(
            page_size=check_page_size("page_size", page_size), limit=integer("limit_bytes", limit_bytes, U64)
        )
        self.message.linux.resources.hugepage_limits.append(limit)
        return self

    def set_blockio_class(self, name: str) -> Self:
        """Set the block I/O class from the runtime's configuration. "" removes the container from all classes."""
        self.message.linux.resources.blockio_class.value = text("name", name)
        return self

    def set_rdt_class(self, name: str) -> Self:
        """Set the RDT class from the runtime's configuration. "" removes the container from all classes."""
        self.message.linux.resources.rdt_class.value = folder_name("name", name)
        return self

    def add_unified(self, key: str, value: str) -> Self:
        """Set the value of a file of cgroup v2, for example `memory.high`. It cannot be removed again."""
        check_unified(key, value)
        self.message.linux.resources.unified[key] = value
        return self

    def add_device_rule(
        self,
        allow: bool,
        type: str = "a",  # noqa: A002 - the field's name
        *,
        major: int | None = None,
        minor: int | None = None,
        access: str = "rwm",
    ) -> Self:
        """Add a rule of the device control group after earlier rules. Runtimes apply it only to new containers.

        Args:
            allow: allow or deny.
            type: `a` all, `b` block, `c` character.
            major: major number, None for any.
            minor: minor number, None for any.
            access: any of `r` read, `w` write, `m` create a node.
        """
        if not set(text("access", access, allow_empty=False)) <= set("rwm"):
            raise ValueError(f"access must consist of r, w and m, not {access!r}")
        rule = LinuxDeviceCgroup(allow=flag("allow", allow), type=one_of("type", type, ("a", "b", "c")), access=access)
        for field, number in (("major", major), ("minor", minor)):
            optional.put(rule, field, number if number is None else integer(field, number, I64))
        self.message.linux.resources.devices.append(rule)
        return self
