"""Limits of block I/O."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator import block_io
from nri.agent.koordinator import names as n
from nri.agent.koordinator.block_io import BlockIo, DiskLimits, PodVolumes, disk_of
from nri.agent.koordinator.documents import NodeSlo
from nri.agent.koordinator.profile import PARTS
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.settings import AgentSettings
from nri.host import Root, read_topology
from tests.support.host_trees import TOP, write_files
from tests.support.loop_world import LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod

BE = "kubepods/besteffort"


def slo(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"resourceQOSStrategy": {"beClass": {"blkioQOS": {"enable": True, "blocks": list(blocks)}}}}


def disks(folder: Path) -> None:
    files = {"sys/class/block/sda/dev": "8:0\n", "sys/class/block/sda1/dev": "8:1\n"}
    files |= {"sys/devices/sda/dev": "8:0\n", "sys/devices/sda/sda1/partition": "1\n"}
    write_files(folder, files)
    (folder / "sys/dev/block").mkdir(parents=True)
    (folder / "sys/dev/block/8:1").symlink_to("../../devices/sda/sda1")


def lvm(folder: Path, number: int, name: str, *below: str) -> None:
    """A volume of LVM on these devices, `sda1` or `sdb`, or on another volume."""
    inside = f"sys/devices/virtual/block/dm-{number}"
    write_files(folder, {f"{inside}/dev": f"253:{number}\n", f"{inside}/dm/name": f"{name}\n"})
    write_files(folder, {f"{inside}/dm/uuid": f"LVM-{number}\n", "sys/devices/sda/sda1/dev": "8:1\n"})
    write_files(folder, {"sys/devices/sdb/dev": "8:16\n"})
    (folder / inside / "slaves").mkdir()
    places = {"sda1": "../../../../sda/sda1", "sdb": "../../../../sdb"}
    for entry in below:
        (folder / inside / "slaves" / entry).symlink_to(places.get(entry, f"../../{entry}"))
    (folder / f"sys/class/block/dm-{number}").symlink_to(f"../../devices/virtual/block/dm-{number}")
    (folder / f"sys/dev/block/253:{number}").symlink_to(f"../../devices/virtual/block/dm-{number}")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("volumegroup", "vg-x"), ("device", "/dev/dm-0"), ("device", "/dev/dm-2"), ("volumegroup", "thin")],
)
def test_a_volume_group_and_its_volumes_are_limited_on_their_disk(kind: str, name: str, tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    disks(tmp_path)
    lvm(tmp_path, 0, "vg--x-root", "sda1")
    lvm(tmp_path, 1, "thin-pool", "dm-0")
    lvm(tmp_path, 2, "thin-data", "dm-0", "dm-1")
    assert disk_of(world.root, DiskLimits(name, kind)) == "8:0"


def test_best_effort_pods_are_limited_together_and_released(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo({"name": "/dev/sda", "ioCfg": {"readBPS": 1000, "writeIOPS": 5}}))
    disks(tmp_path)
    world.loop()
    assert world.text(BE, "blkio.throttle.read_bps_device") == "8:0 1000"
    assert world.text(BE, "blkio.throttle.write_iops_device") == "8:0 5"
    assert world.text(BE, "blkio.throttle.write_bps_device") == ""
    world.slo({})
    world.loop()
    assert world.text(BE, "blkio.throttle.read_bps_device") == "8:0 0"


def test_obsolete_limits_of_a_killed_agent_are_removed(tmp_path: Path) -> None:
    two = ({"name": f"/dev/{disk}", "ioCfg": {"readBPS": 1000, "ioWeightPercent": 50}} for disk in ("sda", "sdb"))
    world = LoopWorld(tmp_path, slo(*two))
    disks(tmp_path)
    write_files(tmp_path, {"sys/class/block/sdb/dev": "8:16\n"})
    asks = json.dumps({"blocks": [{"name": "/dev/sda", "ioCfg": {"writeBPS": 7}}]})
    one, plain = pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": asks}), pod("b", "", "BestEffort")
    folder, other = world.pod(one), world.pod(plain)
    world.source.replace([one, plain])
    world.loop()
    world.overwrite(other, "blkio.throttle.write_bps_device", "8:0 9\n")  # a pod without a class is not asked
    assert world.text(folder, "blkio.throttle.write_bps_device") == "8:0 7"
    world.kill()
    world.slo(slo({"name": "/dev/sda", "ioCfg": {"readBPS": 1000}}))
    world.source.replace([pod("a", n.LS), plain])
    world.loop()
    assert world.text(folder, "blkio.throttle.write_bps_device") == "8:0 0"
    assert world.text(BE, "blkio.throttle.read_bps_device") == "8:16 0"  # a file of the kernel has 8:0 as well
    assert world.text(other, "blkio.throttle.write_bps_device") == "8:0 9"


def test_a_pod_can_request_limits_and_an_invalid_disk_limits_nothing(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    asks = (
        '{"blocks": [{"name": "/dev/sda1", "ioCfg": {"writeBPS": 7}}, {"name": "/dev/none", "ioCfg": {"readBPS": 1}}]}'
    )
    one = pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": asks})
    folder = world.pod(one)
    world.source.replace([one])
    world.loop()
    assert world.text(folder, "blkio.throttle.write_bps_device") == "8:0 7"
    assert "disk '/dev/none' not found on this machine" in world.loops.health()[1]


def test_an_unreadable_annotation_keeps_its_limits_and_a_removed_one_clears_them(
    tmp_path: Path,
) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    asks = '{"blocks": [{"name": "/dev/sda", "ioCfg": {"writeBPS": 7}}]}'
    folder = world.pod(pod("a", n.LS))
    for text, limit in ((asks, "8:0 7"), ("{", "8:0 7"), ("", "8:0 0")):
        world.source.replace([pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": text})])
        world.loop()
        assert world.text(folder, "blkio.throttle.write_bps_device") == limit, text
    world.source.replace([pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": "{"})])
    world.loop()
    assert world.text(folder, "blkio.throttle.write_bps_device") == "8:0 0"


def test_an_unreadable_annotation_is_an_error_of_the_pod_until_it_is_fixed(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    bad = pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": "{"})
    world.pod(bad)
    world.source.replace([bad])
    world.loop()
    (error,) = (world.history.account("a") or {})["errors"]
    assert (error["hook"], error["reason"][:36]) == ("BlkIOReconcile", "annotation koordinator.sh/blkioQOS: ")
    world.source.replace([pod("a", n.LS, annotations={"koordinator.sh/blkioQOS": "{}"})])
    world.loop()
    assert (world.history.account("a") or {})["errors"] == []


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        ("device", "/", "is not a device"),
        ("volumegroup", "vg0", "no volume of volume group 'vg0' is in use"),
        ("volumegroup", "wide", "'wide' is on 2 disks; limits require exactly one"),
        ("zpool", "tank", "unknown kind 'zpool'"),
        ("podvolume", "../../etc", "the kubelet has not mounted a volume '../../etc' for the pod"),
        ("podvolume", "share", "'share' is not on a disk of this machine"),
    ],
)
def test_an_unknown_disk_is_an_error_with_its_name(kind: str, name: str, error: str, tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    disks(tmp_path)
    lvm(tmp_path, 0, "vg--x-root", "sda1")
    lvm(tmp_path, 1, "wide-data", "sda1", "sdb")
    with pytest.raises(ValueError, match=error):
        disk_of(world.root, DiskLimits(name, kind), PodVolumes({"share": "0:55"}))


def mounted(folder: Path, *rows: tuple[str, str, str]) -> None:
    """The kubelet's mounts of pod `u`: kind and name of a volume, numbers of its device."""
    lines = [
        f"3{n} 1 {device} / /var/lib/kubelet/pods/u/volumes/kubernetes.io~{kind}/{name} rw - ext4 /dev/x rw\n"
        for n, (kind, name, device) in enumerate(rows)
    ]
    write_files(folder, {"proc/1/mountinfo": "".join(lines)})


