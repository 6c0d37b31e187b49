"""Names that only one may have, and ids that people shorten.

A name is reserved before anything is made and given back when that fails; both are safe to call from any thread.
"""

from __future__ import annotations

import secrets
import threading

from nri.engine.support.errors import AlreadyExists, InvalidRequest, NotFound


def new_id() -> str:
    """A new id of a pod or container: 64 hexadecimal digits, as every runtime of the field has them."""
    return secrets.token_hex(32)


def pod_name(name: str, namespace: str, uid: str, attempt: int) -> str:
    """The name that a pod sandbox reserves: the kubelet counts `attempt` up to make a second one of the same pod."""
    return "_".join((name, namespace, uid, str(attempt)))


def container_name(name: str, attempt: int, pod: str) -> str:
    """The name that a container reserves; `pod` is its sandbox's."""
    return "_".join((name, pod, str(attempt)))


class Names:
    """The names that are taken, among pods or among containers (`kind` says which, in errors)."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._holders: dict[str, str] = {}
        self._lock = threading.Lock()

    def reserve(self, name: str, holder: str) -> None:
        """Take a name for an id. Raises AlreadyExists if another id has it; its own is no error."""
        with self._lock:
            present = self._holders.setdefault(name, holder)
        if present != holder:
            raise AlreadyExists(self._kind, name, present)

    def release(self, holder: str) -> None:
        """Give back all that an id has reserved."""
        with self._lock:
            for name in [name for name, present in self._holders.items() if present == holder]:
                del self._holders[name]

    def holder(self, name: str) -> str | None:
        """The id that has this name."""
        return self._holders.get(name)


class Ids:
    """Ids of one kind, found by their first letters as people type them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def add(self, identity: str) -> None:
        """Take in an id."""
        with self._lock:
            self._known.add(identity)

    def discard(self, identity: str) -> None:
        """Forget an id."""
        with self._lock:
            self._known.discard(identity)

    def resolve(self, prefix: str) -> str:
        """The one id that is, or begins with, `prefix`. Raises NotFound; InvalidRequest if several do."""
        with self._lock:
            if prefix in self._known:
                return prefix
            found = [identity for identity in self._known if prefix and identity.startswith(prefix)]
        if not found:
            raise NotFound(self._kind, prefix)
        if len(found) > 1:
            raise InvalidRequest(f"{prefix!r} is the beginning of {len(found)} {self._kind}s: give more of the id")
        return found[0]
