"""Readers of pod annotations. They raise ValueError, which starts with the annotation's key, if it is malformed.

Results are cached and shared: do not modify them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nri.agent.koordinator import names
from nri.agent.koordinator.memo import LONG, Memo
from nri.kube.shapes import INT32, QUANTITY, Items, Record, Table, decode

#: The shape of amounts by the name of the resource.
AMOUNTS = Table(QUANTITY)
_FUNCTION = Record({"minor": int, "busID": str})
_EXTENSION = Record({"vfs": Items(_FUNCTION), "gpuSharedResourceTemplate": str})
_DEVICES = Table(Items(Record({"minor": INT32, "resources": AMOUNTS, "id": str, "extension": _EXTENSION})))
_memo = Memo()


def read(annotations: Mapping[str, str], key: str, shape: Any) -> Any | None:
    """Read an annotation as JSON of a shape, or return None if it is absent."""
    text = annotations.get(key)
    if text is None:
        return None
    return remembered(key, text, repr(shape) if len(text) >= LONG else "", lambda text: decode(text, shape))


def remembered(key: str, text: str, reader: str, parse: Callable[[str], Any]) -> Any:
    """Parse an annotation, cached by reader. Raises ValueError if it is malformed."""
    try:
        return _memo.get(reader, text, parse)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None


def device_allocations(annotations: Mapping[str, str], kind: str) -> list[dict[str, Any]]:
    """Return the devices of a kind (`gpu`, `rdma`) that the scheduler assigned to a pod."""
    allocations: list[dict[str, Any]] = (read(annotations, names.ANNOTATION_DEVICES, _DEVICES) or {}).get(kind, [])
    return allocations