def claim(name: str, kind: str = "persistentVolumeClaim") -> dict[str, Any]:
    return {"name": name, kind: {"claimName": f"of-{name}"}}


def limited(world: LoopWorld, volumes: list[dict[str, Any]], name: str = "data") -> str:
    """The limit of a pod with these volumes that asks for one of volume `name`, or else the error."""
    blocks = [{"name": name, "type": "podvolume", "ioCfg": {"writeBPS": 7}}]
    one = pod("u", n.LS, annotations={"koordinator.sh/blkioQOS": json.dumps({"blocks": blocks})})
    one["spec"]["volumes"] = volumes
    folder = world.pod(one)
    world.source.replace([one])
    world.loop()
    return world.text(folder, "blkio.throttle.write_bps_device") or world.loops.health()[1]


#: Volumes that are not on a disk, as most pods have some.
PLAIN = [{"name": "token", "projected": {}}, {"name": "cache", "emptyDir": {"medium": "Memory"}}]
PLAIN_MOUNTS = (("projected", "token", "0:40"), ("empty-dir", "cache", "0:41"))


@pytest.mark.parametrize(
    ("volumes", "place"),
    [
        ([], ("csi", "data/mount")),
        ([{"name": "data", "csi": {}}, claim("other")], ("csi", "data/mount")),
        ([*PLAIN, claim("data")], ("csi", "pvc-1/mount")),
        ([*PLAIN, claim("data", "ephemeral")], ("csi", "pvc-1/mount")),
        ([*PLAIN, claim("data")], ("local-volume", "disk-7")),
    ],
    ids=["no volumes known", "inline", "claim", "ephemeral claim", "local claim"],
)
def test_a_volume_of_a_pod_is_found_by_its_mount(
    volumes: list[dict[str, Any]], place: tuple[str, str], tmp_path: Path
) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    mounted(tmp_path, *PLAIN_MOUNTS, (*place, "8:1"))
    assert limited(world, volumes) == "8:0 7"


