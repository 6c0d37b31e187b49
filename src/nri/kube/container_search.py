"""The container that a person means by a word: an id, the beginning of one, or names.

One job: to choose among containers by a word, for the command and for a runtime's admin socket alike. Pure. Rules: a
name comes before the beginning of an id, because `db` and `cafe` are beginnings, too; of several lives of one container
it is the newest, and of several containers the only one that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["NamedContainer", "any_of", "find"]

#: That many are named where a word may mean several.
_MAX_NAMES = 5


class NamedContainer(NamedTuple):
    """A container, and the names that it has.

    Attributes:
        id: its id.
        name: its name in the pod.
        pod: its pod's name, "" if that is not known.
        namespace: its pod's namespace.
        pod_id: its pod's id; with `name` it is the same in all lives of a container.
        runs: it is preferred to those that do not.
    """

    id: str
    name: str
    pod: str
    namespace: str
    pod_id: str
    runs: bool

    def __str__(self) -> str:
        """Its beginning and its names, for a person."""
        names = "/".join(part for part in (self.namespace, self.pod, self.name) if part)
        return f"{self.id[:13]} ({names})" if names else self.id[:13]


def find(word: str, containers: Iterable[NamedContainer]) -> list[NamedContainer]:
    """Those that the word may mean: an id or its beginning, NAME, POD/NAME, NAMESPACE/POD/NAME, or POD alone.

    Args:
        word: what the person said; the empty word means nothing.
        containers: all there are, the newest first.
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
    """A sentence for a word that may mean several; the first of them are named."""
    more = ", ..." if len(containers) > _MAX_NAMES else ""
    return f'"{word}" may be any of {", ".join(map(str, containers[:_MAX_NAMES]))}{more}'


def _has_name(container: NamedContainer, word: str) -> bool:
    """Whether the word is a name of the container, or of its pod."""
    pod = f"{container.namespace}/{container.pod}"
    names = (
        {container.name, container.pod, pod, f"{container.pod}/{container.name}", f"{pod}/{container.name}"}
        if container.pod
        else {container.name}
    )
    return word in names
