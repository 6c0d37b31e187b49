"""Unique names, and ids that may be shortened. Both classes are thread-safe."""

from __future__ import annotations

import secrets
import threading

from nri.engine.support.errors import AlreadyExists, InvalidRequest, NotFound


def new_id() -> str:
    """Return a new id of a pod or container: 64 hexadecimal digits, as in other runtimes."""
    return secrets.token_hex(32)


def pod_name(name: str, namespace: str, uid: str, attempt: int) -> str:
    """Return the unique name of a pod sandbox. The kubelet increments `attempt` for a new sandbox of the same pod."""
    return "_".join((name, namespace, uid, str(attempt)))


def container_name(name: str, attempt: int, pod: str) -> str:
    """Return the unique name of a container. `pod` is the name of its sandbox."""
    return "_".join((name, pod, str(attempt)))


class Names:
    """The names of pods, or of containers, that are in use. `kind` is the noun in errors."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._holders: dict[str, str] = {}
        self._lock = threading.Lock()

    def reserve(self, name: str, holder: str) -> None:
        """Reserve a name for the id `holder`. No effect if this id already has the name.

        Raises AlreadyExists if another id has the name.
        """
        with self._lock:
            present = self._holders.setdefault(name, holder)
        if present != holder:
            raise AlreadyExists(self._kind, name, present)

    def release(self, holder: str) -> None:
        """Release all names of an id."""
        with self._lock:
            for name in [name for name, present in self._holders.items() if present == holder]:
                del self._holders[name]

    def holder(self, name: str) -> str | None:
        """Return the id that has a name, or None."""
        return self._holders.get(name)


class Ids:
    """The ids of pods, or of containers. `kind` is the noun in errors."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._used_names: set[str] = set()
        self._lock = threading.Lock()

    def add(self, identity: str) -> None:
        """Add an id."""
        with self._lock:
            self._used_names.add(identity)

    def discard(self, identity: str) -> None:
        """Remove an id."""
        with self._lock:
            self._used_names.discard(identity)

    def resolve(self, prefix: str) -> str:
        """Return the id that starts with `prefix`.

        Raises NotFound if there is no such id, and InvalidRequest if there are several.
        """
        with self._lock:
            if prefix in self._used_names:
                return prefix
            matches = [identity for identity in self._used_names if prefix and identity.startswith(prefix)]
        if not matches:
            raise NotFound(self._kind, prefix)
        if len(matches) > 1:
            raise InvalidRequest(f"{prefix!r} matches {len(matches)} {self._kind}s; use a longer prefix of the id")
        return matches[0]
