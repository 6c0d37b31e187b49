"""Fixtures: a node for each runtime, shared by all tests, with the recording plugin of tests/real on it.

`node` is shared: a test adds pods of its own and takes them away. `own_node` is a test's own, to be killed and started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy.buildah import Buildah, buildah_with_base
from tests.kubernetes import build
from tests.kubernetes.cluster import Cluster, make_bridge
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import NODE, Kubelet
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.runtimes import PROXIED, RUNTIMES, NodeRuntime
from tests.real.plugin_process import PluginProcess
from tests.support.needs import need, need_root
from tests.support.waiting import wait_for
from tools.runtimes import Containerd, MissingError
from tools.runtimes.config import pod_gateway
from tools.runtimes.leftovers import sweep

HERE = Path(__file__).parent
RunPod = Callable[[dict[str, object]], StaticPod]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to build containerd."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def kubelet_program() -> Path:
    """The released kubelet."""
    need_root()
    try:
        sweep()
        return build.program("kubelet")
    except MissingError as error:
        need(False, str(error))
        raise


@pytest.fixture(scope="session", params=RUNTIMES)
def runtime_name(request: pytest.FixtureRequest) -> str:
    """The runtime that the test runs on."""
    return str(request.param)


def make_runtime(name: str) -> NodeRuntime:
    """That runtime, not started yet."""
    try:
        return (RUNTIMES | PROXIED)[name](print)
    except MissingError as error:
        need(False, str(error))
        raise


@contextmanager
def started(runtime_name: str, kubelet_program: Path, gates: Sequence[str] = (), **more: object) -> Iterator[Node]:
    """A node that runs, with these gates of kubelet's open and `more` of its configuration; all is gone at the end."""
    with ExitStack() as stack:
        runtime = make_runtime(runtime_name)
        stack.callback(runtime.close)
        runtime.start()
        kubelet = Kubelet(kubelet_program, runtime.cri_socket, runtime.run_dir, gates=gates, more=more)
        stack.callback(kubelet.close)
        kubelet.start()
        yield Node(kubelet, runtime)


@contextmanager
def started_with_image(
    image: str, build: Callable[[Buildah, str, Path], None], folder: Path, kubelet_program: Path
) -> Iterator[Node]:
    """A node on containerd with an image of this tree on it: into the engine an image gets from a registry only."""
    with started("containerd", kubelet_program) as started_node:
        add_image(started_node.runtime, image, build, folder)
        yield started_node


def add_image(runtime: NodeRuntime, image: str, build: Callable[[Buildah, str, Path], None], folder: Path) -> None:
    """Build an image and give it to a containerd."""
    archive = folder / "image.tar"
    (folder / "wheels").mkdir()
    with buildah_with_base() as tool:
        build(tool, image, folder / "wheels")
        tool("push", "--quiet", image, f"docker-archive:{archive}:{image}")
    assert isinstance(runtime, Containerd)
    runtime.ctr("images", "import", "--local", "--snapshotter", runtime.snapshotter, str(archive))


@pytest.fixture(scope="session")
def node(runtime_name: str, kubelet_program: Path) -> Iterator[Node]:
    """The shared node."""
    with started(runtime_name, kubelet_program) as started_node:
        yield started_node


@pytest.fixture(scope="session")
def plugin(node: Node) -> Iterator[PluginProcess]:
    """The recorder on the shared node: does what pods' annotations ask for."""
    with PluginProcess(node.runtime.nri_socket) as process:
        process.wait_for("Synchronize")
        yield process


@contextmanager
def joined(
    runtime_name: str, kubelet_program: Path, *, guarded: bool = False, for_pods: bool = False
) -> Iterator[Cluster]:
    """A node that has joined an API server.

    Args:
        guarded: its kubelet answers only those who may ask.
        for_pods: pods reach the API server and get credentials of their accounts.
    """
    with ExitStack() as stack:
        runtime = make_runtime(runtime_name)
        stack.callback(runtime.close)
        make_bridge(runtime.run_dir)
        runtime.start()
        try:
            api = ControlPlane(runtime.run_dir, print, for_pods=for_pods)
        except MissingError as error:
            need(False, str(error))
            raise
        stack.callback(api.close)
        api.start()
        token = api.token if guarded else ""
        kubelet = Kubelet(
            kubelet_program,
            runtime.cri_socket,
            runtime.run_dir,
            api.kubeconfig,
            pod_gateway(runtime.run_dir),
            token=token,
        )
        stack.callback(kubelet.close)
        kubelet.start()
        # It serves before it has told the API of itself.
        wait_for(lambda: not api.kubectl("get", "node", NODE, check=False).returncode, "the node's registration", 60)
        yield Cluster(api, kubelet, runtime)


@pytest.fixture(scope="module")
def cluster(runtime_name: str, kubelet_program: Path) -> Iterator[Cluster]:
    """A node that has joined an API server; for the tests of one module."""
    with joined(runtime_name, kubelet_program) as joined_cluster:
        yield joined_cluster


@pytest.fixture
def run(node: Node) -> Iterator[RunPod]:
    """Run pods on the node; their manifests go with the test, the last one first."""
    pods: list[StaticPod] = []

    def run_one(manifest: dict[str, object]) -> StaticPod:
        pods.append(node.run(manifest))
        return pods[-1]

    yield run_one
    for pod in reversed(pods):
        pod.file.unlink(missing_ok=True)


@pytest.fixture
def own_node(runtime_name: str, kubelet_program: Path) -> Iterator[Node]:
    """A node of the test's own."""
    with started(runtime_name, kubelet_program) as started_node:
        yield started_node
