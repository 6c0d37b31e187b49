"""Requests to the API server: lists, watches, patches and evictions, with limits of size and time.

lightkube's lists and watches have no such limits, so only its HTTP client is used. A list is read object by object,
because any author of pods can make it long. A late, oversized or invalid answer is an ApiserverError.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from nri.errors import NriError
from nri.kube.client.http import (
    ACCOUNT,
    READ_S,
    SharedClient,
    make_client,
    request_errors,
    request_timeouts,
    silence_error,
)
from nri.kube.client.objects import (
    PODS,
    ApiserverError,
    Event,
    Kind,
    Lines,
    Object,
    ObjectReader,
    read_page,
    read_status,
    status_of,
)
from nri.kube.lists import MAX_OBJECT_BYTES, ListSplitter
from nri.kube.object_cache import ObjectCache

#: Limit for the bytes of all pages of a list. The pages are not kept in memory.
MAX_LIST_BYTES = 512 << 20
#: Request this many objects in a page.
PAGE_OBJECTS = 500
#: Limit for an answer whose content is ignored.
_MAX_ANSWER_BYTES = 64 << 20
_LIST_TIMEOUT_S = 60.0
#: A watch without data for this time is closed and resumed, because its connection may be dead.
WATCH_READ_TIMEOUT_S = 90.0
#: A watch may exceed its agreed duration by this time.
_WATCH_GRACE_S = 30.0


def connect(kubeconfig: str | os.PathLike[str] = "", context: str = "", account: str = ACCOUNT) -> Apiserver:
    """Return the API server of a kubeconfig, or by default of the cluster in which this program runs.

    No request is sent yet. Raises ConfigError if the kubeconfig or the service account is invalid, and NriError without
    the extra `agent`.

    Args:
        kubeconfig: the path of the kubeconfig, or "" for the service account.
        context: the name of a context, or "" for the current context.
        account: the folder of the service account.
    """
    path = os.fspath(kubeconfig)
    return Apiserver(lambda: make_client(path, context, account))


class Apiserver:
    """An API server. Thread-safe; each watch has a separate connection.

    Args:
        make: creates the HTTP client, from files that may have changed.
        clock: monotonic seconds.
    """

    def __init__(self, make: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shared = SharedClient(make, clock)
        self._failures: tuple[type[Exception], ...] = (*request_errors(), NriError)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections; connections in use are closed after their last use."""
        self._shared.close()

    @property
    def address(self) -> str:
        """The API server's URL."""
        return self._shared.address

    def list(self, kind: Kind, fields: str = "", version: str = "") -> Listing:
        """Return all objects of a kind. Objects that are too large are omitted, see `ObjectCache`.

        Args:
            kind: the kind.
            fields: a field selector.
            version: "" for the newest state, "0" for any state, else the minimum version of the list.
        """
        what = f"list {kind}"
        query = {"fieldSelector": fields, "limit": str(PAGE_OBJECTS)}
        query |= {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"} if version else {}
        reader, objects = ObjectReader(kind), ObjectCache()
        max_bytes, deadline = MAX_LIST_BYTES, self._clock() + _LIST_TIMEOUT_S
        while True:
            splitter = ListSplitter()
            try:
                for data in self._answer_parts(what, kind.path, {"params": _without_empty(query)}, max_bytes, deadline):
                    max_bytes -= len(data)
                    for item in splitter.feed(data):
                        reader.read_item(item, objects)
                page = read_page(splitter.end())
            except ValueError as error:
                raise ApiserverError(what, 0, f"the answer cannot be read: {error}") from None
            if not page.more:
                return Listing(objects, page.version)
            query = {"fieldSelector": fields, "limit": str(PAGE_OBJECTS), "continue": page.more}

    def get(self, kind: Kind, path: str) -> Object:
        """Return one object.

        Args:
            kind: the kind.
            path: the path of the object, see `Kind.in_namespace` and `Kind.named`.
        """
        what = f"get {path}"
        data = b"".join(self._answer_parts(what, path, {}, MAX_OBJECT_BYTES, self._clock() + READ_S))
        try:
            return ObjectReader(kind).read_object(data)
        except ValueError as error:
            raise ApiserverError(what, 0, f"the answer cannot be read: {error}") from None

    @contextmanager
    def watch(self, kind: Kind, version: str, fields: str = "", lasting_s: int = 300) -> Iterator[WatchStream]:
        """Watch changes of the objects of a kind after a version, for about `lasting_s` seconds."""
        what = f"watch {kind}"
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, "fieldSelector": fields}
        query["timeoutSeconds"] = str(lasting_s)
        options = {
            "params": _without_empty(query),
            "timeout": request_timeouts(WATCH_READ_TIMEOUT_S),
            "headers": _UNCOMPRESSED,
        }
        with self._errors(what), self._shared.borrow() as http, http.stream("GET", kind.path, **options) as answer:
            self._check_status(what, answer, self._clock() + READ_S)
            yield WatchStream(kind, what, answer, self._clock, self._clock() + lasting_s + _WATCH_GRACE_S)

    def evict(self, namespace: str, name: str, uid: str = "", grace_s: int | None = None) -> None:
        """Request the eviction of a pod, which ends later. Raises ApiserverError 429 if a disruption budget forbids it.

        Args:
            namespace: the pod's namespace.
            name: the pod's name.
            uid: the pod's uid; another pod with the same name is not evicted.
            grace_s: the termination grace period in seconds, or None for the pod's own period.
        """
        options: Object = {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = PODS.object_path(namespace, name, "eviction")
        self._send(f"evict {namespace}/{name}", path, {"json": body}, "POST")

    def patch(self, what: str, path: str, changes: Object, owner: str = "") -> None:
        """Change fields of an object. Missing fields stay unchanged; null removes a field.

        Args:
            what: a description of the request for errors.
            path: the path of the object, see `Kind.in_namespace` and `Kind.named`.
            changes: the new fields; with an `owner` the whole object.
            owner: the field manager of a server-side apply, which creates the object, and removes missing fields.
        """
        kind = "application/apply-patch+yaml" if owner else "application/merge-patch+json"
        options: dict[str, Any] = {"content": json.dumps(changes), "headers": {"Content-Type": kind}}
        if owner:
            options["params"] = {"fieldManager": owner, "force": "true"}
        self._send(what, path, options, "PATCH")

    def _send(self, what: str, path: str, options: Mapping[str, Any], method: str) -> None:
        """Send a request and ignore the content of the answer."""
        for _ in self._answer_parts(what, path, options, _MAX_ANSWER_BYTES, self._clock() + READ_S, method):
            pass

    def _answer_parts(
        self, what: str, path: str, options: Mapping[str, Any], max_bytes: int, deadline: float, method: str = "GET"
    ) -> Iterator[bytes]:
        """Send a request, and yield the parts of the answer."""
        options = {**options, "headers": {**_UNCOMPRESSED, **options.get("headers", {})}}
        with self._errors(what), self._shared.borrow() as http, http.stream(method, path, **options) as answer:
            self._check_status(what, answer, deadline)
            for part in answer.iter_bytes():
                max_bytes -= len(part)
                if max_bytes < 0:
                    raise ApiserverError(what, 0, "the answer is too large")
                if self._clock() > deadline:
                    raise ApiserverError(what, 0, "the answer takes too long")
                yield part

    def _check_status(self, what: str, answer: Any, deadline: float) -> None:
        """Raise ApiserverError for an error status, with its message if that arrives in time."""
        if 200 <= answer.status_code < 300:
            return
        data = b""
        for part in answer.iter_bytes():
            data += part
            if len(data) > 1 << 16 or self._clock() > deadline:
                break
        _, reason, after_s = read_status(data)
        if answer.status_code == 401:
            self._shared.doubt()
        raise ApiserverError(what, answer.status_code, reason or f"HTTP {answer.status_code}", after_s)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Convert errors of the HTTP client to ApiserverError."""
        try:
            yield
        except ApiserverError:
            raise
        except self._failures as error:
            self._shared.doubt()
            reason = str(error) or type(error).__name__
            if "Bearer" in reason:  # an error about an invalid header contains the token
                reason = "the token is not one line of text"
            raise ApiserverError(what, 0, f"{self.address}: {reason}") from None


class Listing(NamedTuple):
    """The objects of a list, and its version."""

    objects: ObjectCache
    version: str


class WatchStream:
    """An open watch."""

    def __init__(self, kind: Kind, what: str, answer: Any, clock: Callable[[], float], deadline: float) -> None:
        self._reader = ObjectReader(kind)
        self._action = what
        self._answer = answer
        self._clock = clock
        self._deadline = deadline

    def events(self) -> Iterator[list[Event]]:
        """Yield groups of events until the API server ends the watch, or sends no data for `WATCH_READ_TIMEOUT_S`.

        Raises ApiserverError if the watch fails.
        """
        lines = Lines(MAX_OBJECT_BYTES)
        for part in self._parts():
            try:
                events = [self._reader.read_event(line) for line in lines.feed(part)]
            except ValueError as error:
                raise ApiserverError(self._action, 0, f"an event cannot be read: {error}") from None
            bad = next((place for place, event in enumerate(events) if event.type == "ERROR"), len(events))
            if bad:
                yield events[:bad]
            for event in events[bad:]:
                code, reason, after_s = status_of(event.object)
                raise ApiserverError(self._action, code, reason, after_s)
            if self._clock() > self._deadline:
                return

    def _parts(self) -> Iterator[bytes]:
        try:
            yield from self._answer.iter_bytes()
        except silence_error():
            pass  # no failure: the API server need not send bookmarks, and a dead connection fails when resumed

    def cut(self) -> None:
        """End the watch from another thread."""
        stream = self._answer.extensions.get("network_stream")
        connection = stream.get_extra_info("socket") if stream is not None else None
        if connection is None:
            return
        try:
            # A second descriptor is used because TLS's own shutdown would wait for the peer, and for the reader's lock.
            with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # already closed


#: A compressed answer could expand a thousand times at once.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


def _without_empty(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
