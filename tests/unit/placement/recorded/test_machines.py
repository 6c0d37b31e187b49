"""Machines of placement cases: descriptions, snapshots and changes of a case."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from nri.config import Source
from nri.config.complaint import single_errors
from nri.config.typed import fields_of, is_plain
from nri.errors import ConfigError
from nri.placement.balloons.options import Options as BalloonsOptions
from nri.placement.machine import Machine
from nri.placement.recorded.machines import Machines, make_policy, with_overrides
from nri.placement.registry import POLICIES
from nri.placement.simulate import policy_of
from nri.placement.snapshot import read_machine
from nri.placement.topology_aware.options import Options as TopologyAwareOptions
from tests.support.placement import DATA, guest, write_machine

SNAPSHOT = {"kind": "sysfs-snapshot", "data_file": "pkg_sysfs_test-data-sample1.tar.xz", "inside": "sample1/sys"}


def test_a_snapshot_in_an_archive_is_read_with_its_links() -> None:
    topology = Machines({"laptop": SNAPSHOT}, DATA).get("laptop")
    assert len(topology.cpus) == 16
    assert {cpu.kind for cpu in topology.cpus.values()} == {"performance", "efficient"}
    assert topology.cpus[0].base_khz


def test_an_unknown_machine_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown machine"):
        Machines({}, tmp_path).get("none")
    with pytest.raises(ConfigError, match="cannot read the machine"):
        Machines({"laptop": SNAPSHOT}, tmp_path).get("laptop")


def test_cyclic_links_end(tmp_path: Path) -> None:
    (tmp_path / "sysfs").mkdir()
    with tarfile.open(tmp_path / "sysfs" / "a.tar", "w") as tar:
        for name, link in (("sys/devices/system/cpu", "cpu"), ("sys/devices/system/node", "node")):
            member = tarfile.TarInfo(f"m/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member, io.BytesIO())
    what = {"kind": "sysfs-snapshot", "data_file": "a.tar", "inside": "m/sys"}
    assert Machines({"m": what}, tmp_path).get("m").cpus == {}


def test_files_padded_by_tar_are_read(tmp_path: Path) -> None:
    write_machine(tmp_path, guest())
    with tarfile.open(tmp_path / "node.tar", "w") as tar:
        for file in sorted((tmp_path / "sys").rglob("*")):
            member = tar.gettarinfo(file, file.relative_to(tmp_path))
            text = file.read_bytes() if member.isfile() else b""
            member.size = 4096 * member.isfile()
            tar.addfile(member, io.BytesIO(text.ljust(member.size, b"\0")))
    assert read_machine(str(tmp_path / "node.tar")) == read_machine(str(tmp_path))


def test_a_case_can_change_isolated_cpus_kinds_and_caches() -> None:
    described = {"a": {"kind": "tree"}, "b": {"base": "a", "isolated_cpus": "0"}}
    assert Machines(described, DATA).get("b").isolated == {0}
    kinds = with_overrides(guest(), {"performance_cores": "0,4"})
    assert [kinds.cpus[n].kind for n in (0, 1, 2)] == ["performance", "performance", "efficient"]
    caches = with_overrides(guest(), {"cache_override": [{"cpusets": ["0-1", "2-3"], "level": 2, "size": "1M"}]})
    assert [caches.cpus[n].caches[0].number for n in (0, 2)] == [0, 1]


def test_a_policy_has_a_name_and_options() -> None:
    with pytest.raises(ValueError, match="unknown policy 'none'"):
        make_policy("none", Machine.of(guest()), {}, None)  # type: ignore[arg-type]


SNAPSHOTS = DATA / "sysfs"


def test_a_machine_is_a_folder_an_archive_or_a_name(tmp_path: Path) -> None:
    shown = write_machine(tmp_path, guest())
    assert len(read_machine(str(shown)).cpus) == 16
    several = SNAPSHOTS / "cmd_plugins_topology-aware_policy_testdata_sysfs.tar.bz2"
    assert len(read_machine(f"{several}:sysfs/server").cpus) == 112
    assert len(read_machine(str(SNAPSHOTS / "pkg_sysfs_test-data-sample1.tar.xz")).cpus) == 16
    for path, words in (
        (several, "the archive has 3 machines .name one: .*:sysfs/server"),
        (f"{several}:none", "no CPUs found"),
        (tmp_path / "none", "folder or archive not found"),
        (
            tmp_path / "sys/devices/system/cpu/online",
            "cannot read the machine: file could not be opened successfully .specify a copy",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            read_machine(str(path))


def archived(path: Path, mode: str, *members: tarfile.TarInfo) -> Path:
    """An archive of empty files, packed in some way."""
    with tarfile.open(path, mode) as tar:
        for member in members:
            tar.addfile(member)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_damaged_archive_is_an_error_or_another_machine(tmp_path: Path, mode: str) -> None:
    data = archived(tmp_path / "whole", mode, *(tarfile.TarInfo(f"m/sys/{name}") for name in range(50))).read_bytes()
    for place in range(0, len(data), max(1, len(data) // 40)):
        for spoiled in (data[:place], data[:place] + bytes((data[place] ^ 255,)) + data[place + 1 :]):
            (tmp_path / "spoiled").write_bytes(spoiled)
            with pytest.raises(ConfigError):
                read_machine(str(tmp_path / "spoiled"))


def test_the_size_of_an_archive_and_its_path_lengths_are_bounded(tmp_path: Path) -> None:
    big = tarfile.TarInfo("m/sys/devices/system/cpu/online")
    big.size = 1 << 30
    (tmp_path / "big.tar").write_bytes(big.tobuf() + bytes(2048))
    with pytest.raises(ConfigError, match="more than 512 MiB when unpacked"):
        read_machine(str(tmp_path / "big.tar"))
    long = tarfile.TarInfo("m/sys/devices/system/cpu/online")
    long.type, long.linkname = tarfile.SYMTYPE, "./" * 3000 + "present"
    with pytest.raises(ConfigError, match="the archive has 0 machines"):
        read_machine(str(archived(tmp_path / "long.tar", "w", long)))


OPTIONS: dict[str, Any] = {"topology-aware": TopologyAwareOptions, "balloons": BalloonsOptions}
RESERVED = ["  reservedResources:", "    cpu: 1"]


def refusal(name: str, *lines: str) -> ConfigError:
    """The error of a policy whose resource has these lines, from the third on, on a machine of 16 CPUs."""
    text = "\n".join([f"kind: {OPTIONS[name].resource_kind}", "spec:", *lines, ""])
    with pytest.raises(ConfigError) as raised:
        policy_of(POLICIES[name], Machine.of(guest(isolated_cpus="6-7")), Source("policy.yaml", text, "yaml"))
    return raised.value


def scalars(cls: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All keys of a class, with those of tables and of lists of tables, and what their values are."""
    for key, kind in fields_of(cls).items():
        inner = [row for row in (kind, *get_args(kind)) if is_plain(row)]
        yield (*path, key), kind
        if inner:
            below = {list: ("[1]",), dict: ("name",)}.get(get_origin(kind) or kind, ())
            yield from scalars(inner[0], (*path, key, *below))


