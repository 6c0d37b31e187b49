"""A connection to the apiserver: lists, watches, patches and evictions, as JSON, with a bound and a deadline on each.

lightkube's own lists and watches have no bound on what they read and none on how long, so ours are here, on its HTTP
client. A list is read an object at a time, because any author of pods can make it long. An answer that is late, too big
or not what the API sends is an ApiserverError. Next: `nri.kube.client.http`, which makes that client.
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
from nri.kube.client.http import ACCOUNT, READ_S, SharedClient, failures, make_client, patience
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

__all__ = ["MAX_LIST_BYTES", "Apiserver", "Listing", "WatchStream", "connect"]

#: A list is not longer, in bytes of all its pages; they are read as they come, and not kept.
MAX_LIST_BYTES = 512 << 20
#: Objects of a page.
PAGE_OBJECTS = 500
#: Bytes of an answer that is not read for what is in it.
_MAX_ANSWER_BYTES = 64 << 20
_LIST_TIMEOUT_S = 60.0
#: A watch that is silent for so long is cut off and resumed: the apiserver sends a bookmark every minute.
_WATCH_READ_TIMEOUT_S = 90.0
#: How much longer than was agreed a watch may last.
_WATCH_GRACE_S = 30.0


def connect(kubeconfig: str | os.PathLike[str] = "", context: str = "", account: str = ACCOUNT) -> Apiserver:
    """Return the apiserver that a kubeconfig names, or without one that of the cluster that this runs in.

    Nothing is sent yet. Raises ConfigError for a kubeconfig or an account that cannot be used, NriError without the
    extra `agent`.

    Args:
        kubeconfig: its path, "" for the service account.
        context: which of its contexts, "" for the current one.
        account: the folder of the service account.
    """
    path = os.fspath(kubeconfig)
    return Apiserver(lambda: make_client(path, context, account))


class Apiserver:
    """An apiserver. Thread-safe; each watch has a connection of its own.

    Args:
        make: makes the HTTP client, from files that may have changed since.
        clock: monotonic seconds.
    """

    def __init__(self, make: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shared = SharedClient(make, clock)
        self._failures: tuple[type[Exception], ...] = (*failures(), NriError)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections, those that are in use as soon as they are not."""
        self._shared.close()

    @property
    def address(self) -> str:
        """Its URL."""
        return self._shared.address

    def list(self, kind: Kind, fields: str = "", version: str = "") -> Listing:
        """Return all objects of a kind; those that are too large are left out, see `ObjectCache`.

        Args:
            kind: of what.
            fields: a field selector.
            version: "" for the newest that there is, "0" for any, else one that the list must not be older than.
        """
        what = f"list {kind}"
        query = {"fieldSelector": fields, "limit": str(PAGE_OBJECTS)}
        query |= {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"} if version else {}
        reader, objects = ObjectReader(kind), ObjectCache()
        max_bytes, deadline = MAX_LIST_BYTES, self._clock() + _LIST_TIMEOUT_S
        while True:
            splitter = ListSplitter()
            try:
                for data in self._answer(what, kind.path, {"params": _without_empty(query)}, max_bytes, deadline):
                    max_bytes -= len(data)
                    for item in splitter.feed(data):
                        reader.read_item(item, objects)
                page = read_page(splitter.end())
            except ValueError as error:
                raise ApiserverError(what, 0, f"the answer cannot be read: {error}") from None
            if not page.more:
                return Listing(objects, page.version)
            query = {"fieldSelector": fields, "limit": str(PAGE_OBJECTS), "continue": page.more}

    @contextmanager
    def watch(self, kind: Kind, version: str, fields: str = "", lasting_s: int = 300) -> Iterator[WatchStream]:
        """Watch what happens to the objects of a kind after a version, for about so many seconds."""
        what = f"watch {kind}"
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, "fieldSelector": fields}
        query["timeoutSeconds"] = str(lasting_s)
        options = {
            "params": _without_empty(query),
            "timeout": patience(_WATCH_READ_TIMEOUT_S),
            "headers": _UNCOMPRESSED,
        }
        with self._errors(what), self._shared.borrow() as http, http.stream("GET", kind.path, **options) as answer:
            self._check_status(what, answer, self._clock() + READ_S)
            yield WatchStream(kind, what, answer, self._clock, self._clock() + lasting_s + _WATCH_GRACE_S)

    def evict(self, namespace: str, name: str, uid: str = "", grace_s: int | None = None) -> None:
        """Ask for a pod to be evicted; it ends later, or not: ApiserverError 429 if a disruption budget forbids it.

        Args:
            namespace: the pod's.
            name: the pod's.
            uid: the pod's; another one of the same name is left alone.
            grace_s: how long it has to end, in seconds; None for what the pod itself says.
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
        path = PODS.in_namespace(namespace, name, "eviction")
        self._send(f"evict {namespace}/{name}", path, {"json": body}, "POST")

    def patch(self, what: str, path: str, changes: Object, owner: str = "") -> None:
        """Change an object in place: what is not named stays, and null takes away.

        Args:
            what: in words, for errors.
            path: of the object, see `Kind.in_namespace` and `Kind.named`.
            changes: its new parts; with an `owner` the whole object.
            owner: who applies the object: it is made if it is not there, and what this owner no longer names goes.
        """
        kind = "application/apply-patch+yaml" if owner else "application/merge-patch+json"
        options: dict[str, Any] = {"content": json.dumps(changes), "headers": {"Content-Type": kind}}
        if owner:
            options["params"] = {"fieldManager": owner, "force": "true"}
        self._send(what, path, options, "PATCH")

    def _send(self, what: str, path: str, options: Mapping[str, Any], method: str) -> None:
        """Send a request whose answer is of no use."""
        for _ in self._answer(what, path, options, _MAX_ANSWER_BYTES, self._clock() + READ_S, method):
            pass

    def _answer(
        self, what: str, path: str, options: Mapping[str, Any], max_bytes: int, deadline: float, method: str = "GET"
    ) -> Iterator[bytes]:
        """Send a request, and yield the answer as it comes."""
        options = {**options, "headers": {**_UNCOMPRESSED, **options.get("headers", {})}}
        with self._errors(what), self._shared.borrow() as http, http.stream(method, path, **options) as answer:
            self._check_status(what, answer, deadline)
            for part in answer.iter_bytes():
                max_bytes -= len(part)
                if max_bytes < 0:
                    raise ApiserverError(what, 0, "the answer is too big")
                if self._clock() > deadline:
                    raise ApiserverError(what, 0, "the answer takes too long")
                yield part

    def _check_status(self, what: str, answer: Any, deadline: float) -> None:
        """Raise for an answer that is none; its words count as far as they come in time."""
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
        """Our error for the client's."""
        try:
            yield
        except ApiserverError:
            raise
        except self._failures as error:
            self._shared.doubt()
            reason = str(error) or type(error).__name__
            if "Bearer" in reason:  # a header that cannot be sent is in the error, the token with it
                reason = "the token is not one line of text, and cannot be sent"
            raise ApiserverError(what, 0, f"{self.address}: {reason}") from None


