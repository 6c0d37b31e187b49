"""Rules from an apiserver: the objects of this node that contain them, followed while the agent runs.

While the apiserver is unreachable the last rules stay, and the store reports since when. A kind that the cluster does
not have is a problem of that kind only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nri.agent.rules.store import RuleStore
from nri.agent.settings.node_name import node_name
from nri.kube.client import KINDS, Follower, connect
from nri.kube.client.objects import Object
from nri.kube.object_cache import Key

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.client import Apiserver

__all__ = ["ApiserverRules"]


class ApiserverRules:
    """The source of rules that follows an apiserver.

    Args:
        settings: `rules.kubeconfig` and `rules.node_name` are read.
        store: receives the rules.
        api: the apiserver; by default the one that the settings name.

    Raises:
        ConfigError: the kubeconfig or the service account cannot be used.
    """

    def __init__(self, settings: AgentSettings, store: RuleStore, api: Apiserver | None = None) -> None:
        self._store = store
        self._node = node_name(settings)
        self._api = api or connect(settings.rules.kubeconfig)
        self._followers = {
            name: Follower(
                self._api,
                KINDS[name].in_one_namespace(row.namespace),
                self._taker(name),
                fields=f"metadata.name={row.object_name or self._node}",
                on_problem=self._teller(name),
            )
            for name, row in store.kinds.items()
        }

    def start(self) -> None:
        """Start to follow, in separate threads."""
        for follower in self._followers.values():
            follower.start()

    def stop(self) -> None:
        """End; the rules stay."""
        for follower in self._followers.values():
            follower.cut()
        for follower in self._followers.values():
            follower.stop()
        self._api.close()

    def health(self) -> tuple[bool, str]:
        """Ready once the kinds of the node's objects were listed; later interruptions change nothing, as rules stay.

        The store has the details of problems.
        """
        optional = {name for name, row in self._store.kinds.items() if row.object_name}
        waiting = [
            name
            for name, follower in self._followers.items()
            if not (follower.synced or follower.absent or name in optional)
        ]
        troubled = [name for name, follower in self._followers.items() if follower.problem]
        words = (
            f"waits for {', '.join(waiting)}" if waiting else f"no news of {', '.join(troubled)}" if troubled else ""
        )
        return not waiting, f"those of {self._node} at {self._api.address}" + (f": {words}" if words else "")

    def _taker(self, name: str) -> Callable[[Mapping[Key, Object]], None]:
        row = self._store.kinds[name]
        object_name = row.object_name or self._node

        def take(objects: Mapping[Key, Object]) -> None:
            document = objects.get((row.namespace, object_name))
            self._store.put(name, document, f"{name} {object_name} of {self._api.address}")

        return take

    def _teller(self, name: str) -> Callable[[str], None]:
        def tell(problem: str) -> None:
            if problem:
                self._store.refuse(name, self._api.address, problem)
            else:
                self._store.accept(name, self._api.address)

        return tell
