"""dra-cpu between a kubelet's gRPC client, an API server and a runtime. tests/kubernetes has the real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import grpc
import pytest

import nri
from nri.errors import ConfigError
from nri.plugins.dra_cpu.pb.dra import api_pb2 as dra
from nri.plugins.dra_cpu.pb.registration import api_pb2 as registration
from nri.plugins.dra_cpu.plugin import DraCpu
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.http_server import HttpServer, page, status
from tests.support.placement import guest, write_machine
from tests.support.waiting import PATIENCE_S, wait_for

NODE, DRIVER = "node-1", "dra-cpu.nri.io"
UID, SECOND = "0b1c7d9e-0000-4000-8000-000000000001", "0b1c7d9e-0000-4000-8000-000000000002"
Json = dict[str, Any]


class Cluster:
    """The objects of an API server."""

    def __init__(self, server: HttpServer) -> None:
        self.port = server.port
        self.claims: dict[str, Json] = {}
        self.slices: dict[str, Json] = {}
        self.refusal = ""
        self.asked = server.asked
        server.otherwise = self._answer

    def allocate(self, uid: str, name: str, *cpus: int, **more: Any) -> None:
        results = [{"driver": DRIVER, "pool": NODE, "device": f"cpu-{cpu}", "request": "cpus", **more} for cpu in cpus]
        self.claims[name] = {
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "3"},
            "status": {"allocation": {"devices": {"results": results}}},
        }

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        name = path.rpartition("/")[2]
        if "watch=true" in query:
            status(504, "Too large resource version: try again", reason="Timeout")(request)
        elif name == "resourceslices":
            page({"metadata": {"resourceVersion": "7"}, "items": list(self.slices.values())})(request)
        elif "/resourceslices/" in path and self.refusal:
            status(403, self.refusal)(request)
        elif "/resourceslices/" in path:
            body = next(request["body"] for request in reversed(self.asked) if request["path"] == path)
            self.slices[name] = body | {"metadata": body["metadata"] | {"resourceVersion": "8"}}
            page(self.slices[name])(request)
        elif "/nodes/" in path:
            page({"metadata": {"name": NODE, "uid": "node-uid", "resourceVersion": "1"}})(request)
        elif name in self.claims:
            page(self.claims[name])(request)
        else:
            status(404, f"{name} not found")(request)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with HttpServer().listening() as server:
        yield Cluster(server)


@pytest.fixture
def config(cluster: Cluster, folder: Path) -> Json:
    kubeconfig = folder / "kubeconfig"
    tree = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{cluster.port}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(tree))
    return {
        "node": NODE,
        "kubeconfig": str(kubeconfig),
        "kubeletDir": str(folder),
        "cdiDir": str(folder / "cdi"),
        "hostRoot": str(write_machine(folder / "host", guest(packages=1, nodes=1, cores=2, threads=2))),
    }


Start = Callable[..., DraCpu]


@pytest.fixture
def start(nri_runtime: FakeRuntime, config: Json) -> Start:
    def begin(**more: Any) -> DraCpu:
        plugin = DraCpu()
        nri_runtime.add(plugin, idx="90", config=json.dumps(config | more))
        return plugin

    return begin


def call(socket: Path, service: str, method: str, request: Any, answer: Any) -> Any:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        return channel.unary_unary(
            f"/{service}/{method}", lambda message: message.SerializeToString(), answer.FromString
        )(request, timeout=PATIENCE_S)


class Kubelet:
    """Calls the driver as a kubelet does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def info(self) -> registration.PluginInfo:
        socket = self.folder / f"plugins_registry/{DRIVER}-reg.sock"
        info: registration.PluginInfo = call(
            socket, "pluginregistration.Registration", "GetInfo", registration.InfoRequest(), registration.PluginInfo
        )
        return info

    def take_status(self, *, registered: bool, error: str = "") -> None:
        call(
            self.folder / f"plugins_registry/{DRIVER}-reg.sock",
            "pluginregistration.Registration",
            "NotifyRegistrationStatus",
            registration.RegistrationStatus(plugin_registered=registered, error=error),
            registration.RegistrationStatusResponse,
        )

    def prepare(self, *names: str, uid: str = UID, namespace: str = "shop") -> Any:
        claims = [dra.Claim(namespace=namespace, name=name, uid=uid) for name in names]
        return self._call("NodePrepareResources", dra.NodePrepareResourcesRequest(claims=claims),
                          dra.NodePrepareResourcesResponse).claims  # fmt: skip

    def unprepare(self, name: str, uid: str = UID) -> Any:
        claims = [dra.Claim(namespace="shop", name=name, uid=uid)]
        return self._call("NodeUnprepareResources", dra.NodeUnprepareResourcesRequest(claims=claims),
                          dra.NodeUnprepareResourcesResponse).claims  # fmt: skip

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        return call(Path(self.info().endpoint), "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", method, request, answer)


