"""Pods of this node from an apiserver, which are followed while the agent runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nri.agent.pods.source import KnownPods, PodList
from nri.agent.settings.node_name import node_name
from nri.kube.client import PODS, Follower, connect
from nri.kube.client.objects import Object
from nri.kube.object_cache import Key

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.client import Apiserver


class ApiserverPods(KnownPods):
    """The source of pods that follows an apiserver.

    Args:
        settings: `rules.kubeconfig` and `rules.node_name` are read.
        api: the apiserver; by default the apiserver that the settings name.

    Raises:
        ConfigError: the kubeconfig or the service account is unusable.
    """

    def __init__(self, settings: AgentSettings, api: Apiserver | None = None) -> None:
        super().__init__(PodList())
        self._api = api or connect(settings.rules.kubeconfig)
        # Ended pods are not listed: no decision concerns them, and their number is unlimited.
        fields = f"spec.nodeName={node_name(settings)},status.phase!=Succeeded,status.phase!=Failed"
        self._follower = Follower(self._api, PODS, self._replace_pods, fields=fields, on_problem=self._pod_list.failed)

    def start(self) -> None:
        """Start to follow the pods of this node, in a separate thread."""
        self._follower.start()

    def stop(self) -> None:
        """Stop following. Known pods are kept."""
        self._follower.stop()
        self._api.close()

    def _replace_pods(self, objects: Mapping[Key, Object]) -> None:
        self.left_out = self._follower.left_out
        self._pod_list.replace(objects.values())
