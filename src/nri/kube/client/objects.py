"""Answers of an apiserver as objects: a page of a list, an event of a watch, a refusal. Pure; bounds are elsewhere.

An object is the API's JSON as a dict, with the metadata that make it one, and without `managedFields`, which are of no
use here and often its biggest part. What is not what the API sends is a ValueError. Next: `nri.kube.client.connection`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Event", "Object", "Page", "key_of", "read_event", "read_page", "read_status", "version_of"]

Object = dict[str, Any]
#: No refusal asks for a longer pause that counts, in seconds; JSON has numbers that no float can hold.
_LONGEST_S = 86_400
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class Page(NamedTuple):
    """Objects of a list, the version of the whole, and what to ask for the next page with ("" at the end)."""

    items: list[Object]
    version: str
    more: str


class Event(NamedTuple):
    """A change of an object; a BOOKMARK's only has a version, and an ERROR's is a status."""

    type: str
    object: Object


def read_page(data: bytes) -> Page:
    """Read a page of a list."""
    found = _table(_decode(data), "the answer")
    meta = _table(found.get("metadata") or {}, "its metadata")
    version = meta.get("resourceVersion")
    items = found.get("items")
    if not isinstance(version, str) or not version or not isinstance(items, (list, type(None))):
        raise ValueError("it is no list of objects with a version")
    return Page([_object(item) for item in items or ()], version, str(meta.get("continue") or ""))


def read_event(line: bytes) -> Event:
    """Read one line of a watch."""
    found = _table(_decode(line), "the event")
    kind, thing = found.get("type"), _table(found.get("object"), "its object")
    if kind not in _EVENTS:
        raise ValueError("the event has a type that is not known")
    if kind == "BOOKMARK":
        version_of(thing)
    return Event(kind, thing if kind in ("BOOKMARK", "ERROR") else _object(thing))


def read_status(data: bytes) -> tuple[int, str, float]:
    """Read a refusal: its code, its words, and after how many seconds to try again; 0, "", 0 for what is none."""
    try:
        return status_of(_table(_decode(data), "the status"))
    except ValueError:
        return 0, "", 0.0


def status_of(found: Object) -> tuple[int, str, float]:
    """Return the code of a status, its words, and after how many seconds to try again."""
    code, details = found.get("code"), found.get("details")
    after = details.get("retryAfterSeconds") if isinstance(details, dict) else 0
    words = str(found.get("message") or found.get("reason") or "")
    after_s = float(min(max(after, 0), _LONGEST_S)) if isinstance(after, int) else 0.0
    return code if isinstance(code, int) else 0, words, after_s


def key_of(thing: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    meta = thing["metadata"]
    return str(meta.get("namespace") or ""), meta["name"]


def version_of(thing: Object) -> str:
    """Return the version of an object."""
    version = _table(thing.get("metadata"), "its metadata").get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError("an object has no version")
    return version


def _object(value: Any) -> Object:
    thing = _table(value, "an object")
    meta = _table(thing.get("metadata"), "its metadata")
    if not isinstance(meta.get("name"), str) or not isinstance(meta.get("namespace") or "", str):
        raise ValueError("an object has no name")  # noqa: TRY004  (a bad answer, not a bad call)
    version_of(thing)
    meta.pop("managedFields", None)
    return thing


def _table(value: Any, what: str) -> Object:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object of JSON")  # noqa: TRY004  (a bad answer, not a bad call)
    return value


def _decode(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