def test_claims_on_one_disk_are_limited_on_that_disk(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    lvm(tmp_path, 0, "vg-one", "sda1")
    lvm(tmp_path, 1, "vg-two", "sda1")
    mounted(tmp_path, ("csi", "pvc-1/mount", "253:0"), ("csi", "pvc-2/mount", "253:1"))
    assert limited(world, [claim("data"), claim("more")]) == "8:0 7"


def test_a_claim_used_by_two_volumes_of_a_pod_is_mounted_once(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    mounted(tmp_path, ("csi", "pvc-1/mount", "8:1"))
    assert limited(world, [claim("data"), {**claim("data"), "name": "again"}]) == "8:0 7"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            PLAIN_MOUNTS,
            "'data' is one of 2 claims; the kubelet has mounted 0 of them, on 0 disks",
        ),
        (
            (("csi", "pvc-1/mount", "8:1"),),
            "of 2 claims; the kubelet has mounted 1 of them, on 1 disks",
        ),
        (
            (("csi", "pvc-1/mount", "8:1"), ("csi", "pvc-2/mount", "8:16")),
            "has mounted 2 of them, on 2 disks",
        ),
        ((("csi", "pvc-1/mount", "8:1"), ("nfs", "pvc-2", "0:60")), "'pvc-2' is not on a disk"),
    ],
    ids=["none", "the other is a raw device", "several disks", "the other is on a network"],
)
def test_an_ambiguous_claim_is_an_error_and_its_persistent_volume_can_be_named(
    rows: tuple[tuple[str, str, str], ...], message: str, tmp_path: Path
) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    mounted(tmp_path, *rows)
    volumes = [*PLAIN, claim("data"), claim("more")]
    actual = limited(world, volumes)
    assert "pod ns/u: " in actual and message in actual
    if rows != PLAIN_MOUNTS:
        assert limited(world, volumes, "pvc-1") == "8:0 7"


