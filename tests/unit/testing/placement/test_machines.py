"""Machines of placement cases: described ones, snapshots, and what a case has instead."""

import io
import tarfile
from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.policies.placement.machine import Machine
from nri.testing.placement.machines import Machines, make_policy, overridden, read_machine
from tests.support.placement import DATA, guest, write_machine

SNAPSHOT = {"kind": "sysfs-snapshot", "data_file": "pkg_sysfs_test-data-sample1.tar.xz", "inside": "sample1/sys"}


def test_a_snapshot_is_read_in_its_archive_links_included() -> None:
    topology = Machines({"laptop": SNAPSHOT}, DATA).get("laptop")
    assert len(topology.cpus) == 16
    assert {cpu.kind for cpu in topology.cpus.values()} == {"performance", "efficient"}
    assert topology.cpus[0].base_khz


def test_a_machine_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such machine is described"):
        Machines({}, tmp_path).get("none")
    with pytest.raises(ConfigError, match="no snapshot of a machine"):
        Machines({"laptop": SNAPSHOT}, tmp_path).get("laptop")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "sysfs").mkdir()
    with tarfile.open(tmp_path / "sysfs" / "a.tar", "w") as tar:
        for name, link in (("sys/devices/system/cpu", "cpu"), ("sys/devices/system/node", "node")):
            member = tarfile.TarInfo(f"m/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member, io.BytesIO())
    what = {"kind": "sysfs-snapshot", "data_file": "a.tar", "inside": "m/sys"}
    assert Machines({"m": what}, tmp_path).get("m").cpus == {}


def test_a_case_has_other_isolated_cpus_kinds_or_caches() -> None:
    described = {"a": {"kind": "tree"}, "b": {"base": "a", "isolated_cpus": "0"}}
    assert Machines(described, DATA).get("b").isolated == {0}
    kinds = overridden(guest(), {"performance_cores": "0,4"})
    assert [kinds.cpus[n].kind for n in (0, 1, 2)] == ["performance", "performance", "efficient"]
    caches = overridden(guest(), {"cache_override": [{"cpusets": ["0-1", "2-3"], "level": 2, "size": "1M"}]})
    assert [caches.cpus[n].caches[0].number for n in (0, 2)] == [0, 1]


def test_a_policy_has_a_name_and_options() -> None:
    with pytest.raises(ValueError, match="no policy 'none'"):
        make_policy("none", Machine.of(guest()), {}, None)  # type: ignore[arg-type]


SNAPSHOTS = DATA / "sysfs"


def test_a_machine_is_a_folder_or_the_one_in_an_archive_or_a_named_one(tmp_path: Path) -> None:
    shown = write_machine(tmp_path, guest())
    assert len(read_machine(str(shown)).cpus) == 16
    several = SNAPSHOTS / "cmd_plugins_topology-aware_policy_testdata_sysfs.tar.bz2"
    assert len(read_machine(f"{several}:sysfs/server").cpus) == 112
    assert len(read_machine(str(SNAPSHOTS / "pkg_sysfs_test-data-sample1.tar.xz")).cpus) == 16
    for path, words in (
        (several, "there are 3 machines in it .name one: .*:sysfs/server"),
        (f"{several}:none", "there are no CPUs"),
        (tmp_path / "none", "there is no such folder or archive"),
        (
            tmp_path / "sys/devices/system/cpu/online",
            "no snapshot of a machine: file could not be opened successfully .name a copy",
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
def test_an_archive_that_is_cut_or_broken_anywhere_is_an_error_or_another_machine(tmp_path: Path, mode: str) -> None:
    data = archived(tmp_path / "whole", mode, *(tarfile.TarInfo(f"m/sys/{name}") for name in range(50))).read_bytes()
    for place in range(0, len(data), max(1, len(data) // 40)):
        for spoiled in (data[:place], data[:place] + bytes((data[place] ^ 255,)) + data[place + 1 :]):
            (tmp_path / "spoiled").write_bytes(spoiled)
            with pytest.raises(ConfigError):
                read_machine(str(tmp_path / "spoiled"))


def test_an_archive_is_bounded_in_what_it_unpacks_to_and_its_paths_in_length(tmp_path: Path) -> None:
    big = tarfile.TarInfo("m/sys/devices/system/cpu/online")
    big.size = 1 << 30
    (tmp_path / "big.tar").write_bytes(big.tobuf() + bytes(2048))
    with pytest.raises(ConfigError, match="more than 512 MiB, unpacked"):
        read_machine(str(tmp_path / "big.tar"))
    long = tarfile.TarInfo("m/sys/devices/system/cpu/online")
    long.type, long.linkname = tarfile.SYMTYPE, "./" * 3000 + "present"
    with pytest.raises(ConfigError, match="there are 0 machines in it"):
        read_machine(str(archived(tmp_path / "long.tar", "w", long)))
