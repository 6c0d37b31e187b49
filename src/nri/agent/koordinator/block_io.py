"""The strategy BlkIOReconcile: limits of operations and bytes per second for each disk, and weights of disks.

Limits apply to all best-effort pods together, and to pods with an annotation. Values are by device number (`8:0`); 0 in
NodeSLO removes a limit. A limit applies to a whole disk. Its name may be the name of a device, a partition, a volume or
an LVM volume group. A missing disk, or a volume on several disks, is reported and gets no limit. The kubelet mounts a
claim under the name of its persistent volume, and only an apiserver knows that name, so the disk of a claim is found by
exclusion.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.cgroup_paths import BEST_EFFORT
from nri.agent.koordinator.documents import SLO, NodeSlo, Part, PodAnnotation, class_part, json_object
from nri.agent.koordinator.names import NONE, qos_class
from nri.agent.loops.round import KnobValue, Round, folder_subject
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Subject
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.host import Root
from nri.host.cgroups.hierarchies import mounts as machine_mounts
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.shapes import Items, Record, Word, fit

ANNOTATION_BLOCK_IO: Final = "koordinator.sh/blkioQOS"
_KIND: Final = Word(("device", "volumegroup", "podvolume"))
_IO = Record({"readIOPS": int, "writeIOPS": int, "readBPS": int, "writeBPS": int, "ioWeightPercent": int})
SHAPE = Record({"enable": bool, "blocks": Items(Record({"name": str, "type": _KIND, "ioCfg": _IO}))})
_KNOBS: Final = {
    "read_iops": "io.read_iops",
    "write_iops": "io.write_iops",
    "read_bps": "io.read_bps",
    "write_bps": "io.write_bps",
    "weight": "io.device_weight",
}
#: The value of `io.cost.qos` that switches a disk off.
ROOT_OFF: Final = "enable=0"
_LATENCIES: Final = {
    "rpct": ("readLatencyPercent", 95),
    "rlat": ("readLatency", 3000),
    "wpct": ("writeLatencyPercent", 95),
    "wlat": ("writeLatency", 3000),
}
_MODEL: Final = {
    "rbps": "modelReadBPS",
    "rseqiops": "modelReadSeqIOPS",
    "rrandiops": "modelReadRandIOPS",
    "wbps": "modelWriteBPS",
    "wseqiops": "modelWriteSeqIOPS",
    "wrandiops": "modelWriteRandIOPS",
}
_ROOT_IO: Final = Record(
    {
        "enableUserModel": bool,
        **{name: int for name, _ in _LATENCIES.values()},
        **dict.fromkeys(_MODEL.values(), int),
    }
)
ROOT_SHAPE: Final = Record({"enable": bool, "blocks": Items(Record({"name": str, "type": _KIND, "ioCfg": _ROOT_IO}))})
NAME: Final = "BlkIOReconcile"
#: The path of a volume that the kubelet mounts: the uid of the pod and the name of the volume.
_VOLUME: Final = re.compile(r"/var/lib/kubelet/pods/([^/]+)/volumes/kubernetes\.io~[^/]+/([^/]+)(?:/mount)?")
#: The value that removes the limit of a disk, by knob.
_NO_LIMIT: Final = {**dict.fromkeys(("io.read_iops", "io.write_iops", "io.read_bps", "io.write_bps"), UNLIMITED)}
_WEIGHT: Final = "io.device_weight"
_NO_LIMIT[_WEIGHT] = UNLIMITED
#: The weight of a disk that is not in NodeSLO.
_USUAL: Final = 100
#: The maximum number of devices of a machine, or of one level of LVM.
_MAX_DEVICES: Final = 4096
#: The maximum number of LVM levels below a device.
_MAX_DEPTH: Final = 8
#: The name of an LVM device, `group-volume`. A dash in the name of the group or the volume is doubled.
_LVM_NAME: Final = re.compile(r"((?:[^-]|--)+)-(?!-)")
_ROOT_QOS: Final = "io.cost_qos"
_ROOT: Final = Subject("node/disks", name="disks")


class DiskLimits(NamedTuple):
    """Limits of one disk. `kind` is device, volumegroup or podvolume; `name` is the name of that object."""

    name: str
    kind: str
    read_iops: int = 0
    write_iops: int = 0
    read_bps: int = 0
    write_bps: int = 0
    weight: int = 100


def parse(document: Any, where: str = "blkioQOS") -> list[DiskLimits]:
    """Read a class's `blkioQOS`. The list is empty if `blkioQOS` is off.

    Raises ValueError if a value is invalid. The error starts with the path of the key, which begins with `where`.
    """
    section = fit({} if document is None else document, SHAPE, where)
    if not section.get("enable", False):
        return []
    disks = []
    for number, block in enumerate(section.get("blocks", ())):
        limits = block.get("ioCfg", {})
        for key, value in limits.items():
            minimum, maximum = (1, 100) if key == "ioWeightPercent" else (0, None)
            if value < minimum or (maximum is not None and value > maximum):
                bound = f"not between {minimum} and {maximum}" if maximum is not None else f"below {minimum}"
                raise ValueError(f"{where}.blocks[{number}].ioCfg.{key}: {value} is {bound}")
        disks.append(
            DiskLimits(
                name=block.get("name", ""),
                kind=block.get("type", "device"),
                read_iops=limits.get("readIOPS", 0),
                write_iops=limits.get("writeIOPS", 0),
                read_bps=limits.get("readBPS", 0),
                write_bps=limits.get("writeBPS", 0),
                weight=limits.get("ioWeightPercent", 100),
            )
        )
    return disks


def limits_by_knob(disks: Iterable[tuple[str, DiskLimits]], present: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the limits of each knob by device number (`8:0`); -1 means no limit.

    Args:
        disks: the device numbers of disks, with limits; of several limits for one device, the last is used.
        present: devices with a limit or weight in force, which is removed unless `disks` has the device.
    """
    limits = {**{device: DiskLimits("", "device") for device in present}, **dict(disks)}
    return {
        knob: {device: getattr(limit, name) or UNLIMITED for device, limit in limits.items()}
        for name, knob in _KNOBS.items()
    }


