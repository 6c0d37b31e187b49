"""BlkIOReconcile: limits of block I/O for best-effort pods together, and for pods that ask for their own.

Rules: limits hold for whole disks, whatever names one: a device, a partition, a volume or a volume group of LVM. One
that the machine does not have, and volumes on several disks, are reported and limit nothing. A limit or weight that is
no longer asked for is taken away. Next: :mod:`nri.agent.profiles.koordinator.strategies.system_config`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nri.agent.explain import Subject
from nri.agent.loops.round import KnobValue, Round, folder_subject
from nri.agent.loops.strategy import Strategy
from nri.agent.profiles.koordinator.strategies.rules import ANNOTATION_BLOCK_IO, NodeSlo, rules_of
from nri.agent.settings.values import AgentSettings
from nri.host import Root
from nri.host.cgroups.hierarchies import mounts as machine_mounts
from nri.policies.formulas import UNLIMITED
from nri.policies.koordinator.loops.block_io import ROOT_OFF, DiskLimits, wanted
from nri.policies.koordinator.names import NONE, qos_class
from nri.policies.paths import BEST_EFFORT

__all__ = ["NAME", "BlockIo", "disk_of"]

NAME: Final = "BlkIOReconcile"
_VOLUMES: Final = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/{name}/mount"
#: The values of a disk for which nothing is set, by knob.
_NONE: Final = {**dict.fromkeys(("io.read_iops", "io.write_iops", "io.read_bps", "io.write_bps"), UNLIMITED)}
_WEIGHT: Final = "io.device_weight"
_NONE[_WEIGHT] = UNLIMITED
#: The weight of a disk of which nothing is said.
_USUAL: Final = 100
#: Devices that are looked at, and how many layers of LVM below one.
_MOST_DEVICES: Final = 4096
_DEEPEST: Final = 8
#: The name that LVM gives a volume's device: group-volume, and a dash of either twice.
_LVM_NAME: Final = re.compile(r"((?:[^-]|--)+)-(?!-)")
_ROOT: Final = Subject("node/disks", name="disks")


class BlockIo(Strategy):
    """Sets limits of block I/O."""

    name = NAME
    key = ANNOTATION_BLOCK_IO

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._set: dict[tuple[str, str], tuple[Subject, frozenset[str]]] = {}
        #: Disks that have latencies of the whole machine.
        self._root_set: frozenset[str] = frozenset()
        #: The machine's mounts, read at most once a round: pods may name as many volumes as they like.
        self._mounts: dict[str, str] | None = None

    def __len__(self) -> int:
        """The number of knobs that are remembered as set."""
        return len(self._set)

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: limits that are asked for, or that were set."""
        return bool(rules.disks or rules.root_disks or self._set or self._root_set)

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for the folder of best-effort pods, and for pods with an annotation."""
        fresh: dict[tuple[str, str], tuple[Subject, frozenset[str]]] = {}
        self._mounts = None
        folder = made.best_effort_folder
        self._limits(made, folder_subject(BEST_EFFORT), folder, made.rules.disks, "", fresh)
        for pod in made.pods:
            disks = rules_of(made, pod, NAME).disks
            if disks and qos_class(pod.labels) != NONE:
                self._limits(made, pod.subject(), pod.folder, disks, pod.uid, fresh)
        for (path, knob), (subject, devices) in self._set.items():
            gone = devices - (fresh[path, knob][1] if (path, knob) in fresh else frozenset())
            if gone and made.parts.executor.hierarchies.exists(path):
                free = dict.fromkeys(sorted(gone), _NONE[knob])
                made.values.append(KnobValue(subject, path, knob, "", NAME, "no limit any more", free))
        self._set = fresh
        self._root(made)

    def _limits(
        self,
        made: Round[NodeSlo],
        subject: Subject,
        folder: str,
        disks: Sequence[DiskLimits],
        uid: str,
        fresh: dict[tuple[str, str], tuple[Subject, frozenset[str]]],
    ) -> None:
        found: list[tuple[str, DiskLimits]] = []
        for disk in disks:
            try:
                found.append((disk_of(made.parts.root, disk, uid, self._mounted), disk))
            except ValueError as error:
                made.errors.append(f"{NAME}: {error}")
        if not found:
            return
        for knob, by_device in wanted(found, ()).items():
            usual = _USUAL if knob == _WEIGHT else _NONE[knob]
            limits = {device: value for device, value in by_device.items() if value != usual}
            if limits:
                fresh[folder, knob] = subject, frozenset(limits)
                made.values.append(KnobValue(subject, folder, knob, "", NAME, "blkioQOS", limits))

    def _root(self, made: Round[NodeSlo]) -> None:
        """Latencies and models of disks for the whole machine, in the root cgroup."""
        fresh: dict[str, str] = {}
        for disk in made.rules.root_disks:
            try:
                device = disk_of(made.parts.root, DiskLimits(disk.name, disk.kind), "", self._mounted)
            except ValueError as error:
                made.errors.append(f"{NAME}: {error}")
                continue
            fresh[device] = disk.qos
            if disk.model:
                self._words(made, "io.cost_model", device, disk.model)
        for device in {**dict.fromkeys(self._root_set, ROOT_OFF), **fresh}:
            self._words(made, "io.cost_qos", device, fresh.get(device, ROOT_OFF))
        self._root_set = frozenset(fresh)

    def _words(self, made: Round[NodeSlo], knob: str, device: str, words: str) -> None:
        made.values.append(KnobValue(_ROOT, "", knob, "", NAME, "cgroupRoot.blkioQOS", {device: words}))

    def _mounted(self, root: Root) -> dict[str, str]:
        if self._mounts is None:
            self._mounts = mounts_of(root)
        return self._mounts


def mounts_of(root: Root) -> dict[str, str]:
    """Return the machine's mounts: the numbers of the device by its place; of several at one the last."""
    return {mount.path: mount.device for mount in machine_mounts(root)}


