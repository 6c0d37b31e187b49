"""The cluster that runs on this machine; the tests of this folder are skipped without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.images import load
from tests.cluster.machine import Cluster, ClusterError, default_folder
from tests.cluster.placement import installed
from tests.support.needs import need_machine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests a long time, because a node is slow."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The running cluster."""
    try:
        return Cluster(default_folder())
    except ClusterError as error:
        need_machine(False, f"cluster: {error}")
        raise


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> None:
    """The images of plugins and agent in all nodes."""
    load(cluster)


@pytest.fixture(scope="session")
def kinds(cluster: Cluster) -> None:
    """The custom resources of placement and of Koordinator."""
    cluster.kubectl("apply", "-f", "deploy/placement/crds.yaml", "-f", str(HERE.parent / "apiserver/crds.yaml"))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")


@pytest.fixture(scope="module")
def topology_aware(cluster: Cluster, images: None, kinds: None) -> Iterator[None]:
    """topology-aware on all nodes, with the settings of docs/howto/placement.md."""
    with installed(cluster, "topology-aware", {"reservedResources": {"cpu": "750m"}}):
        yield