class RootDisk(NamedTuple):
    """Latency targets and the cost model of a disk for the whole machine, as values of io.cost.qos and io.cost.model.

    An incomplete model is ignored; the kernel then uses its default model.
    """

    name: str
    kind: str
    qos: str
    model: str


def parse_root(document: Any, where: str = "cgroupRoot.blkioQOS") -> list[RootDisk]:
    """Read `blkioQOS` of `cgroupRoot`.

    The list is empty if `blkioQOS` is off. Raises ValueError if a value is invalid.
    """
    section = fit({} if document is None else document, ROOT_SHAPE, where)
    if not section.get("enable", False):
        return []
    disks = []
    for block in section.get("blocks", ()):
        io = block.get("ioCfg", {})
        latency = {key: io.get(name, default) for key, (name, default) in _LATENCIES.items()}
        qos = "enable=1 ctrl=user " + " ".join(f"{key}={value}" for key, value in latency.items())
        numbers = {key: io.get(name, 0) for key, name in _MODEL.items()}
        model = "ctrl=auto"
        if io.get("enableUserModel", False):
            is_complete = all(value > 0 for value in numbers.values())
            model = "ctrl=user model=linear " + " ".join(f"{key}={value}" for key, value in numbers.items())
            model = model if is_complete else ""
        disks.append(RootDisk(block.get("name", ""), block.get("type", "device"), qos, model))
    return disks


#: The maximum number of disks in a pod's annotation.
_MAX_DISKS: Final = 64


def _pod_disks(text: str) -> tuple[DiskLimits, ...]:
    disks = tuple(parse({**json_object(text), "enable": True}))
    if len(disks) > _MAX_DISKS:
        raise ValueError(f"the annotation has {len(disks)} disks; the limit is {_MAX_DISKS}")
    return disks


