"""Rules from an apiserver, which are followed while the agent runs.

While the apiserver is unreachable, the last rules stay in force, and the store reports the problem. A kind that does
not exist in the cluster is a problem of that kind only.
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


class ApiserverRules:
    """The source of rules that follows an apiserver.

    Args:
        settings: `rules.kubeconfig` and `rules.node_name` are read.
        store: receives the rules.
        api: the apiserver; by default the apiserver that the settings name.

    Raises:
        ConfigError: the kubeconfig or the service account is unusable.
    """

    def __init__(self, settings: AgentSettings, store: RuleStore, api: Apiserver | None = None) -> None:
        self._store = store
        self._node = node_name(settings)
        self._api = api or connect(settings.rules.kubeconfig)
        self._followers = {
            name: Follower(
                self._api,
                KINDS[name].limited_to(row.namespace),
                self._object_listener(name),
                fields=f"metadata.name={row.object_name or self._node}",
                on_problem=self._problem_listener(name),
            )
            for name, row in store.kinds.items()
        }

    def start(self) -> None:
        """Start to follow the objects of each kind, in separate threads."""
        for follower in self._followers.values():
            follower.start()

    def stop(self) -> None:
        """Stop following. The rules stay in force."""
        for follower in self._followers.values():
            follower.cut()
        for follower in self._followers.values():
            follower.stop()
        self._api.close()

    def health(self) -> tuple[bool, str]:
        """Return True once every kind of the node's own objects was listed.

        Later interruptions do not change that, because the rules stay in force.

        The store reports the details of problems.
        """
        optional = {name for name, row in self._store.kinds.items() if row.object_name}
        waiting = [
            name
            for name, follower in self._followers.items()
            if not (follower.synced or follower.absent or name in optional)
        ]
        troubled = [name for name, follower in self._followers.items() if follower.problem]
        words = (
            f"waiting for {', '.join(waiting)}" if waiting else f"cannot read {', '.join(troubled)}" if troubled else ""
        )
        return not waiting, f"rules of {self._node} at {self._api.address}" + (f": {words}" if words else "")

    def _object_listener(self, name: str) -> Callable[[Mapping[Key, Object]], None]:
        row = self._store.kinds[name]
        object_name = row.object_name or self._node

        def take(objects: Mapping[Key, Object]) -> None:
            document = objects.get((row.namespace, object_name))
            self._store.put(name, document, f"{name} {object_name} of {self._api.address}")

        return take

    def _problem_listener(self, name: str) -> Callable[[str], None]:
        def tell(problem: str) -> None:
            if problem:
                self._store.refuse(name, self._api.address, problem)
            else:
                self._store.accept(name, self._api.address)

        return tell
