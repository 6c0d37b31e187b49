"""Kinds of objects, and answers of an apiserver: a page of a list, an event of a watch, a refusal, an error. Pure.

An object is the API's JSON as a dict, with the metadata that make it one, and without `managedFields`, which are of no
use here and often its biggest part. An answer that no API sends is a ValueError. Next: `nri.kube.client.connection`.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from nri.config.syntax import parse_json
from nri.errors import NriError
from nri.text import plain

__all__ = [
    "KINDS",
    "NODES",
    "NODE_SLOS",
    "NODE_TOPOLOGIES",
    "NODE_ZONES",
    "PODS",
    "ApiserverError",
    "Event",
    "Kind",
    "Lines",
    "Object",
    "Page",
    "TooLong",
    "key_of",
    "read_event",
    "read_page",
    "read_status",
    "version_of",
]


class Kind(NamedTuple):
    """A kind of the API: its name, its group ("" is the core), its version, and its name in URLs."""

    name: str
    group: str
    version: str
    plural: str

    @property
    def path(self) -> str:
        """The URL's path of all objects of the kind, in all namespaces, without a slash in front."""
        return "/".join([*(("apis", self.group) if self.group else ("api",)), self.version, self.plural])

    def in_namespace(self, namespace: str, name: str, part: str = "") -> str:
        """The URL's path of one object, or of a part of it such as `eviction`."""
        head, _, plural = self.path.rpartition("/")
        words = [head, "namespaces", quote(namespace, safe=""), plural, quote(name, safe=""), part]
        return "/".join(word for word in words if word)

    def named(self, name: str, part: str = "") -> str:
        """The URL's path of one object that is in no namespace, or of a part of it such as `status`."""
        return "/".join(word for word in (self.path, quote(name, safe=""), part) if word)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Kind("Pod", "", "v1", "pods")
NODES = Kind("Node", "", "v1", "nodes")
NODE_SLOS = Kind("NodeSLO", "slo.koordinator.sh", "v1alpha1", "nodeslos")
NODE_TOPOLOGIES = Kind("NodeResourceTopology", "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies")
#: The resource that plugins of placement write: another version than Koordinator's.
NODE_ZONES = NODE_TOPOLOGIES._replace(version="v1alpha2")
#: The kinds that the agent can follow, by name.
KINDS = {kind.name: kind for kind in (PODS, NODES, NODE_SLOS, NODE_TOPOLOGIES)}


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
        raise ValueError("it is not a list of objects with a version")
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
        raise ValueError(f"{what} is not an object of JSON")  # noqa: TRY004  (a bad answer, not a bad call)
    return value


def _decode(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


_GONE = 410
#: An apiserver that was asked for a version that it has not reached answers 504, and so does one that is busy.
_TOO_NEW = "Too large resource version"
_HINTS = {
    401: "is the token still good?",
    403: "see the roles in deploy/agent/rbac.yaml, or deploy/placement/rbac.yaml",
    404: "is its CustomResourceDefinition installed?",
}


class ApiserverError(NriError):
    """The apiserver cannot be asked, or refuses.

    Attributes:
        what: what was asked: "list nodeslos.slo.koordinator.sh".
        status: of HTTP, or 0 if there was no answer.
        reason: in a few words, the apiserver's own if it gave some.
        retry_after_s: how long it wants to be left alone, 0 if it does not say.
    """

    def __init__(self, what: str, status: int, reason: str, retry_after_s: float = 0.0) -> None:
        hint = _HINTS.get(status, "")
        short = plain(reason, 300)
        super().__init__(f"cannot {what}: {short}" + (f" ({hint})" if hint else ""))
        self.what = what
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def expired(self) -> bool:
        """Whether the version that was asked for is one that the apiserver does not have: all must be listed again."""
        return self.status == _GONE or _TOO_NEW in self.reason


class TooLong(ValueError):
    """A line is longer than its bound."""


class Lines:
    """Cut what comes in pieces into lines; the cost is linear in what comes, however small the pieces are."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that have ended, without their ends and without empty ones. Raises TooLong."""
        *ended, rest = data.split(b"\n")
        if not ended:
            self._keep(rest)
            return []
        self._keep(ended[0])
        lines = [b"".join(self._parts), *ended[1:]]
        self._parts, self._size = [], 0
        self._keep(rest)
        if any(len(line) > self._longest for line in lines):
            raise TooLong(f"an event is longer than {self._longest} bytes")
        return [stripped for line in lines if (stripped := line.strip())]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            raise TooLong(f"an event is longer than {self._longest} bytes")
        if part:
            self._parts.append(part)
