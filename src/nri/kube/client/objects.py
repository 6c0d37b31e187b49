"""Kinds of objects, and answers of an API server: pages of a list, events of a watch, statuses, errors.

An object is a dict of the used fields, see `nri.kube.decoder`. Functions raise ValueError if an answer is invalid.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from nri.config.syntax import parse_json
from nri.errors import NriError
from nri.kube.decoder import Document, Pod, ResourceClaim, TooCostly, make_decoder, make_event_decoder
from nri.kube.lists import HEAD_BYTES, OversizedObject
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.kube.object_cache import ObjectCache


class Kind(NamedTuple):
    """A kind of the API.

    Attributes:
        name: the kind's name in manifests.
        group: the API group, or "" for the core group.
        version: the version of the API.
        plural: the kind's name in URLs.
        shape: the used fields of an object.
    """

    name: str
    group: str
    version: str
    plural: str
    shape: Any = Document

    @property
    def path(self) -> str:
        """The URL path of all objects of the kind in all namespaces, without a leading slash."""
        return "/".join([*(("apis", self.group) if self.group else ("api",)), self.version, self.plural])

    def limited_to(self, namespace: str) -> Kind:
        """The kind, limited to the objects of a namespace; the kind itself for ""."""
        return self._replace(plural=f"namespaces/{quote(namespace, safe='')}/{self.plural}") if namespace else self

    def object_path(self, namespace: str, name: str, part: str = "") -> str:
        """The URL path of an object, or of a subresource such as `eviction`."""
        head, _, plural = self.path.rpartition("/")
        words = [head, "namespaces", quote(namespace, safe=""), plural, quote(name, safe=""), part]
        return "/".join(word for word in words if word)

    def cluster_object_path(self, name: str, part: str = "") -> str:
        """The URL path of a cluster-wide object, or of a subresource such as `status`."""
        return "/".join(word for word in (self.path, quote(name, safe=""), part) if word)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Kind("Pod", "", "v1", "pods", Pod)
NODES = Kind("Node", "", "v1", "nodes")
NODE_SLOS = Kind("NodeSLO", "slo.koordinator.sh", "v1alpha1", "nodeslos")
NODE_TOPOLOGIES = Kind("NodeResourceTopology", "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies")
#: The resource that placement plugins write, in a different API version than Koordinator's.
NODE_ZONES = NODE_TOPOLOGIES._replace(version="v1alpha2")
CONFIG_MAPS = Kind("ConfigMap", "", "v1", "configmaps")
#: The kinds of dynamic resource allocation, which only the driver in `nri.plugins.dra_cpu` uses.
RESOURCE_CLAIMS = Kind("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", ResourceClaim)
RESOURCE_SLICES = Kind("ResourceSlice", "resource.k8s.io", "v1", "resourceslices")
#: The kinds that the agent can follow, by name.
KINDS = {kind.name: kind for kind in (PODS, NODES, NODE_SLOS, NODE_TOPOLOGIES, CONFIG_MAPS)}


Object = dict[str, Any]
#: Maximum pause before a retry, in seconds; a longer pause in an error response is reduced to it. JSON can contain
#: numbers that are too large for a float.
_MAX_RETRY_AFTER_S = 86_400
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class Page(NamedTuple):
    """The metadata of a page: the version of the list, and the token for the next page ("" at the end)."""

    version: str
    more: str


class Event(NamedTuple):
    """A change of an object.

    Attributes:
        type: a type in `_EVENTS`.
        object: the object; a BOOKMARK has only its version, an ERROR is a status.
        size: the object's size in memory in bytes.
        problem: why the object is omitted, or "" if it is not. An omitted object has only metadata.
    """

    type: str
    object: Object
    size: int = 0
    problem: str = ""


class ObjectReader:
    """Reads lists and events of a kind. Raises NriError without the extra `agent`.

    Args:
        kind: the kind of the objects.
    """

    def __init__(self, kind: Kind) -> None:
        self._decode = make_decoder(kind.shape)
        self._split = make_event_decoder()

    def read_item(self, item: bytes | OversizedObject, objects: ObjectCache) -> None:
        """Add an object of a list to a cache, or record why it is omitted."""
        objects.take(item, self._decode, lambda value: key_of(_checked_object(value)))

    def read_object(self, data: bytes) -> Object:
        """Parse one object."""
        return _checked_object(self._decode(data).value)

    def read_event(self, line: bytes | OversizedObject) -> Event:
        """Parse one line of a watch."""
        if isinstance(line, OversizedObject):
            return Event(_known_type(line.event_type), _head_object(line), problem=line.reason)
        event_type, content = self._split(line)
        if _known_type(event_type) in ("BOOKMARK", "ERROR"):
            obj = _json_object(_decode(content), "the event's object")
            if event_type == "BOOKMARK":
                version_of(obj)
            return Event(event_type, obj)
        try:
            value, size = self._decode(content)
        except TooCostly as error:
            return Event(event_type, _head_object(OversizedObject.of(content, len(content))), problem=str(error))
        return Event(event_type, _checked_object(value), size)


def _known_type(event_type: str) -> str:
    if event_type not in _EVENTS:
        raise ValueError("the event has an unknown type")
    return event_type


def _head_object(item: OversizedObject) -> Object:
    """The metadata at the beginning of an object that is omitted."""
    namespace, name = item.key
    return {"metadata": {"namespace": namespace, "name": name, "resourceVersion": item.version}}


def read_page(frame: bytes) -> Page:
    """Parse a list without its objects."""
    document = _json_object(_decode(frame), "the answer")
    meta = _json_object(document.get("metadata") or {}, "the list's metadata")
    version = meta.get("resourceVersion")
    if not isinstance(version, str) or not version or not isinstance(document.get("items"), (list, type(None))):
        raise ValueError("not a list of objects with a version")
    return Page(version, str(meta.get("continue") or ""))


def read_status(data: bytes) -> tuple[int, str, float]:
    """Parse a status: code, message, and seconds until a retry. Returns 0, "", 0 if it is invalid."""
    try:
        return status_of(_json_object(_decode(data), "the status"))
    except ValueError:
        return 0, "", 0.0


def status_of(status: Object) -> tuple[int, str, float]:
    """Return code and message of a status, and the seconds until a retry."""
    code, details = status.get("code"), status.get("details")
    after = details.get("retryAfterSeconds") if isinstance(details, dict) else 0
    reason = str(status.get("message") or status.get("reason") or "")
    after_s = float(min(max(after, 0), _MAX_RETRY_AFTER_S)) if isinstance(after, int) else 0.0
    return code if isinstance(code, int) else 0, reason, after_s


def key_of(obj: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    meta = obj["metadata"]
    return str(meta.get("namespace") or ""), meta["name"]


def version_of(obj: Object) -> str:
    """Return the version of an object."""
    version = _json_object(obj.get("metadata"), "the object's metadata").get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError("an object has no version")
    return version


def _checked_object(value: Object) -> Object:
    """Return an object. Raises ValueError if it does not have a name and a version."""
    meta = _json_object(value.get("metadata"), "the object's metadata")
    if not meta.get("name"):
        raise ValueError("an object has no name")
    version_of(value)
    return value


def _json_object(value: Any, what: str) -> Object:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object")  # noqa: TRY004  (a bad answer, not a bad call)
    return value


def _decode(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None


_GONE = 410
#: An API server answers 504 for a version that it has not reached, and also when it is busy.
_TOO_NEW = "Too large resource version"
_HINTS = {
    401: "check that the token is valid",
    403: "see deploy/agent/rbac.yaml, deploy/placement/rbac.yaml or deploy/dra-cpu/rbac.yaml",
    404: "check that its CustomResourceDefinition is installed",
}


class ApiserverError(NriError):
    """A request to the API server failed.

    Attributes:
        what: the request, such as "list nodeslos.slo.koordinator.sh".
        status: HTTP status, or 0 without an answer.
        reason: the API server's message, or another short reason.
        retry_after_s: pause that the API server requests, or 0.
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
        """Whether the API server does not have the requested version, so that all objects must be listed again."""
        return self.status == _GONE or _TOO_NEW in self.reason


#: A line longer than this multiple of the limit is an error.
_MAX_LINE_FACTOR = 32


class Lines:
    """Splits data into lines; the cost is linear in its length, even for small pieces.

    Args:
        max_bytes: the limit for a line; a longer line becomes `OversizedObject`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | OversizedObject]:
        """Return the complete lines that are not empty, without line ends. Raises ValueError if a line is too long."""
        *ended, tail = data.split(b"\n")
        lines: list[bytes | OversizedObject] = []
        for part in ended:
            self._add_part(part)
            content, size = b"".join(self._parts), self._size
            self._parts, self._size = [], 0
            if size > self._max_bytes:
                lines.append(OversizedObject.of(content, size))
            elif stripped := content.strip():
                lines.append(stripped)
        self._add_part(tail)
        return lines

    def _add_part(self, part: bytes) -> None:
        if self._size <= self._max_bytes and self._size + len(part) > self._max_bytes:
            self._parts = [b"".join([*self._parts, part])[:HEAD_BYTES]]
        elif part and self._size <= self._max_bytes:
            self._parts.append(part)
        self._size += len(part)
        if self._size > _MAX_LINE_FACTOR * self._max_bytes:
            raise ValueError(f"a line of more than {self._size} bytes")
