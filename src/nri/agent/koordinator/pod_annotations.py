"""Read what is in a pod's annotations: one function each, which raises ValueError for what cannot be read.

The error's text begins with the annotation's key, so that it can be shown as it is. Do not change the result:
`nri.agent.koordinator.memo` keeps it for the next caller. Next: `nri.policies.shapes`, which knows how such texts
are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nri.agent.koordinator import names
from nri.agent.koordinator.memo import LONG, Memo
from nri.kube import quantity
from nri.policies import formulas
from nri.policies.contexts import ExtendedResources
from nri.policies.shapes import INT32, QUANTITY, Items, Record, Table, decode

__all__ = [
    "SHAPES",
    "annotated",
    "bandwidths",
    "batch_request",
    "cpu_qos",
    "device_allocations",
    "extended_resources",
    "own_cpuset",
    "read",
    "resctrl",
    "resource_status",
]

_LIST = Table(QUANTITY)
_STATUS = Record({"cpuset": str, "numaNodeResources": Items(Record({"node": INT32, "resources": _LIST}))})
_CPU_QOS = Record({"enable": bool, "groupIdentity": int, "schedIdle": int, "coreExpeller": bool})
_EXTENDED = Record({"containers": Table(Record({"requests": _LIST, "limits": _LIST}))})
_FUNCTION = Record({"minor": int, "busID": str})
_EXTENSION = Record({"vfs": Items(_FUNCTION), "gpuSharedResourceTemplate": str})
_DEVICES = Table(Items(Record({"minor": INT32, "resources": _LIST, "id": str, "extension": _EXTENSION})))
_SCHEMATA = {"percent": int, "range": Items(int)}
_PART = Record({"schemata": Record(_SCHEMATA), "schemataPerCache": Items(Record({"cacheID": int, **_SCHEMATA}))})
_RESCTRL = Record({"llc": _PART, "mb": _PART})
_LIMITS = Record({"ingressLimit": str, "egressLimit": str})
#: The keys that are read of annotations that people write; the others are the scheduler's own.
SHAPES = {
    names.ANNOTATION_CPU_QOS: _CPU_QOS,
    names.ANNOTATION_EXTENDED: _EXTENDED,
    names.ANNOTATION_RESCTRL: _RESCTRL,
}
#: The identities that the kernel takes.
_IDENTITIES = range(-1, 3)
_memo = Memo()


def read(annotations: Mapping[str, str], key: str, shape: Any) -> Any | None:
    """Read one annotation as JSON of a shape; None if it is not there."""
    text = annotations.get(key)
    if text is None:
        return None
    return _remembered(key, text, repr(shape) if len(text) >= LONG else "", lambda text: decode(text, shape))


def _remembered(key: str, text: str, reader: str, parse: Callable[[str], Any]) -> Any:
    try:
        return _memo.get(reader, text, parse)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None


def resource_status(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what the scheduler gave a pod: `cpuset`, `numaNodeResources`."""
    return read(annotations, names.ANNOTATION_STATUS, _STATUS) or {}


def own_cpuset(annotations: Mapping[str, str]) -> str:
    """The CPUs that the scheduler gave to this pod alone; "" if none."""
    cpuset: str = resource_status(annotations).get("cpuset", "")
    return cpuset


def cpu_qos(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """A pod's own word on its group identity: `enable`, `groupIdentity`; None if it has none."""
    found: dict[str, Any] | None = read(annotations, names.ANNOTATION_CPU_QOS, _CPU_QOS)
    identity = (found or {}).get("groupIdentity", 0)
    if identity not in _IDENTITIES:
        raise ValueError(f"annotation {names.ANNOTATION_CPU_QOS}: a group identity is from -1 to 2, not {identity}")
    return found


def extended_resources(annotations: Mapping[str, str]) -> dict[str, ExtendedResources] | None:
    """Return what each container asks of batch resources; None without the annotation, or if it names no containers."""
    text = annotations.get(names.ANNOTATION_EXTENDED)
    found: dict[str, ExtendedResources] | None = None
    if text is not None:
        found = _remembered(names.ANNOTATION_EXTENDED, text, "extended", _extended)
    return found


def annotated(given: Mapping[str, str]) -> dict[str, ExtendedResources] | None:
    """Return batch resources by container from a pod's annotation; None if it cannot be read."""
    try:
        return extended_resources(given)
    except ValueError:
        return None


def batch_request(containers: Iterable[ExtendedResources]) -> int:
    """Return how many thousandths of a CPU the containers of an annotation request of batch resources."""
    return sum(max(formulas.amount(each.requests, names.BATCH_CPU), 0) for each in containers)


def _extended(text: str) -> dict[str, ExtendedResources] | None:
    spec = decode(text, _EXTENDED).get("containers")
    if spec is None:
        return None
    return {
        name: ExtendedResources(requests=each.get("requests", {}), limits=each.get("limits", {}))
        for name, each in spec.items()
    }


def device_allocations(annotations: Mapping[str, str], kind: str) -> list[dict[str, Any]]:
    """The devices of a kind (`gpu`, `rdma`) that the scheduler gave a pod."""
    found: list[dict[str, Any]] = (read(annotations, names.ANNOTATION_DEVICES, _DEVICES) or {}).get(kind, [])
    return found


def resctrl(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Cache and memory bandwidth of a pod: `llc` and `mb`, each `schemata` and `schemataPerCache`."""
    found: dict[str, Any] | None = read(annotations, names.ANNOTATION_RESCTRL, _RESCTRL)
    return found


def bandwidths(annotations: Mapping[str, str]) -> dict[str, int]:
    """The limits of a pod's own traffic in bits per second, `ingressLimit` and `egressLimit`; none is left out."""
    key = names.ANNOTATION_NETWORK_QOS
    found: dict[str, str] = read(annotations, key, _LIMITS) or {} if annotations.get(key) else {}
    limits: dict[str, int] = {}
    for way, text in found.items():
        try:
            limits |= {way: quantity.ceil(quantity.capped(text))} if text else {}
        except ValueError as error:
            raise ValueError(f"annotation {key}: {way}: {error}") from None
    return limits