class PodVolumes(NamedTuple):
    """The volumes of a pod.

    Attributes:
        mounted: the device numbers of the mounted volumes, by the name of the volume.
        claims: the names of claims, by the names of the pod's volumes.
        other_names: the names of the pod's other volumes.
    """

    mounted: Mapping[str, str]
    claims: Mapping[str, str] = {}
    other_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, manifest: Mapping[str, Any], mounted: Mapping[str, str]) -> PodVolumes:
        """Read the volumes of a pod. There are none if the source of pods does not report them."""
        claims, other_names = dict[str, str](), set[str]()
        volumes = (manifest.get("spec") or {}).get("volumes") or ()
        for volume_ in (volume for volume in volumes if isinstance(volume, Mapping)):
            name, claim = str(volume_.get("name")), volume_.get("persistentVolumeClaim")
            if isinstance(claim, Mapping):
                claims[name] = str(claim.get("claimName"))
            elif "ephemeral" in volume_:
                claims[name] = f"{name}, created for the pod"
            else:
                other_names.add(name)
        return cls(mounted, claims, frozenset(other_names))


class BlockIo(Strategy):
    """The strategy that sets limits of block I/O."""

    name = NAME
    key = ANNOTATION_BLOCK_IO

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._set_limits: dict[tuple[str, str], tuple[Subject, Mapping[str, int]]] = {}
        self._took_over = False
        #: The disks with latency targets for the whole machine.
        self._root_set: frozenset[str] = frozenset()
        #: The mounted volumes of each pod. They are read at most once a round, because many pods may need them.
        self._mounts: dict[str, dict[str, str]] | None = None

    def __len__(self) -> int:
        """The number of remembered knobs."""
        return len(self._set_limits)

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether limits are requested or have been set."""
        return bool(rules[DISKS] or rules[ROOT_DISKS] or self._set_limits or self._root_set)

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the cgroup of best-effort pods, and for pods with an annotation."""
        fresh: dict[tuple[str, str], tuple[Subject, Mapping[str, int]]] = {}
        self._mounts = None
        folder = round_.best_effort_folder
        if not self._took_over:
            self._took_over = True
            self._take_over(round_, folder_subject(BEST_EFFORT), folder)
            for pod in round_.pods:
                if qos_class(pod.labels) != NONE:
                    self._take_over(round_, pod.subject(), pod.folder)
        self._limits(round_, folder_subject(BEST_EFFORT), folder, round_.rules[DISKS], None, fresh)
        for pod in round_.pods:
            disks = POD_DISKS.in_round(round_, pod)
            if disks and qos_class(pod.labels) != NONE:
                volumes = PodVolumes({})
                if any(disk.kind == "podvolume" for disk in disks):
                    volumes = PodVolumes.of(pod.manifest, self._mounted_volumes(round_.parts.root).get(pod.uid, {}))
                self._limits(round_, pod.subject(), pod.folder, disks, volumes, fresh)
        self._release(round_, fresh)
        self._set_limits = fresh
        self._root(round_)

    def _release(
        self, round_: Round[NodeSlo], fresh: Mapping[tuple[str, str], tuple[Subject, Mapping[str, int]]]
    ) -> None:
        """Set the requested limits, and remove limits that are no longer requested."""
        for (path, knob), (subject, limits) in fresh.items():
            _, before = self._set_limits.get((path, knob), (subject, {}))
            free = dict.fromkeys(sorted(before.keys() - limits.keys()), _NO_LIMIT[knob])
            reason = "blkioQOS; limits of other disks are removed" if free else "blkioQOS"
            round_.values.append(KnobValue(subject, path, knob, "", NAME, reason, {**limits, **free}))
        for (path, knob), (subject, before) in self._set_limits.items():
            if (path, knob) not in fresh and before and round_.parts.executor.hierarchies.exists(path):
                free = dict.fromkeys(sorted(before), _NO_LIMIT[knob])
                round_.values.append(KnobValue(subject, path, knob, "", NAME, "the limit is removed", free))

    def _take_over(self, round_: Round[NodeSlo], subject: Subject, folder: str) -> None:
        """Record the limits of a cgroup at the start. No other program sets limits of these cgroups."""
        for knob, no_limit in _NO_LIMIT.items():
            current = round_.read(folder, knob)
            if isinstance(current, Mapping):
                limits = {key: value for key, value in current.items() if isinstance(value, int) and value != no_limit}
                if limits:
                    self._set_limits[folder, knob] = subject, limits

    def _limits(
        self,
        round_: Round[NodeSlo],
        subject: Subject,
        folder: str,
        disks: Sequence[DiskLimits],
        volumes: PodVolumes | None,
        fresh: dict[tuple[str, str], tuple[Subject, Mapping[str, int]]],
    ) -> None:
        limits_by_disk: list[tuple[str, DiskLimits]] = []
        for disk in disks:
            try:
                limits_by_disk.append((disk_of(round_.parts.root, disk, volumes), disk))
            except ValueError as error:
                whose = "beClass" if volumes is None else f"pod {subject.namespace}/{subject.name}"
                round_.errors.append(f"{NAME}: {whose}: {error}")
        if not limits_by_disk:
            return
        for knob, by_device in limits_by_knob(limits_by_disk, ()).items():
            usual = _USUAL if knob == _WEIGHT else _NO_LIMIT[knob]
            limits = {device: value for device, value in by_device.items() if value != usual}
            if limits:
                fresh[folder, knob] = subject, limits

    def _root(self, round_: Round[NodeSlo]) -> None:
        """Set latency targets and models of disks in the root cgroup, with one write for each file.

        If NodeSLO lists disks, all other disks lose their targets, including targets of an earlier agent.
        """
        latencies: dict[str, str] = {}
        models: dict[str, str] = {}
        for disk in round_.rules[ROOT_DISKS]:
            try:
                device = disk_of(round_.parts.root, DiskLimits(disk.name, disk.kind))
            except ValueError as error:
                round_.errors.append(f"{NAME}: cgroupRoot: {error}")
                continue
            latencies[device] = disk.qos
            if disk.model:
                models[device] = disk.model
        present = round_.read("", _ROOT_QOS) if round_.rules[ROOT_DISKS] and not self._root_set else None
        before = self._root_set
        if isinstance(present, Mapping):
            before = frozenset(device for device, words in present.items() if ROOT_OFF not in str(words).split())
        self._root_set = frozenset(latencies)
        for knob, words in (("io.cost_model", models), (_ROOT_QOS, {**dict.fromkeys(before, ROOT_OFF), **latencies})):
            if words:
                round_.values.append(KnobValue(_ROOT, "", knob, "", NAME, "cgroupRoot.blkioQOS", words))

    def _mounted_volumes(self, root: Root) -> dict[str, dict[str, str]]:
        """Return the device numbers of mounted volumes, by the uid of the pod and the name of the volume."""
        if self._mounts is None:
            self._mounts = {}
            for mount in machine_mounts(root):
                if match := _VOLUME.fullmatch(mount.path):
                    self._mounts.setdefault(match[1], {})[match[2]] = mount.device
        return self._mounts