def disk_of(root: Root, disk: DiskLimits, uid: str, mounts: Callable[[Root], Mapping[str, str]] = mounts_of) -> str:
    """Return the numbers of a disk, `8:0`. Raises ValueError naming what cannot be found."""
    if disk.kind == "device":
        name = posixpath.basename(disk.name)
        if not name or name in (".", ".."):
            raise ValueError(f"{disk.name[:60]!r} is not a device")
        return _whole(root, root.find(f"/sys/class/block/{name}/dev"), disk.name)
    if disk.kind == "podvolume":
        if not uid or not disk.name or "/" in disk.name:
            raise ValueError(f"{disk.name[:60]!r} is not a volume of a pod")
        return _whole(root, mounts(root).get(_VOLUMES.format(uid=uid, name=disk.name)), disk.name)
    if disk.kind == "volumegroup":
        return _group(root, disk.name)
    raise ValueError(f"disk {disk.name[:60]!r}: there is no kind {disk.kind[:20]!r}")


def _group(root: Root, name: str) -> str:
    """The numbers of the disk that a volume group of LVM is on, by a volume of it that is in use."""
    mapped = (each for each in sorted(root.names("/sys/class/block"))[:_MOST_DEVICES] if each.startswith("dm-"))
    for each in mapped:
        found = _LVM_NAME.match((root.find(f"/sys/class/block/{each}/dm/name") or "").strip())
        numbers = root.find(f"/sys/class/block/{each}/dev")
        if found and found[1].replace("--", "-") == name and numbers is not None and _is_lvm(root, numbers.strip()):
            return _whole(root, numbers, name)
    raise ValueError(f"the machine has no volume in use of the volume group {name[:60]!r}")


def _whole(root: Root, numbers: str | None, name: str) -> str:
    """The numbers of the whole disk that a device is, or is on; limits hold for those alone."""
    if numbers is None:
        raise ValueError(f"the machine has no disk {name[:60]!r}")
    level, disks = [numbers.strip()], set[str]()
    for _ in range(_DEEPEST):
        below: list[str] = []
        for each in level[:_MOST_DEVICES]:
            if _is_lvm(root, each):
                slaves = f"/sys/dev/block/{each}/slaves"
                below += [(root.find(f"{slaves}/{slave}/dev") or "").strip() for slave in root.names(slaves)]
            elif root.find(f"/sys/dev/block/{each}/partition") is not None:
                disks.add((root.find(f"/sys/dev/block/{each}/../dev") or each).strip())
            else:
                disks.add(each)
        level = below
    if len(disks) != 1 or level:
        raise ValueError(f"{name[:60]!r} is on {len(disks)} disks; limits hold for one")
    return disks.pop()


def _is_lvm(root: Root, numbers: str) -> bool:
    return (root.find(f"/sys/dev/block/{numbers}/dm/uuid") or "").startswith("LVM-")