def test_a_missing_disk_of_the_root_cgroup_is_reported(tmp_path: Path) -> None:
    root = {"blkioQOS": {"enable": True, "blocks": [{"name": "/dev/none", "ioCfg": {"readLatency": 5000}}]}}
    world = LoopWorld(tmp_path, {"resourceQOSStrategy": {"cgroupRoot": root}})
    world.loop()
    assert "cgroupRoot: disk '/dev/none' not found on this machine" in world.loops.health()[1]


def test_best_effort_pods_cannot_use_a_pod_volume(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo({"name": "data", "type": "podvolume", "ioCfg": {"readBPS": 1000}}))
    world.loop()
    assert "beClass: volume 'data': podvolume is only valid in the annotation of a pod" in world.loops.health()[1]


def test_mounts_are_read_once_a_round_for_any_number_of_volumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LoopWorld(tmp_path, {})
    disks(tmp_path)
    path = "/var/lib/kubelet/pods/a/volumes/kubernetes.io~csi/data/mount"
    write_files(tmp_path, {"proc/1/mountinfo": f"30 1 8:1 / {path} rw - ext4 /dev/sda1 rw\n"})
    blocks = [{"name": name, "type": "podvolume", "ioCfg": {"writeBPS": 7}} for name in ("data", *map(str, range(60)))]
    pods = [pod(uid, n.LS, annotations={"koordinator.sh/blkioQOS": json.dumps({"blocks": blocks})}) for uid in "abc"]
    folder, *_ = [world.pod(pod) for pod in pods]
    world.source.replace(pods)
    read, actual = list[str](), Root.find

    def find(root: Root, path: str) -> str | None:
        read.append(path)
        return actual(root, path)

    monkeypatch.setattr(Root, "find", find)
    world.loop()
    assert world.text(folder, "blkio.throttle.write_bps_device") == "8:0 7"
    assert read.count("/proc/1/mountinfo") == 1
    world.loop()
    assert read.count("/proc/1/mountinfo") == 2