def wrong(kind: Any) -> object:
    """A value of another type than a key has."""
    if is_plain(kind) or get_origin(kind) in (list, dict) or any(is_plain(arg) for arg in get_args(kind)):
        return 7
    return {"a": 1} if kind is str or get_origin(kind) is Literal else [7]


#: The key that an entry of these lists requires in addition to the tested key.
NEEDED = {"matchExpressions": "operator: AlwaysTrue", "loadClasses": "name: one", "components": "balloonType: one"}


def at(path: tuple[str, ...], value: object) -> tuple[list[str], int]:
    """The lines of a resource with a value at a path, and which of them, counted from 1, has its key."""
    lines = list(RESERVED) if path[0] != "reservedResources" else []
    indent = "  "
    for place, part in enumerate(path[:-1]):
        if part == "[1]":
            needed = NEEDED.get(path[place - 1], "name: one")
            second = f"{path[-1]}: {json.dumps(value)}" if place == len(path) - 2 else needed
            level = [f"{indent}  level: core"] if path[place - 1] == "loadClasses" else []
            lines += [f"{indent}- {needed}", *level, f"{indent}- {second}"]
        else:
            lines.append(f"{indent}{part}:")
        indent += "  "
    if path[-2:-1] != ("[1]",):
        lines.append(f"{indent}{path[-1]}: {json.dumps(value)}")
    return lines, len(lines) + 2