def disk_of(root: Root, disk: DiskLimits, volumes: PodVolumes | None = None) -> str:
    """Return the device number of a disk, for example `8:0`. Raises ValueError if the disk cannot be found.

    Args:
        root: the machine.
        disk: the name and kind of the disk.
        volumes: the volumes of the pod that requests the limit; None if NodeSLO requests it.
    """
    if disk.kind == "device":
        name = posixpath.basename(disk.name)
        if not name or name in (".", ".."):
            raise ValueError(f"{disk.name[:60]!r} is not a device")
        return _whole_disk(root, root.find(f"/sys/class/block/{name}/dev"), disk.name)
    if disk.kind == "podvolume":
        if volumes is None:
            raise ValueError(f"volume {disk.name[:60]!r}: podvolume is only valid in the annotation of a pod")
        return _volume(root, disk.name, volumes)
    if disk.kind == "volumegroup":
        return _group(root, disk.name)
    raise ValueError(f"disk {disk.name[:60]!r}: unknown kind {disk.kind[:20]!r}")


def _volume(root: Root, name: str, volumes: PodVolumes) -> str:
    """Return the device number of a volume's disk, given the name in the pod or the name of the persistent volume."""
    if name not in volumes.claims:
        if name not in volumes.mounted:
            raise ValueError(f"the kubelet has not mounted a volume {name[:60]!r} for the pod")
        return _whole_disk(root, volumes.mounted[name], name)
    candidates = sorted(volumes.mounted.keys() - volumes.other_names)
    claims = len(set(volumes.claims.values()))
    if len(candidates) == claims and len({volumes.mounted[candidate] for candidate in candidates}) == 1:
        return _whole_disk(root, volumes.mounted[candidates[0]], name)
    disks = {_whole_disk(root, volumes.mounted[candidate], candidate) for candidate in candidates}
    if len(candidates) != claims or len(disks) != 1:
        raise ValueError(
            f"{name[:60]!r} is one of {claims} claims; the kubelet has mounted {len(candidates)} of them, "
            f"on {len(disks)} disks: only an apiserver knows its persistent volume. Name the persistent volume instead"
            + (f", for example {candidates[0]}" if candidates else "")
        )
    return disks.pop()


