"""containerd's plugins: the plugins of each release, the optional plugins, and the plugins that the CRI needs.

Measured on 1.7.24, 2.1.9, 2.3.4 and 2.4.2, by starting each release with every plugin disabled in turn.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.config.runtimes.containerd.releases import Rules

PREFIX = "io.containerd."

_COMMON = """
content.v1.content differ.v1.walking event.v1.exchange gc.v1.scheduler grpc.v1.containers grpc.v1.content grpc.v1.cri
grpc.v1.diff grpc.v1.events grpc.v1.healthcheck grpc.v1.images grpc.v1.introspection grpc.v1.leases grpc.v1.namespaces
grpc.v1.sandbox-controllers grpc.v1.sandboxes grpc.v1.snapshots grpc.v1.streaming grpc.v1.tasks grpc.v1.transfer
grpc.v1.version internal.v1.opt internal.v1.tracing lease.v1.manager metadata.v1.bolt nri.v1.nri runtime.v2.task
sandbox.store.v1.local service.v1.containers-service service.v1.content-service service.v1.diff-service
service.v1.images-service service.v1.introspection-service service.v1.namespaces-service service.v1.snapshots-service
service.v1.tasks-service snapshotter.v1.blockfile snapshotter.v1.btrfs snapshotter.v1.devmapper snapshotter.v1.native
snapshotter.v1.overlayfs snapshotter.v1.zfs streaming.v1.manager tracing.processor.v1.otlp transfer.v1.local
warning.v1.deprecations
"""
_ONLY_1 = """
internal.v1.restart monitor.v1.cgroups runtime.v1.linux runtime.v2.shim sandbox.controller.v1.local snapshotter.v1.aufs
"""
_SINCE_2_0 = """
cri.v1.images cri.v1.runtime differ.v1.erofs image-verifier.v1.bindir monitor.container.v1.restart
monitor.task.v1.cgroups podsandbox.controller.v1.podsandbox sandbox.controller.v1.shim shim.v1.manager
snapshotter.v1.erofs ttrpc.v1.otelttrpc
"""
_SINCE_2_3 = """
grpc.v1.mounts http.v1.pprof metrics.v1.grpc-otel metrics.v1.grpc-prometheus mount-handler.v1.erofs
mount-manager.v1.bolt server.v1.debug server.v1.grpc server.v1.grpc-tcp server.v1.metrics server.v1.ttrpc
"""
#: Plugins that are skipped without further configuration or hardware. As required plugins they stop the daemon.
_OPTIONAL = """
snapshotter.v1.aufs snapshotter.v1.blockfile snapshotter.v1.btrfs snapshotter.v1.devmapper snapshotter.v1.zfs
differ.v1.erofs internal.v1.tracing tracing.processor.v1.otlp server.v1.metrics server.v1.grpc-tcp server.v1.debug
"""
_NEEDED_BY_CRI = """
content.v1.content differ.v1.walking event.v1.exchange gc.v1.scheduler grpc.v1.cri lease.v1.manager metadata.v1.bolt
runtime.v2.task sandbox.store.v1.local service.v1.containers-service service.v1.content-service
service.v1.diff-service service.v1.images-service service.v1.introspection-service service.v1.namespaces-service
service.v1.snapshots-service service.v1.tasks-service warning.v1.deprecations
"""
_NEEDED_BY_CRI_1 = "runtime.v1.linux runtime.v2.shim sandbox.controller.v1.local"
_NEEDED_BY_CRI_2 = """
cri.v1.images cri.v1.runtime podsandbox.controller.v1.podsandbox sandbox.controller.v1.shim shim.v1.manager
snapshotter.v1.overlayfs transfer.v1.local
"""

_NOT_NEEDED_BY_IMAGES = """
grpc.v1.cri cri.v1.images cri.v1.runtime podsandbox.controller.v1.podsandbox sandbox.controller.v1.shim
"""


def _names(*texts: str) -> frozenset[str]:
    return frozenset(PREFIX + name for text in texts for name in text.split())


OPTIONAL = _names(_OPTIONAL)


@cache
def existing(rules: Rules) -> frozenset[str]:
    """List the plugins of a release."""
    if rules.is_1:
        return _names(_COMMON, _ONLY_1)
    return _names(_COMMON, _SINCE_2_0, _SINCE_2_3 if rules.newest_version > 3 else "")


@cache
def needed_by_cri(rules: Rules) -> frozenset[str]:
    """List the plugins without which the CRI plugin does not load."""
    if rules.is_1:
        return _names(_NEEDED_BY_CRI, _NEEDED_BY_CRI_1)
    image_verifier = "image-verifier.v1.bindir" if rules.newest_version == 3 else "mount-manager.v1.bolt"
    return _names(_NEEDED_BY_CRI, _NEEDED_BY_CRI_2, image_verifier)


@cache
def needed_by_images(rules: Rules) -> frozenset[str]:
    """List the plugins without which the images plugin of the CRI does not load."""
    return needed_by_cri(rules) - _names(_NOT_NEEDED_BY_IMAGES)


def short_name(uri: str) -> str:
    """Shorten a plugin's full name to its name in version 1: "cri" for "io.containerd.grpc.v1.cri"."""
    return uri.rpartition(".")[2]
