"""The table of knobs: the neutral name of each setting of a cgroup, and its files on cgroup v1 and v2.

A value has the knob's unit on every kernel; its codec converts it to the file's unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nri.host.cgroups.units import (
    BFQ_WEIGHT,
    CPUS,
    DEVICE_WEIGHT,
    IO_WEIGHT,
    LIMIT_V1,
    LIMIT_V2,
    NUMBER,
    PERIOD_V2,
    QUOTA_V2,
    WEIGHT,
    WORDS_BY_DEVICE,
    Codec,
    Value,
    io_max,
    throttle,
)

_ANOLIS, _OPENEULER = "Anolis OS and Alibaba Cloud Linux", "openEuler"
_BOTH = f"{_ANOLIS}, {_OPENEULER}"


@dataclass(frozen=True, slots=True)
class Place:
    """A file with the value of a knob.

    Attributes:
        effective: the file with the effective value, if the kernel has one.
        only: the distribution whose kernels have the file, if mainline does not.
    """

    controller: str
    file: str
    codec: Codec
    effective: str = ""
    only: str = ""


@dataclass(frozen=True, slots=True)
class Knob:
    """A row of the table. Of several files of a version, the first that exists is used.

    Attributes:
        unit: a description of a value, and its unit.
        nested: whether a cgroup's value must be within its parent's.
        least: the smallest value, or None without a limit, or if the kernel adjusts the value.
        most: the largest value, or None without a limit.
        since: the mainline version of Linux that added the file, or "" if all supported kernels have it.
        instead: the alternative on a cgroup version without a file.
        resets: knobs of the same cgroup that the kernel changes together with this one.
    """

    name: str
    unit: str
    v1: tuple[Place, ...]
    v2: tuple[Place, ...]
    nested: bool = False
    least: int | None = None
    most: int | None = None
    since: str = ""
    instead: str = ""
    resets: tuple[str, ...] = ()

    def places(self, version: int) -> tuple[Place, ...]:
        """The files of a cgroup version, 1 or 2."""
        return self.v1 if version == 1 else self.v2

    def parse(self, text: str) -> Value:
        """Parse a number, or a list of CPUs or memory nodes (`0-3,8`).

        Raises:
            ValueError: the text is invalid, or the knob's values are by device.
        """
        codec = (*self.v1, *self.v2)[0].codec
        if codec.by_device:
            raise ValueError(f"{self.name} has one value per device and cannot be parsed from text")
        return CPUS.decode(text) if codec is CPUS else NUMBER.decode(text)

    def complaint(self, value: Value) -> str:
        """Why this is not a valid value of the knob. Returns "" if it is valid."""
        if not isinstance(value, int):
            return ""
        low = self.least is not None and value < self.least
        high = self.most is not None and value > self.most
        if not low and not high:
            return ""
        if self.most is None:
            return f"{value} is less than {self.least}"
        return f"{value} is not between {self.least} and {self.most}"


_Places = tuple[Place, ...]


def _on_both(file: str, only: str) -> tuple[_Places, _Places]:
    """A number in the same file on both versions."""
    place = (Place(file.partition(".")[0], file, NUMBER, only=only),)
    return place, place


def _memory(file: str, codec: Codec = NUMBER, only: str = _ANOLIS) -> _Places:
    """A file of cgroup v1 that only these kernels have."""
    return (Place("memory", file, codec, only=only),)


def _limits(v1: str, key: str) -> tuple[_Places, _Places]:
    first = Place("blkio", f"blkio.throttle.{v1}_device", throttle())
    return (first,), (Place("io", "io.max", io_max(key)),)


def _cost(name: str) -> tuple[_Places, _Places]:
    first = Place("blkio", f"blkio.cost.{name}", WORDS_BY_DEVICE, only=_BOTH)
    return (first,), (Place("io", f"io.cost.{name}", WORDS_BY_DEVICE),)


_MICROSECONDS, _SWITCH = "microseconds", "0 or 1"
_LIMIT, _BY_DEVICE = "bytes, -1 for no limit", "{} per second for each device, -1 for no limit"

_ROWS = (
    Knob("cpu.shares", "shares, 2 to 262144",
         (Place("cpu", "cpu.shares", NUMBER),), (Place("cpu", "cpu.weight", WEIGHT),)),
    Knob("cpu.cfs_quota", f"{_MICROSECONDS} of CPU time in each period, -1 for no limit",
         (Place("cpu", "cpu.cfs_quota_us", LIMIT_V1),), (Place("cpu", "cpu.max", QUOTA_V2),), nested=True),
    Knob("cpu.cfs_period", _MICROSECONDS,
         (Place("cpu", "cpu.cfs_period_us", NUMBER),), (Place("cpu", "cpu.max", PERIOD_V2),),
         least=1000, most=1_000_000),
    Knob("cpu.cfs_burst", _MICROSECONDS,
         (Place("cpu", "cpu.cfs_burst_us", NUMBER),), (Place("cpu", "cpu.max.burst", NUMBER),), least=0, since="5.14"),
    Knob("cpu.idle", _SWITCH, *_on_both("cpu.idle", ""), least=0, most=1, since="5.15", instead="the lowest cpu.shares",
         resets=("cpu.shares",)),
    Knob("cpu.bvt", "group identity, -1 to 2", *_on_both("cpu.bvt_warp_ns", _ANOLIS), least=-1, most=2,
         instead="cpu.idle or cpu.shares"),
    Knob("cpu.qos_level", "-1 offline, 0 online", (Place("cpu", "cpu.qos_level", NUMBER, only=_OPENEULER),), (),
         least=-1, most=0, instead="cpu.idle"),
    Knob("cpuset.cpus", "set of CPUs", (Place("cpuset", "cpuset.cpus", CPUS, "cpuset.effective_cpus"),),
         (Place("cpuset", "cpuset.cpus", CPUS, "cpuset.cpus.effective"),), nested=True),
    Knob("cpuset.mems", "set of memory nodes", (Place("cpuset", "cpuset.mems", CPUS, "cpuset.effective_mems"),),
         (Place("cpuset", "cpuset.mems", CPUS, "cpuset.mems.effective"),), nested=True),
    Knob("memory.limit", _LIMIT, (Place("memory", "memory.limit_in_bytes", LIMIT_V1),),
         (Place("memory", "memory.max", LIMIT_V2),), nested=True),
    Knob("memory.soft_limit", _LIMIT, (Place("memory", "memory.soft_limit_in_bytes", LIMIT_V1),), (),
         instead="memory.low"),
    Knob("memory.and_swap_limit", "bytes of memory and swap together, -1 for no limit",
         (Place("memory", "memory.memsw.limit_in_bytes", LIMIT_V1),), (), nested=True, instead="memory.swap_limit"),
    Knob("memory.swap_limit", "bytes of swap alone, -1 for no limit", (),
         (Place("memory", "memory.swap.max", LIMIT_V2),), nested=True, instead="memory.and_swap_limit"),
    *(Knob(name, _LIMIT, _memory(name, LIMIT_V1), (Place("memory", name, LIMIT_V2),), nested=True)
      for name in ("memory.min", "memory.low", "memory.high")),
    Knob("memory.oom_group", _SWITCH, _memory("memory.oom.group"), (Place("memory", "memory.oom.group", NUMBER),),
         least=0, most=1, since="4.19"),
    Knob("memory.swappiness", "0 to 200", (Place("memory", "memory.swappiness", NUMBER),), (), least=0, most=200),
    Knob("memory.wmark_ratio", "percent of the limit", *_on_both("memory.wmark_ratio", _ANOLIS), least=0, most=100,
         instead="memory.high"),
    Knob("memory.wmark_scale_factor", "hundredths of a percent", *_on_both("memory.wmark_scale_factor", _ANOLIS),
         least=1, most=1000),
    Knob("memory.wmark_min_adj", "percent, -25 to 50", *_on_both("memory.wmark_min_adj", _ANOLIS), least=-25, most=50),
    Knob("memory.priority", "0 to 12", *_on_both("memory.priority", _ANOLIS), least=0, most=12,
         instead="the OOM score of its processes"),
    Knob("memory.use_priority_oom", _SWITCH, *_on_both("memory.use_priority_oom", _ANOLIS), least=0, most=1),
    Knob("memory.pagecache_limit.enable", _SWITCH, *_on_both("memory.pagecache_limit.enable", _ANOLIS), least=0, most=1,
         instead="memory.high"),
    Knob("memory.pagecache_limit.size", "bytes, 0 for no limit", *_on_both("memory.pagecache_limit.size", _ANOLIS),
         least=0),
    Knob("memory.pagecache_limit.sync", "1 to reclaim synchronously, 0 in the background",
         *_on_both("memory.pagecache_limit.sync", _ANOLIS), least=0, most=1),
    Knob("memory.qos_level", "-1 offline, 0 online", _memory("memory.qos_level", only=_OPENEULER), (),
         least=-1, most=0, instead="memory.low and the OOM score of its processes"),
    Knob("memory.high_async_ratio", "percent of memory.high", *_on_both("memory.high_async_ratio", _OPENEULER),
         least=1, most=100),
    Knob("memory.wb_blkio_ino", "inode of the cgroup of block I/O that pays for written pages",
         _memory("memory.wb_blkio_ino", only=_OPENEULER), (), instead="both controllers share one cgroup"),
    Knob("pids.limit", "processes and threads, -1 for no limit", (Place("pids", "pids.max", LIMIT_V2),),
         (Place("pids", "pids.max", LIMIT_V2),), nested=True),
    Knob("io.weight", "10 to 1000",
         (Place("blkio", "blkio.bfq.weight", BFQ_WEIGHT), Place("blkio", "blkio.weight", NUMBER)),
         (Place("io", "io.bfq.weight", BFQ_WEIGHT), Place("io", "io.weight", IO_WEIGHT)), least=10, most=1000),
    Knob("io.read_bps", _BY_DEVICE.format("bytes"), *_limits("read_bps", "rbps")),
    Knob("io.write_bps", _BY_DEVICE.format("bytes"), *_limits("write_bps", "wbps")),
    Knob("io.read_iops", _BY_DEVICE.format("requests"), *_limits("read_iops", "riops")),
    Knob("io.write_iops", _BY_DEVICE.format("requests"), *_limits("write_iops", "wiops")),
    Knob("io.cost_model", "KEY=VALUE pairs for each device, in the root cgroup", *_cost("model"), since="5.4"),
    Knob("io.cost_qos", "KEY=VALUE pairs for each device, in the root cgroup", *_cost("qos"), since="5.4"),
    Knob("io.cost_weight", "1 to 10000", (Place("blkio", "blkio.cost.weight", NUMBER, only=_BOTH),), (),
         least=1, most=10000, instead="io.weight"),
    Knob("io.device_weight", "1 to 1000 for each device, -1 for the cgroup's own weight",
         (Place("blkio", "blkio.cost.weight", DEVICE_WEIGHT, only=_BOTH),
          Place("blkio", "blkio.bfq.weight_device", DEVICE_WEIGHT)),
         (Place("io", "io.bfq.weight", DEVICE_WEIGHT), Place("io", "io.weight", DEVICE_WEIGHT)), since="5.4"),
    Knob("net_cls.classid", "32 bits: a traffic class's major number, then its minor one",
         (Place("net_cls", "net_cls.classid", NUMBER),), (), least=0, most=0xFFFF_FFFF,
         instead="a filter by the path of the cgroup"),
    Knob("hugetlb.SIZE.limit", _LIMIT, (Place("hugetlb", "hugetlb.SIZE.limit_in_bytes", LIMIT_V1),),
         (Place("hugetlb", "hugetlb.SIZE.max", LIMIT_V2),), nested=True),
)  # fmt: skip

KNOBS = {row.name: row for row in _ROWS}
"""Knobs by their neutral name. For huge pages the page size replaces `SIZE`: see :func:`knob`."""

_SIZED = ("hugetlb.", ".limit")


def knob(name: str) -> Knob:
    """The knob of a name, such as `cpu.shares` or `hugetlb.2MB.limit`. Raises KeyError if the name is unknown."""
    row = KNOBS.get(name)
    if row is not None:
        return row
    size = name.removeprefix(_SIZED[0]).removesuffix(_SIZED[1])
    if f"{_SIZED[0]}{size}{_SIZED[1]}" != name or not size.isalnum():
        raise KeyError(name)
    row = KNOBS["hugetlb.SIZE.limit"]
    v1, v2 = (
        tuple(replace(place, file=place.file.replace("SIZE", size)) for place in places) for places in (row.v1, row.v2)
    )
    return replace(row, name=name, v1=v1, v2=v2)


def wider(one: Value, two: Value) -> Value:
    """The smallest value that includes both: the larger limit, or the union of sets, else the second value."""
    if isinstance(one, frozenset) and isinstance(two, frozenset):
        return one | two
    if isinstance(one, int) and isinstance(two, int):
        return -1 if -1 in (one, two) else max(one, two)
    return two
