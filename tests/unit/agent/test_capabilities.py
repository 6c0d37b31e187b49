"""The table of the agent's capabilities on a machine."""

from __future__ import annotations

from pathlib import Path

from nri import host
from nri.agent.capabilities import Capability, capabilities
from nri.agent.koordinator import block_io
from nri.agent.koordinator.profile import PROFILE
from nri.agent.rubik import PROFILE as RUBIK
from tests.support import host_trees


def table(root: host.Root) -> dict[str, Capability]:
    return {row.what: row for row in capabilities(root, PROFILE)}


def test_every_knob_has_a_row_with_a_file_or_a_reason(tmp_path: Path) -> None:
    for root in (host_trees.v1(tmp_path / "1", "kubepods"), host_trees.v2(tmp_path / "2", "kubepods.slice")):
        rows = table(root)
        assert rows.keys() >= {name for name in host.KNOBS if "SIZE" not in name}
        assert [
            row for row in rows.values() if bool(row.found) != row.supported or bool(row.reason) == row.supported
        ] == []


def test_a_file_of_other_kernels_is_unsupported_with_an_alternative(tmp_path: Path) -> None:
    row = table(host_trees.v1(tmp_path, "kubepods"))["cpu.bvt"]
    assert row == Capability(
        "cpu.bvt",
        False,
        "",
        "no cgroup has cpu.bvt_warp_ns: on cgroup v1 only kernels of Anolis OS and Alibaba Cloud Linux have it",
        "cpu.idle or cpu.shares",
        ("GroupIdentity",),
    )


def test_a_knob_has_a_different_file_on_each_cgroup_version(tmp_path: Path) -> None:
    one, two = host_trees.v1(tmp_path / "1", "kubepods"), host_trees.v2(tmp_path / "2", "kubepods.slice")
    assert table(one)["memory.limit"].found == "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    assert table(two)["memory.limit"].found == "/sys/fs/cgroup/kubepods.slice/memory.max"
    assert (table(one)["cgroups"].found, table(two)["cgroups"].found) == ("v1", "v2")
    assert (table(one)["cgroup driver"].found, table(two)["cgroup driver"].found) == ("cgroupfs", "systemd")


def test_an_empty_machine_has_a_reason_for_every_row(tmp_path: Path) -> None:
    rows = table(host.Root(tmp_path))
    asked_of_the_kernel = {"core scheduling", "counters of cycles", "counters of cache misses"}
    assert [row.what for row in rows.values() if row.supported and row.what not in asked_of_the_kernel] == []
    assert rows["cgroups"].reason == "no cgroup hierarchy is mounted"
    assert rows["traffic control"].reason == "not installed: tc, iptables, ipset"


def test_existing_features_are_found_below_the_root(tmp_path: Path) -> None:
    root = host_trees.write_files(
        tmp_path,
        {
            "usr/sbin/tc": "",
            "usr/sbin/iptables": "",
            "usr/bin/ipset": "",
            "sys/class/infiniband/mlx5_0/": "",
            "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            "proc/sys/kernel/sched_group_identity_enabled": "1\n",
            "sys/fs/resctrl/schemata": "L3:0=fff\n",
            "proc/qos/net_qos_enable": "",
            "sys/fs/resctrl/info/L3/cbm_mask": "fff\n",
        },
    )
    rows = table(root)
    actual = {
        name: rows[name].found for name in ("traffic control", "RDMA devices", "pressure (PSI)", "resctrl caches")
    }
    assert actual == {
        "traffic control": "tc, iptables, ipset",
        "RDMA devices": "mlx5_0",
        "pressure (PSI)": "/proc/pressure",
        "resctrl caches": "L3",
    }
    assert rows["group identity"].supported and rows["network levels"].found == "/proc/qos/net_qos_enable"
    assert not rows["resctrl bandwidth"].supported


def test_an_unreadable_file_is_a_reason_and_not_an_error(tmp_path: Path) -> None:
    root = host_trees.write_files(
        tmp_path, {"proc/pressure/cpu": "some what is this", "sys/fs/resctrl/schemata": "L3:x=y\n"}
    )
    rows = table(root)
    assert not rows["pressure (PSI)"].supported
    assert not rows["resctrl caches"].supported


def test_knobs_used_by_rules_come_first_with_their_hooks() -> None:
    owned = {owner.owns.knob for owner in PROFILE.owners()}
    assert {"cpu.cfs_quota", "cpu.bvt", *block_io.limits_by_knob([], [])} <= owned
    rows = [row for row in capabilities(host.Root("/"), PROFILE) if row.what in host.KNOBS]
    assert [bool(row.needed_by) for row in rows] == sorted((bool(row.needed_by) for row in rows), reverse=True)


def test_a_feature_without_a_knob_names_its_services(tmp_path: Path) -> None:
    rows = {row.what: row.needed_by for row in capabilities(host.Root(tmp_path), RUBIK)}
    assert rows["counters of cycles"] == ("cpi",) and rows["pressure (PSI)"] == ("psi",)
    assert rows["resctrl caches"] == rows["counters of cache misses"] == ("dynCache",)
    assert rows["network levels"] == rows["cpu.qos_level"] == ("preemption",)