def shown(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[", "[")


@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [(name, path, kind) for name, cls in OPTIONS.items() for path, kind in scalars(cls)],
    ids=lambda row: shown(row) if isinstance(row, tuple) else row if isinstance(row, str) else "",
)
def test_wrong_types_and_duplicate_keys_are_errors_with_file_line_and_key(
    name: str, path: tuple[str, ...], kind: Any
) -> None:
    lines, line = at(path, wrong(kind))
    message = [str(row) for row in single_errors(refusal(name, *lines))]
    matching = [row for row in message if f" {shown(path)}" in row]
    assert matching
    assert all(row.startswith(f"policy.yaml:{line}: {shown(path)}") and "expected" in row for row in matching), message
    indent = " " * lines[-1].index(path[-1])
    twice = str(refusal(name, *lines, f"{indent}{path[-1]}: 1"))
    assert twice.startswith(f"policy.yaml:{line + 1}: spec.{shown(path)}: duplicate key"), twice


TYPES = [*RESERVED, "  balloonTypes:", "  - name: one", "  - name: two"]
CLASSES = [*RESERVED, "  cpuClasses:", "  - name: one", "  - name: two"]
SCHEDULING = [*RESERVED, "  schedulingClasses:", "  - name: one", "  - name: two"]


@pytest.mark.parametrize(
    ("name", "lines", "line", "message"),
    [
        (name, ["  pinCPU: true", f"  {key}:", f"    cpu: {value}", *(RESERVED if key[0] == "a" else [])], 5,
         f"{key}.cpu: {words}")
        for name in OPTIONS
        for key, value, words in [
            *[(key, *value_words) for key in ("reservedResources", "availableResources") for value_words in (
                ("2x", '"2x" is not a quantity'), ("-1", '"-1" is less than 0'), (".nan", '"nan" is not a quantity'),
                (".inf", '"inf" is not a quantity'), ("1e9", '"1000000000.0" is more than 65536'),
                ("cpuset:x", "'x' is not a number"), ("cpuset:0-70000", "'0-70000' has a number above"))],
            ("reservedResources", "cpuset:77", "cpuset:77: 77 are not among the available CPUs"),
            ("availableResources", "4", "4 is a number of CPUs, but a list is required (write a list, cpuset:0-3)"),
        ]
    ]
    + [
        ("topology-aware", ["  reservedResources:", "    cpu:"], 4, "reservedResources.cpu: missing; topology-aware"),
        ("topology-aware", ["  pinCPU: true"], 2, "reservedResources.cpu: missing; topology-aware"),
        ("topology-aware", ["  reservedResources:", "    cpu: 0"], 4, "reservedResources.cpu: 0: topology-aware"),
        ("topology-aware", ["  reservedResources:", "    cpu: 17"], 4, "reservedResources.cpu: 17: 0-5,8-15"),
        ("topology-aware", ["  reservedResources:", "    cpu: cpuset:5-6"], 4, "reservedResources.cpu: cpuset:5-6"),
        ("topology-aware", [*RESERVED, "  podQoSSchedulingClasses:", "    x: y"], 6, "podQoSSchedulingClasses.x: is"),
        ("topology-aware", [*RESERVED, "  namespaceSchedulingClasses:", "    x: y"], 6, "namespaceSchedulingClasses.x"),
        ("topology-aware", [*CLASSES, "  reservedPoolCPUClass: x"], 8, "reservedPoolCPUClass: 'x' is not in"),
        ("topology-aware", CLASSES, 2, "sharedPoolCPUClass: required if cpuClasses is set"),
        ("topology-aware", [*SCHEDULING, "  - name: one"], 8, "schedulingClasses[2].name: duplicate name"),
        ("balloons", [*CLASSES, "  - name: one"], 8, "cpuClasses[2].name: duplicate name 'one' (rename one)"),
        ("balloons", [*TYPES, "  - name: one"], 8, "balloonTypes[2].name: duplicate name 'one' (rename one)"),
        ("balloons", [*TYPES, "  - minCPUs: 1"], 8, "balloonTypes[2].name: a type of balloons must have a name"),
        ("balloons", ["  reservedResources:", "    cpu: 17"], 4, "reservedResources.cpu: cannot create 1 balloons"),
        ("balloons", ["  reservedResources:", "    cpu: 2", "  balloonTypes:", "  - name: reserved", "    minCPUs: 3"],
         4,
         "reservedResources.cpu: 2: 2 CPUs conflict with"),
        ("balloons", [*RESERVED, "  loadClasses:", "  - level: core"], 6, "loadClasses[0].name: missing"),
    ]
    + [
        ("balloons", [*TYPES, f"    {key}: {value}", *more], 8, f"balloonTypes[1].{key}{words}")
        for key, value, words, *more in [
            ("minCPUs", "-1", ": -1 is out of range"),
            ("maxCPUs", "1" + "0" * 20, ": 1" + "0" * 20 + " is out of range"),
            ("minCPUs", ".nan", ": expected a whole number"),
            ("minCPUs", "5", ": 5 is above maxCPUs", "    maxCPUs: 3"),
            ("minBalloons", "5000", ": 5000 balloons, "), ("minBalloons", "3", ": 3 is above", "    maxBalloons: 1"),
            ("minBalloons", "9", ": cannot create 9 balloons two with minCPUs 4", "    minCPUs: 4"),
            ("memoryTypes", "[dram, dramm]", "[1]: 'dramm' is not a type of memory (write"),
            ("componentCreation", "all", ": all has no effect (add components)"),
            ("components", "[{balloonType: x}]", "[0].balloonType: 'x' is not in balloonTypes (write one or two)"),
            ("components", "[{balloonType: two}]", ": 'two' is a component of itself"),
            ("preferIsolCpus", "true", ": a composite balloon takes", "    components: [{balloonType: one}]"),
            ("schedulingClass", "x", ": 'x' is not in schedulingClasses"),
            ("loads", "[x]", "[0]: 'x' is not in loadClasses"), ("shareIdleCPUsInSame", "nume", ": expected one of"),
            ("matchExpressions", "[{key: nme, operator: Exists}]", "[0]: 'nme' is not a valid key"),
            ("matchExpressions", "[{key: name, operator: Equals}]", "[0]: Equals takes 1 value"),
        ]
    ]
    + [
        ("balloons", [*lines, f"    {key}: {value}"], 8, f"{list_}[1].{key}: {words}")
        for lines, list_, key, value, words in [
            (CLASSES, "cpuClasses", "minFreq", "5x", "'5x' is not a frequency (write 3.2GHz"),
            (CLASSES, "cpuClasses", "uncoreMaxFreq", "-1", "-1 is not a frequency"),
            (CLASSES, "cpuClasses", "energyPerformancePreference", "256", "256 is out of range"),
            (CLASSES, "cpuClasses", "freqGovernor", "a b", "'a b' is not a valid name of a governor"),
            (SCHEDULING, "schedulingClasses", "nice", "-99", "-99 is out of range"),
            (SCHEDULING, "schedulingClasses", "runtime", "5", "allowed only with the policy deadline"),
            (SCHEDULING, "schedulingClasses", "policy", "fifo", "fifo requires a priority"),
            (SCHEDULING, "schedulingClasses", "ioPriority", "3", "allowed only with ioClass rt or be"),
        ]
    ],
)  # fmt: skip
def test_contradictory_values_are_errors_with_file_line_and_key(
    name: str, lines: list[str], line: int, message: str
) -> None:
    assert str(refusal(name, *lines)).startswith(f"policy.yaml:{line}: {message}"), str(refusal(name, *lines))