def _group(root: Root, name: str) -> str:
    """Return the device number of the disk of an LVM volume group, which is found by a volume in use."""
    mapped = (name for name in sorted(root.names("/sys/class/block"))[:_MAX_DEVICES] if name.startswith("dm-"))
    for device in mapped:
        match = _LVM_NAME.match((root.find(f"/sys/class/block/{device}/dm/name") or "").strip())
        numbers = root.find(f"/sys/class/block/{device}/dev")
        if match and match[1].replace("--", "-") == name and numbers is not None and _is_lvm(root, numbers.strip()):
            return _whole_disk(root, numbers, name)
    raise ValueError(f"no volume of volume group {name[:60]!r} is in use")


def _whole_disk(root: Root, numbers: str | None, name: str) -> str:
    """Return the device number of the whole disk of a device, because only whole disks can have limits."""
    if numbers is None:
        raise ValueError(f"disk {name[:60]!r} not found on this machine")
    if numbers.startswith("0:"):  # memory, a network's file system, btrfs
        raise ValueError(f"{name[:60]!r} is not on a disk of this machine")
    level, disks = [numbers.strip()], set[str]()
    for _ in range(_MAX_DEPTH):
        below: list[str] = []
        for device in level[:_MAX_DEVICES]:
            if _is_lvm(root, device):
                slaves = f"/sys/dev/block/{device}/slaves"
                below += [(root.find(f"{slaves}/{slave}/dev") or "").strip() for slave in root.names(slaves)]
            elif root.find(f"/sys/dev/block/{device}/partition") is not None:
                disks.add((root.find(f"/sys/dev/block/{device}/../dev") or device).strip())
            else:
                disks.add(device)
        level = below
    if len(disks) != 1 or level:
        raise ValueError(f"{name[:60]!r} is on {len(disks)} disks; limits require exactly one")
    return disks.pop()


def _is_lvm(root: Root, numbers: str) -> bool:
    return (root.find(f"/sys/dev/block/{numbers}/dm/uuid") or "").startswith("LVM-")


DISKS: Final[Part[tuple[DiskLimits, ...]]] = Part(
    lambda spec: tuple(parse(*class_part(spec, "beClass", "blkioQOS"))), ()
)
ROOT_DISKS: Final[Part[tuple[RootDisk, ...]]] = Part(
    lambda spec: tuple(parse_root(*class_part(spec, "cgroupRoot", "blkioQOS"))), ()
)
POD_DISKS: Final[PodAnnotation[tuple[DiskLimits, ...]]] = PodAnnotation(
    NAME, ANNOTATION_BLOCK_IO, lambda text, _rules, _qos: _pod_disks(text), lambda _rules, _qos: ()
)
_LIMITS: Final = ("io.read_bps", "io.write_bps", "io.read_iops", "io.write_iops", _WEIGHT)
STRATEGY: Final = StrategyRow(
    NAME,
    False,
    "block I/O: weights and limits for each disk",
    "nri.agent.koordinator.block_io:BlockIo",
    (
        *(OwnedKnob(Level.NODE, file) for file in ("io.cost_qos", "io.cost_model")),
        *(OwnedKnob(level, file) for level in (Level.KUBE_QOS, Level.POD) for file in _LIMITS),
    ),
    ANNOTATION_BLOCK_IO,
    document_keys=((SLO, "resourceQOSStrategy.beClass.blkioQOS"),),
)