class Listing(NamedTuple):
    """A list: its objects, and its version."""

    kept: ObjectCache
    version: str


class WatchStream:
    """A watch that is open: its events, in the groups in which they come."""

    def __init__(self, kind: Kind, what: str, answer: Any, clock: Callable[[], float], deadline: float) -> None:
        self._reader = ObjectReader(kind)
        self._what = what
        self._answer = answer
        self._clock = clock
        self._deadline = deadline

    def events(self) -> Iterator[list[Event]]:
        """Yield events until the apiserver ends the watch. Raises ApiserverError, with the status it may have sent."""
        lines = Lines(MAX_OBJECT_BYTES)
        for part in self._answer.iter_bytes():
            try:
                events = [self._reader.read_event(line) for line in lines.feed(part)]
            except ValueError as error:
                raise ApiserverError(self._what, 0, f"an event cannot be read: {error}") from None
            bad = next((place for place, event in enumerate(events) if event.type == "ERROR"), len(events))
            if bad:
                yield events[:bad]
            for event in events[bad:]:
                code, reason, after_s = status_of(event.object)
                raise ApiserverError(self._what, code, reason, after_s)
            if self._clock() > self._deadline:
                return

    def cut(self) -> None:
        """End it from another thread, whose read returns at once."""
        stream = self._answer.extensions.get("network_stream")
        connection = stream.get_extra_info("socket") if stream is not None else None
        if connection is None:
            return
        try:
            # A second descriptor: TLS's own shutdown would wait for the other side, and for the reader's lock.
            with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended by itself


#: A compressed answer could become a thousand times as long all at once.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


def _without_empty(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