@pytest.fixture
def kubelet(folder: Path) -> Kubelet:
    return Kubelet(folder)


def claiming(uid: str = UID, *cpus: int) -> Any:
    return make_container("main", env={f"NRI_DRA_CPU_{cpu}": uid for cpu in cpus})


def test_the_driver_registers_with_the_names_that_a_kubelet_expects(start: Start, kubelet: Kubelet) -> None:
    start()
    info = kubelet.info()
    assert (info.type, info.name, list(info.supported_versions)) == ("DRAPlugin", DRIVER, ["v1.DRAPlugin"])
    assert info.endpoint == f"{kubelet.folder}/plugins/{DRIVER}/dra.sock"


def test_the_result_of_the_registration_is_logged(
    start: Start, kubelet: Kubelet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    start()
    kubelet.take_status(registered=False, error="version not supported")
    kubelet.take_status(registered=True)
    logged = "\n".join(caplog.messages)
    assert "the kubelet refuses the driver: version not supported" in logged
    assert f"registered with the kubelet as {DRIVER}" in logged


def test_slices_that_the_api_server_refuses_are_published_later_and_the_problem_is_logged_once(
    start: Start, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refusal = "resourceslices is forbidden"
    plugin = start()

    def attempts() -> int:
        plugin.publish()
        return sum(request["method"] == "PATCH" for request in cluster.asked)

    wait_for(lambda: attempts() >= 2, "two attempts")
    assert [cluster.refusal in text for text in caplog.messages if "trying again" in text] == [True]
    cluster.refusal = ""
    wait_for(lambda: (plugin.publish(), cluster.slices)[1], "the slices")
    before, lists = attempts(), len(cluster.asked)
    wait_for(lambda: len(cluster.asked) > lists + 2, "a new list of the slices")
    assert attempts() == before, "published slices are not written again"


def test_the_cpus_that_are_not_reserved_are_published_and_owned_by_the_node(start: Start, cluster: Cluster) -> None:
    plugin = start(reserved="0-1")
    wait_for(lambda: (plugin.publish(), cluster.slices)[1], "the slices")
    (thing,) = cluster.slices.values()
    assert [device["name"] for device in thing["spec"]["devices"]] == ["cpu-2", "cpu-3"]
    assert thing["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "node-uid"}
    ]
    assert thing["spec"]["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}


def test_preparing_a_claim_returns_its_devices_each_time(start: Start, kubelet: Kubelet, cluster: Cluster) -> None:
    start()
    cluster.allocate(UID, "db", 1, 3)
    first = kubelet.prepare("db")[UID]
    assert not first.error
    assert [(d.pool_name, d.device_name, *d.request_names, *d.cdi_device_ids) for d in first.devices] == [
        (NODE, f"cpu-{cpu}", "cpus", f"{DRIVER}/cpu=cpu-{cpu}-{UID}") for cpu in (1, 3)
    ]
    cluster.claims.clear()
    assert kubelet.prepare("db")[UID] == first
    assert kubelet.unprepare("db")[UID].error == kubelet.unprepare("db")[UID].error == ""
    assert "not found" in kubelet.prepare("db")[UID].error


def test_a_claim_that_cannot_be_prepared_has_the_reason_and_others_are_prepared(
    start: Start, kubelet: Kubelet, cluster: Cluster
) -> None:
    start()
    cluster.allocate(UID, "db", 1)
    assert kubelet.prepare("gone", uid=SECOND)[SECOND].error.startswith("claim shop/gone is not processed: cannot get")
    assert "another claim has its name now" in kubelet.prepare("db", uid=SECOND)[SECOND].error
    assert 'invalid uid "../x"' in kubelet.prepare("db", uid="../x")["../x"].error
    assert 'invalid uid "../x"' in kubelet.unprepare("db", uid="../x")["../x"].error
    cluster.allocate(SECOND, "taken", 1)
    assert not kubelet.prepare("db")[UID].error
    assert "CPU 1 is still in use by claim shop/db" in kubelet.prepare("taken", uid=SECOND)[SECOND].error


def test_a_call_with_too_many_claims_is_refused(start: Start, kubelet: Kubelet) -> None:
    start()
    with pytest.raises(grpc.RpcError) as raised:
        kubelet.prepare(*["db"] * 257)
    assert "257 claims in one call; the limit is 256" in str(raised.value)


def test_containers_with_a_claim_have_its_cpus_and_all_others_the_rest(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime
) -> None:
    start()
    shop, pod = make_pod("db", "shop"), make_pod("web", "other")
    early = make_container("early")
    assert nri_runtime.create_container(pod, early).cpuset_cpus is None
    cluster.allocate(UID, "db", 1, 3)
    kubelet.prepare("db")
    assert nri_runtime.containers[early.id].linux.resources.cpu.cpus == "0,2"
    assert nri_runtime.create_container(shop, claiming(UID, 1, 3)).cpuset_cpus == "1,3"
    assert nri_runtime.create_container(shop, claiming(UID, 3)).cpuset_cpus == "3"
    assert nri_runtime.create_container(shop, make_container("log")).cpuset_cpus == "0,2"
    kubelet.unprepare("db")
    assert nri_runtime.containers[early.id].linux.resources.cpu.cpus == "0-3"


def test_a_container_that_names_a_claim_of_another_namespace_is_refused(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime
) -> None:
    start()
    cluster.allocate(UID, "db", 1)
    kubelet.prepare("db")
    with pytest.raises(nri.PluginRejected, match="no such claim of namespace other is prepared on this node"):
        nri_runtime.create_container(make_pod("thief", "other"), claiming(UID, 1))


def test_a_running_container_that_names_an_unknown_claim_gets_the_shared_cpus(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    stray = claiming(SECOND, 1)
    nri_runtime.create_container(make_pod("db", "shop"), stray)
    start()
    assert "it gets the shared CPUs" in caplog.text
    cluster.allocate(UID, "db", 1)
    kubelet.prepare("db")
    assert nri_runtime.containers[stray.id].linux.resources.cpu.cpus == "0,2-3"


def test_a_container_that_has_ended_is_not_updated(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime
) -> None:
    start()
    pod, stopped, removed = make_pod("web", "other"), make_container("stopped"), make_container("removed")
    for container in (stopped, removed):
        nri_runtime.create_container(pod, container)
    nri_runtime.stop_container(pod, stopped)
    nri_runtime.remove_container(pod, removed)
    cluster.allocate(UID, "db", 1)
    kubelet.prepare("db")
    assert nri_runtime.updates == []


def test_a_failed_update_is_tried_again_and_reported_after_five_attempts(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = start()
    pod, late, stuck = make_pod("web", "other"), make_container("late"), make_container("stuck")
    for container in (late, stuck):
        nri_runtime.create_container(pod, container)
    nri_runtime.refuse_updates |= {late.id, stuck.id}
    cluster.allocate(UID, "db", 1)
    kubelet.prepare("db")
    nri_runtime.refuse_updates.discard(late.id)
    for _ in range(5):
        plugin.pin()
    assert nri_runtime.containers[late.id].linux.resources.cpu.cpus == "0,2-3"
    assert [text for text in caplog.messages if "cannot be moved" in text] == [
        "other/web/stuck cannot be moved to the CPUs 0,2-3"
    ]


def test_without_a_runtime_no_claim_is_prepared_and_no_slice_is_published(
    start: Start, nri_runtime: FakeRuntime, kubelet: Kubelet, cluster: Cluster
) -> None:
    plugin = start()
    nri_runtime.disconnect("90-dra-cpu")
    wait_for(lambda: not (kubelet.folder / f"plugins_registry/{DRIVER}-reg.sock").exists(), "the socket's removal")
    cluster.slices.clear()
    plugin.publish()
    assert cluster.slices == {}
    with pytest.raises(nri.NriError, match="the plugin has no connection to the container runtime"):
        plugin.prepare("shop", "db", UID)


def test_a_plugin_that_is_started_again_keeps_claims_and_pins(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime
) -> None:
    start()
    cluster.allocate(UID, "db", 1)
    kubelet.prepare("db")
    owner, other = claiming(UID, 1), make_container("other")
    nri_runtime.create_container(make_pod("db", "shop"), owner)
    nri_runtime.disconnect("90-dra-cpu")
    nri_runtime.create_container(make_pod("web", "other"), other)
    assert not nri_runtime.containers[other.id].linux.resources.cpu.cpus
    wait_for(lambda: not (kubelet.folder / f"plugins_registry/{DRIVER}-reg.sock").exists(), "the socket's removal")
    start()
    assert nri_runtime.containers[owner.id].linux.resources.cpu.cpus == "1"
    assert nri_runtime.containers[other.id].linux.resources.cpu.cpus == "0,2-3"
    kubelet.unprepare("db")
    assert nri_runtime.containers[other.id].linux.resources.cpu.cpus == "0-3"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"driver": "Not_A_Name"}, "driver must be a DNS name of at most 63 characters, not 'Not_A_Name'"),
        ({"driver": "d" * 64}, "driver must be a DNS name"),
        ({"node": "../x"}, "node must be the name of a node"),
        ({"reserved": "x"}, "reserved: 'x' is not a number or a range"),
        ({"reserved": "9"}, "reserved: none of the CPUs '9' is online"),
        ({"reserved": "0-3"}, "reserved: no CPU is left for claims"),
        ({"kubeletDir": "/proc/none"}, "kubeletDir"),
        ({"reservd": "1"}, 'did you mean "reserved"?'),
    ],
)
def test_an_invalid_configuration_is_an_error_with_its_key(start: Start, changes: Json, message: str) -> None:
    with pytest.raises(nri.NriError, match=re.escape(message)):
        start(**changes)


def test_a_kubelet_that_also_pins_containers_is_reported(
    start: Start, config: Json, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(config["hostRoot"], "var/lib/kubelet")
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("cpuManagerPolicy: static\n")
    start()
    assert "two programs that pin the same containers conflict; set cpuManagerPolicy to none" in caplog.text


def test_cpus_of_prepared_claims_cannot_become_reserved(
    start: Start, kubelet: Kubelet, cluster: Cluster, nri_runtime: FakeRuntime
) -> None:
    start()
    cluster.allocate(UID, "db", 1, 3)
    kubelet.prepare("db")
    nri_runtime.disconnect("90-dra-cpu")
    wait_for(lambda: not (kubelet.folder / f"plugins_registry/{DRIVER}-reg.sock").exists(), "the socket's removal")
    with pytest.raises(ConfigError, match=r"reserved: claims still have the CPUs 1 \(delete their pods first"):
        start(reserved="0-1")


def test_a_second_driver_of_the_same_name_is_refused(start: Start, nri_runtime: FakeRuntime, config: Json) -> None:
    start()
    with pytest.raises(ConfigError, match=r"dra\.sock"):
        nri_runtime.add(DraCpu(), idx="91", config=json.dumps(config))


def test_the_configuration_of_a_running_driver_cannot_change(
    start: Start, nri_runtime: FakeRuntime, config: Json, kubelet: Kubelet
) -> None:
    start()
    with pytest.raises(ConfigError, match="it cannot change while the plugin runs"):
        nri_runtime.reload(json.dumps(config | {"reserved": "1"}))
    assert kubelet.info().name == DRIVER
