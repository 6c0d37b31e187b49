"""Find containers by a user's argument: an id, the beginning of an id, or names.

A name takes precedence over the beginning of an id, because names such as `db` and `cafe` could be both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: An error names at most this many matches.
_MAX_NAMES = 5


class NamedContainer(NamedTuple):
    """A container and its names.

    Attributes:
        id: its id.
        name: its name in the pod.
        pod: its pod's name, or "" if unknown.
        namespace: its pod's namespace.
        pod_id: its pod's id; a restarted container has the same `pod_id` and `name`.
        runs: whether it runs; running containers are preferred.
    """

    id: str
    name: str
    pod: str
    namespace: str
    pod_id: str
    runs: bool

    def __str__(self) -> str:
        """The beginning of its id, and its names."""
        names = "/".join(part for part in (self.namespace, self.pod, self.name) if part)
        return f"{self.id[:13]} ({names})" if names else self.id[:13]


def find(word: str, containers: Iterable[NamedContainer]) -> list[NamedContainer]:
    """Return the containers that match a word. If only one of several matches runs, return only this container.

    Of the instances of a restarted container only the newest is used.

    Args:
        word: an id or its beginning, NAME, POD/NAME, NAMESPACE/POD/NAME, or POD; "" does not match.
        containers: all containers, the newest first.
    """
    candidates = list(containers) if word else []
    matches = [container for container in candidates if container.id == word]
    matches = matches or [container for container in candidates if _has_name(container, word)]
    matches = matches or [container for container in candidates if container.id.startswith(word)]
    newest: dict[tuple[str, str], NamedContainer] = {}
    for container in matches:
        newest.setdefault((container.pod_id, container.name if container.pod_id else container.id), container)
    running = [container for container in newest.values() if container.runs]
    return running if len(running) == 1 else list(newest.values())


def any_of(word: str, containers: Sequence[NamedContainer]) -> str:
    """Return an error text for a word that matches several containers."""
    more = ", ..." if len(containers) > _MAX_NAMES else ""
    return f'"{word}" matches several containers: {", ".join(map(str, containers[:_MAX_NAMES]))}{more}'


def _has_name(container: NamedContainer, word: str) -> bool:
    """Whether the word is a name of the container or of its pod."""
    pod = f"{container.namespace}/{container.pod}"
    names = (
        {container.name, container.pod, pod, f"{container.pod}/{container.name}", f"{pod}/{container.name}"}
        if container.pod
        else {container.name}
    )
    return word in names
