"""The plugin dra-cpu with a real kubelet, API server and scheduler: slices, claims, and the CPUs of containers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from nri.api import cpuset
from nri.host import Root, read_topology
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import joined
from tests.kubernetes.kubelet import NODE
from tests.kubernetes.node import condition
from tests.kubernetes.pods import container, pod
from tests.support.plugin_program import PluginProgram
from tests.support.waiting import wait_for

Json = dict[str, Any]
DRIVER = "dra-cpu.nri.io"
DEPLOY = Path(__file__).parents[2] / "deploy/dra-cpu"
ONLINE = read_topology(Root("/")).online
RESERVED = min(ONLINE)
_WAIT_S = 120


class Driver:
    """The plugin on a node, with the shipped rights."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        api = cluster.api
        api.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"), "-f", str(DEPLOY / "device-class.yaml"))
        api.kubectl("apply", "-f", str(DEPLOY / "admission.yaml"))
        uid = api.get("node", NODE)["metadata"]["uid"]
        bound = ("--bound-object-kind=Node", f"--bound-object-name={NODE}", f"--bound-object-uid={uid}")
        token = api.kubectl("create", "token", "nri-dra-cpu", "-n", "kube-system", *bound).stdout.strip()
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(api.kubeconfig_of(token)))
        self.folder = cluster.kubelet.folder / "root"

    def start(self) -> PluginProgram:
        runtime = self.cluster.runtime
        words = ("-m", "nri.plugins", "dra-cpu", "-idx", "90", "-socket", runtime.nri_socket)
        settings = {
            "kubeconfig": self.kubeconfig,
            "node": NODE,
            "reserved": RESERVED,
            "kubelet-dir": self.folder,
            "cdi-dir": runtime.run_dir / "cdi",
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRI_")}
        flags = [f"--{name}={value}" for name, value in settings.items()]
        self.program = PluginProgram(self._folder, *words, *flags, env=environment)
        return self.program

    def kill(self) -> None:
        self.program.process.kill()
        self.program.process.wait()

    def slices(self) -> list[Json]:
        return [item for item in self.cluster.api.get("resourceslices")["items"] if item["spec"]["driver"] == DRIVER]

    def devices(self) -> set[str]:
        return {device["name"] for item in self.slices() for device in item["spec"]["devices"]}

    def uids(self) -> set[str]:
        return {item["metadata"]["uid"] for item in self.slices()}

    def wait_published(self, other_than: AbstractSet[str] = frozenset()) -> None:
        """Wait for the slices; `other_than` are the uids of slices that the kubelet deletes."""
        expected = {f"cpu-{cpu}" for cpu in ONLINE - {RESERVED}}

        def is_published() -> bool:
            assert self.program.process.poll() is None, self.program.text()
            return self.devices() == expected and not self.uids() & other_than

        wait_for(is_published, lambda: f"{self.slices()} {self.program.text()}", _WAIT_S)


@pytest.fixture(scope="module")
def dra(runtime_name: str, kubelet_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    if len(ONLINE) < 2:
        pytest.skip("claims need a second CPU")
    with joined(runtime_name, kubelet_program) as cluster:
        cluster.api.start_controllers()
        driver = Driver(cluster, tmp_path_factory.mktemp("dra"))
        try:
            driver.start()
            driver.wait_published()
            yield driver
        finally:
            driver.kill()


def claiming(name: str, count: int = 1) -> tuple[Json, Json]:
    """A template of claims, and a pod that uses it."""
    request = {"name": "cpus", "exactly": {"deviceClassName": f"cpu.{DRIVER}", "count": count}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    main = container(resources={"claims": [{"name": "cpus"}]})
    claims = [{"name": "cpus", "resourceClaimTemplateName": name}]
    return template, pod(name, main, container("other"), resourceClaims=claims)


def cpus(driver: Driver, name: str, container_name: str = "main") -> frozenset[int]:
    """The CPUs that a process in the container finds. A kubelet that has just started does not know the pod yet."""
    words = ("exec", name, "-c", container_name, "--", "cat", "/proc/self/status")
    lines: list[str] = []

    def is_executed() -> bool:
        lines[:] = driver.cluster.api.kubectl(*words, check=False).stdout.splitlines()
        return bool(lines)

    wait_for(is_executed, f"kubectl {' '.join(words)}", _WAIT_S)
    return cpuset.parse(next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:")))


def run(driver: Driver, *objects: Json) -> str:
    """Apply objects and wait until the last one, a pod that the scheduler places, is ready."""
    name: str = objects[-1]["metadata"]["name"]
    driver.cluster.api.apply(*objects)
    try:
        driver.cluster.wait(name, lambda status: condition(status, "Ready") == "True", "ready")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{driver.program.text()}") from None
    return name


def remove(driver: Driver, name: str) -> None:
    driver.cluster.api.kubectl("delete", "pod", name)
    driver.cluster.api.kubectl("delete", "resourceclaimtemplate", name, "--ignore-not-found")


def test_a_pod_gets_the_cpus_that_the_scheduler_allocates_and_others_leave_them(dra: Driver) -> None:
    plain = run(dra, pod("plain"))
    assert cpus(dra, plain) == ONLINE
    count = len(ONLINE) - 1
    owner = run(dra, *claiming("owner", count))
    shared = frozenset({RESERVED})
    assert cpus(dra, owner) == ONLINE - shared
    assert cpus(dra, owner, "other") == shared, "a container of the pod that does not refer to the claim"
    assert cpus(dra, plain) == shared
    remove(dra, owner)
    wait_for(lambda: cpus(dra, plain) == ONLINE, dra.program.text, _WAIT_S)
    remove(dra, plain)


def test_pods_keep_their_cpus_when_plugin_kubelet_and_runtime_are_killed(dra: Driver) -> None:
    plain, owner = run(dra, pod("calm")), run(dra, *claiming("kept", len(ONLINE) - 1))
    shared = frozenset({RESERVED})

    def current_cpus() -> list[frozenset[int]]:
        return [cpus(dra, owner), cpus(dra, owner, "other"), cpus(dra, plain)]

    expected = [ONLINE - shared, shared, shared]
    assert current_cpus() == expected
    dra.kill()
    dra.start()
    dra.wait_published()
    assert current_cpus() == expected, "after the plugin"
    before = dra.uids()
    dra.cluster.kubelet.kill()
    dra.cluster.kubelet.start()
    dra.wait_published(other_than=before)
    assert current_cpus() == expected, "after the kubelet"
    dra.cluster.runtime.kill()
    dra.cluster.runtime.start()
    late = run(dra, pod("late"))
    # The plugin connects again after a pause; a container that starts before that is pinned then.
    wait_for(lambda: cpus(dra, late) == shared, dra.program.text, _WAIT_S)
    assert current_cpus() == expected, "after the runtime"
    remove(dra, owner)
    wait_for(lambda: {cpus(dra, plain), cpus(dra, late)} == {ONLINE}, dra.program.text, _WAIT_S)
    run(dra, *claiming("next", len(ONLINE) - 1))
    for name in ("next", plain, late):
        remove(dra, name)


def test_the_manifests_are_valid_for_the_api_server(dra: Driver) -> None:
    dra.cluster.api.kubectl("apply", "-k", str(DEPLOY), "--dry-run=server")


def test_a_stopped_plugin_leaves_the_kubelet_which_deletes_its_slices(dra: Driver) -> None:
    registration = dra.folder / f"plugins_registry/{DRIVER}-reg.sock"
    assert registration.exists()
    assert dra.program.stop() == 0, dra.program.text()
    assert not registration.exists()
    wait_for(lambda: not dra.slices(), "the slices' removal", _WAIT_S)
    dra.start()
    dra.wait_published()
    owner = run(dra, *claiming("again"))
    assert len(cpus(dra, owner)) == 1
    remove(dra, owner)


def test_the_shipped_rights_do_not_cover_the_slices_of_other_nodes(dra: Driver) -> None:
    metadata, spec = {"name": "foreign"}, dra.slices()[0]["spec"] | {"nodeName": "other"}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    document = json.dumps({**head, "metadata": metadata, "spec": spec})
    words = ("create", "-f", "-", "--kubeconfig", str(dra.kubeconfig))
    completed = dra.cluster.api.kubectl(*words, stdin=document, check=False)
    assert "may write only the slices of its own node" in completed.stderr