def test_latencies_of_the_root_cgroup_are_set_and_disabled(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    write_files(tmp_path, {"sys/class/block/sda/dev": "8:0\n"})
    block = {"name": "/dev/sda", "ioCfg": {"readLatency": 5000}}
    spec = {"resourceQOSStrategy": {"cgroupRoot": {"blkioQOS": {"enable": True, "blocks": [block]}}}}
    loop, collected = BlockIo(AgentSettings(), ["BlkIOReconcile"]), []
    for source in (spec, {}):
        strategies = NodeSlo(PARTS)
        strategies.take({"spec": source})
        assert loop.is_needed(strategies)
        sample = Sample(0.0, 8, None, None, None, {})
        moment = Round(world.parts, strategies, [], sample, read_topology(world.root))
        loop.round(moment)
        collected.append([(value.knob, value.devices) for value in moment.values])
    on = "enable=1 ctrl=user rpct=95 rlat=5000 wpct=95 wlat=3000"
    assert collected == [
        [("io.cost_model", {"8:0": "ctrl=auto"}), ("io.cost_qos", {"8:0": on})],
        [("io.cost_qos", {"8:0": "enable=0"})],
    ]


def test_a_weight_is_set_per_disk_and_reset_to_the_cgroups_weight(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo({"name": "/dev/sda", "ioCfg": {"readBPS": 4096, "ioWeightPercent": 30}}))
    disks(tmp_path)
    weights = tmp_path / TOP / "blkio" / BE / "blkio.bfq.weight_device"
    weights.write_text("")
    world.loop()
    assert world.text(BE, "blkio.throttle.read_bps_device") == "8:0 4096"
    assert weights.read_text().strip() == "8:0 30"
    world.slo(slo({"name": "/dev/sda", "ioCfg": {"readBPS": 4096}}))
    world.loop()
    assert weights.read_text().strip() == "8:0 default"


def test_one_round_sets_one_limit_and_removes_another_in_the_same_file(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo({"name": "/dev/sda", "ioCfg": {"readBPS": 4096}}))
    disks(tmp_path)
    world.overwrite(BE, "blkio.throttle.read_bps_device", "8:16 300")
    writes: list[str] = []
    write = world.root.write
    world.root.write = lambda path, text: (writes.append(text.strip()), write(path, text))[1]  # type: ignore[method-assign]
    world.loop()
    assert sorted(text for text in writes if ":" in text) == ["8:0 4096", "8:16 0"]


def test_latencies_of_two_disks_are_set_in_one_round_and_stale_ones_removed(tmp_path: Path) -> None:
    blocks = [{"name": name, "ioCfg": {"readLatency": 100}} for name in ("/dev/sda", "/dev/sdb")]
    root = {"resourceQOSStrategy": {"cgroupRoot": {"blkioQOS": {"enable": True, "blocks": blocks}}}}
    world = LoopWorld(tmp_path, root)
    disks(tmp_path)
    qos = tmp_path / TOP / "blkio/blkio.cost.qos"
    write_files(tmp_path, {"sys/class/block/sdb/dev": "8:16\n"})
    qos.write_text("8:32 enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=1.00 max=10000.00\n")
    writes: list[str] = []
    write = world.root.write
    world.root.write = lambda path, text: (writes.append(text.strip()), write(path, text))[1]  # type: ignore[method-assign]
    world.loop()
    on = "enable=1 ctrl=user rpct=95 rlat=100 wpct=95 wlat=3000"
    assert sorted(text for text in writes if ":" in text) == [f"8:0 {on}", f"8:16 {on}", "8:32 enable=0"]


def test_every_disk_has_a_value_for_every_setting() -> None:
    given_ = {"enable": True, "blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readBPS": 1048576}}]}
    (disk,) = block_io.parse(given_)
    assert block_io.limits_by_knob([("8:0", disk)], ["8:0"]) == {
        "io.read_iops": {"8:0": -1},
        "io.write_iops": {"8:0": -1},
        "io.read_bps": {"8:0": 1048576},
        "io.write_bps": {"8:0": -1},
        "io.device_weight": {"8:0": 100},
    }
    assert block_io.parse({**given_, "enable": False}) == []
    for wrong in ({"readBPS": -1}, {"ioWeightPercent": 0}, {"ioWeightPercent": 101}, {"readBPS": "1"}):
        with pytest.raises(ValueError, match="blkioQOS"):
            block_io.parse({"enable": True, "blocks": [{"ioCfg": wrong}]})


def test_limits_that_are_not_requested_are_removed() -> None:
    actual = block_io.limits_by_knob([], ["8:16"])
    assert {knob: values["8:16"] for knob, values in actual.items()} == {
        **dict.fromkeys(("io.read_iops", "io.write_iops", "io.read_bps", "io.write_bps"), -1),
        "io.device_weight": 100,
    }


def test_a_user_model_is_used_only_if_complete() -> None:
    numbers = dict.fromkeys(
        ("modelReadBPS", "modelReadSeqIOPS", "modelReadRandIOPS", "modelWriteBPS", "modelWriteSeqIOPS"), 5
    )
    models = [
        block_io.parse_root({"enable": True, "blocks": [{"name": "x", "ioCfg": {"enableUserModel": True, **source}}]})[
            0
        ]
        for source in (numbers, {**numbers, "modelWriteRandIOPS": 6})
    ]
    assert models[0].model == ""
    assert models[1].model == "ctrl=user model=linear rbps=5 rseqiops=5 rrandiops=5 wbps=5 wseqiops=5 wrandiops=6"
    assert block_io.parse_root({"blocks": [{"name": "x"}]}) == []
