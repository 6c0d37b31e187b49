"""The registered hook servers at the calls of the CRI."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as cri
from nri.proxy import HookServerSettings, ProxySettings, Subject
from nri.proxy.hook_servers import HookServersFailed, RegisteredServers
from nri.proxy.hook_servers.dispatch import STAGES
from nri.proxy.hook_servers.messages import fields_of
from nri.proxy.hook_servers.servers import Clients, HookServerError
from nri.proxy.state import ContainerRecord, PodRecord
from tests.support.hook_peers import Answer, HookServer, register

STAGE = "PreRunPodSandbox"


def test_a_restarted_server_is_reached_by_the_next_call(tmp_path: Path) -> None:
    server, clients = HookServer(tmp_path / "s"), Clients()
    for _ in range(3):
        with pytest.raises(HookServerError) as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert caught.value.absent
        assert len(clients) == 0
        with server.listening():
            assert clients.ask(str(server.path), STAGE, {"labels": {"a": "1"}}, 2.0) == {}
    assert server.asked == [(STAGE, {"labels": {"a": "1"}})] * 3
    clients.close()


def test_a_late_or_refusing_server_does_not_count_as_absent(tmp_path: Path) -> None:
    def refuse(_stage: str, _request: object) -> dict[str, str]:
        raise ValueError("bad\npod")

    server, clients = HookServer(tmp_path / "s", refuse), Clients()
    with server.listening():
        with pytest.raises(HookServerError, match=r"/s: bad\\npod$") as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert not caught.value.absent
        server.delay_s = 0.5
        with pytest.raises(HookServerError, match=r"no answer to PreRunPodSandboxHook within 0\.05 s") as caught:
            clients.ask(str(server.path), STAGE, {}, 0.05)
        assert not caught.value.absent
    clients.close()


def test_connections_are_bounded_and_the_least_recently_used_is_closed(tmp_path: Path) -> None:
    servers, clients = [HookServer(tmp_path / str(number)) for number in range(3)], Clients(max_connections=2)
    with servers[0].listening(), servers[1].listening(), servers[2].listening():
        for number in (0, 1, 0, 2, 0, 1):
            clients.ask(str(servers[number].path), STAGE, {}, 2.0)
            assert len(clients) <= 2
        assert list(clients.channels) == [str(servers[0].path), str(servers[1].path)]
    clients.close()
    assert len(clients) == 0


def test_a_connection_closed_by_another_thread_counts_as_an_absent_server(tmp_path: Path) -> None:
    server, clients = HookServer(tmp_path / "s"), Clients()
    with server.listening():
        clients.ask(str(server.path), STAGE, {}, 2.0)
        clients.channels[str(server.path)].close()
        with pytest.raises(HookServerError) as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert caught.value.absent
    clients.close()


POD = {
    "metadata": {"name": "p", "uid": "u", "namespace": "ns"},
    "labels": {"l": "1"},
    "annotations": {"a": "1"},
    "linux": {"cgroup_parent": "/kubepods/podu"},
}
TOLD_POD = {
    "pod_meta": {"name": "p", "uid": "u", "namespace": "ns"},
    "labels": {"l": "1"},
    "annotations": {"a": "1"},
    "cgroup_parent": "/kubepods/podu",
}


class Servers:
    """Hook servers that register in one folder, and the proxy's side of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()

    def add(self, name: str, answer: Answer = lambda *_: {}, stages: Any = tuple(STAGES), **more: Any) -> HookServer:
        """One that serves and is registered."""
        server = HookServer(self.folder / f"{name}.sock", answer)
        self.stack.enter_context(server.listening())
        server.register(self.folder, name, stages, **more)
        return server

    def proxy(self, **options: Any) -> RegisteredServers:
        """All of them."""
        registered_servers = RegisteredServers(self.folder, **options)
        registered_servers.start()
        self.stack.callback(registered_servers.stop)
        return registered_servers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path)
    with servers.stack:
        yield servers


def run_request(**labels: str) -> cri.RunPodSandboxRequest:
    return cri.RunPodSandboxRequest(config={**POD, "labels": labels or POD["labels"]})


def subject(**more: Any) -> Subject:
    pod = PodRecord("pod1", cri.PodSandboxConfig(**POD), "runc")
    config = {
        "metadata": {"name": "c", "attempt": 2},
        "annotations": {"ca": "1"},
        "envs": [{"key": "A", "value": b"1"}],
        "linux": {"resources": {"cpu_shares": 100}},
    }
    container = ContainerRecord("proxy1", "runtime1", "pod1", cri.ContainerConfig(**config))
    container.resources.CopyFrom(cri.LinuxContainerResources(**more))
    return Subject(pod, container)


def test_a_server_is_called_before_a_pod_runs_and_changes_the_request(servers: Servers) -> None:
    server = servers.add("a", lambda *_: {"annotations": {"b": "2"}, "cgroup_parent": "/kubepods/other"})
    request = run_request()
    servers.proxy().before("RunPodSandbox", request, Subject(), None)
    assert server.asked == [("PreRunPodSandbox", TOLD_POD)]
    assert dict(request.config.annotations) == {"a": "1", "b": "2"}
    assert request.config.linux.cgroup_parent == "/kubepods/other"


def test_a_server_receives_a_container_with_its_pod_and_resources(servers: Servers) -> None:
    server = servers.add("a", lambda *_: {"container_envs": {"A": "1", "B": "2"}})
    request = cri.CreateContainerRequest(
        pod_sandbox_id="pod1",
        config={"metadata": {"name": "c"}, "envs": [{"key": "A", "value": b"1"}]},
        sandbox_config=POD,
    )
    servers.proxy().before("CreateContainer", request, Subject(subject().pod), None)
    message = {
        "pod_meta": TOLD_POD["pod_meta"],
        "pod_labels": {"l": "1"},
        "pod_annotations": {"a": "1"},
        "pod_cgroup_parent": "/kubepods/podu",
        "container_meta": {"name": "c"},
        "container_resources": {},
        "container_envs": {"A": "1"},
    }
    assert server.asked == [("PreCreateContainer", message)]
    assert [env.key for env in request.config.envs] == ["A", "B"]


def test_a_server_receives_an_update_with_the_current_resources(servers: Servers) -> None:
    server = servers.add(
        "a", lambda _, request: {"container_resources": {**request["container_resources"], "cpu_quota": -1}}
    )
    request = cri.UpdateContainerResourcesRequest(container_id="runtime1", linux={"cpuset_cpus": "0"})
    of = subject(cpu_shares=200, memory_limit_in_bytes=1 << 20)
    servers.proxy().before("UpdateContainerResources", request, of, None)
    stage, message = server.asked[0]
    assert stage == "PreUpdateContainerResources"
    assert message["container_meta"] == {"name": "c", "attempt": 2, "id": "runtime1"}
    assert message["container_resources"] == {"cpu_shares": 200, "memory_limit_in_bytes": 1 << 20, "cpuset_cpus": "0"}
    assert fields_of(request.linux) == {**message["container_resources"], "cpu_quota": -1}


@pytest.mark.parametrize(
    ("call", "request_", "response", "before", "after"),
    [
        (
            "StartContainer",
            cri.StartContainerRequest(container_id="runtime1"),
            cri.StartContainerResponse(),
            ["PreStartContainer"],
            ["PostStartContainer"],
        ),
        ("StopContainer", cri.StopContainerRequest(), cri.StopContainerResponse(), [], ["PostStopContainer"]),
        ("StopPodSandbox", cri.StopPodSandboxRequest(), cri.StopPodSandboxResponse(), [], ["PostStopPodSandbox"]),
        ("RunPodSandbox", run_request(), cri.RunPodSandboxResponse(), ["PreRunPodSandbox"], []),
    ],
)
def test_only_responses_before_a_creation_or_update_have_an_effect(
    servers: Servers, call: str, request_: Any, response: Any, before: list[str], after: list[str]
) -> None:
    server, proxy = servers.add("a"), servers.proxy()
    bytes_before = request_.SerializeToString()
    proxy.before(call, request_, subject(), None)
    assert server.stages == before
    proxy.after(call, request_, response, subject(), None)
    assert server.stages == before + after
    assert request_.SerializeToString() == bytes_before
    for stage, message in server.asked:
        name = "pod_meta" if stage.endswith("PodSandbox") else "container_meta"
        assert message[name]["name"] == ("p" if name == "pod_meta" else "c")


def test_only_the_first_server_with_the_stage_is_called(servers: Servers) -> None:
    servers.add("10-other", stages=["PostStopContainer"])
    first = servers.add("20-first", lambda *_: {"labels": {"by": "first"}})
    second = servers.add("30-second", lambda *_: {"labels": {"by": "second"}})
    request = run_request()
    servers.proxy().before("RunPodSandbox", request, Subject(), None)
    assert request.config.labels["by"] == "first"
    assert (len(first.asked), len(second.asked)) == (1, 0)


def test_all_servers_can_be_called_in_order_with_the_changes_so_far(
    servers: Servers,
) -> None:
    def refuse(*_: object) -> dict[str, Any]:
        raise ValueError("no")

    servers.add("10", lambda *_: {"labels": {"by": "10", "ten": "1"}})
    servers.add("20", refuse)
    last = servers.add("30", lambda *_: {"labels": {"by": "30"}})
    register(servers.folder, "25", servers.folder / "nobody", ["PreRunPodSandbox"])
    request = run_request()
    proxy = servers.proxy(every=True)
    proxy.before("RunPodSandbox", request, Subject(), None)
    assert last.asked[0][1]["labels"] == {"l": "1", "by": "10", "ten": "1"}
    assert dict(request.config.labels) == {"l": "1", "by": "30", "ten": "1"}
    proxy.after("StopPodSandbox", cri.StopPodSandboxRequest(), cri.StopPodSandboxResponse(), subject(), None)
    assert last.stages == ["PreRunPodSandbox", "PostStopPodSandbox"]


def test_a_failing_server_fails_the_request_only_with_policy_fail(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def refuse(*_: object) -> dict[str, Any]:
        raise ValueError("a bad annotation")

    server = servers.add("a", refuse)
    second = servers.add("b", lambda *_: {"labels": {"by": "second"}})
    proxy = servers.proxy()
    for policy in ("Ignore", ""):
        server.register(servers.folder, "a", [*STAGES], policy)
        request = run_request()
        proxy.before("RunPodSandbox", request, Subject(), None)
        assert request == run_request(), "a server that refuses has had its turn: the next one is not asked instead"
    assert second.asked == []
    assert "a.sock: a bad annotation; PreRunPodSandbox of pod ns/p" in caplog.text
    server.register(servers.folder, "a", [*STAGES], "Fail")
    with pytest.raises(HookServersFailed, match=r"^hook server err: .*a\.sock: a bad annotation$"):
        proxy.before("RunPodSandbox", run_request(), Subject(), None)
    proxy.after("StopPodSandbox", cri.StopPodSandboxRequest(), cri.StopPodSandboxResponse(), subject(), None)


def test_an_absent_server_is_skipped_unless_its_policy_is_fail(servers: Servers) -> None:
    register(servers.folder, "10", servers.folder / "nobody", ["PreRunPodSandbox"], "Ignore")
    second = servers.add("20", lambda *_: {"labels": {"by": "second"}})
    proxy, request = servers.proxy(), run_request()
    proxy.before("RunPodSandbox", request, Subject(), None)
    assert request.config.labels["by"] == "second"
    register(servers.folder, "10", servers.folder / "nobody", ["PreRunPodSandbox"], "Fail")
    with pytest.raises(HookServersFailed, match="nobody"):
        proxy.before("RunPodSandbox", run_request(), Subject(), None)
    assert len(second.asked) == 1


def test_a_silent_server_is_awaited_until_its_timeout_or_the_callers_deadline(servers: Servers) -> None:
    server = servers.add("a", policy="Fail")
    server.delay_s = 5.0
    impatient, patient = servers.proxy(timeout_s=0.1), servers.proxy(timeout_s=60.0)
    with pytest.raises(HookServersFailed, match=r"no answer to PreRunPodSandboxHook within 0\.1 s"):
        impatient.before("RunPodSandbox", run_request(), Subject(), None)
    deadline = time.monotonic() + 0.6
    with pytest.raises(HookServersFailed, match=r"no answer to PreRunPodSandboxHook within 0\.0\d+ s"):
        patient.before("RunPodSandbox", run_request(), Subject(), deadline)


def test_servers_are_never_called_for_pods_with_the_skip_label(servers: Servers) -> None:
    server = servers.add("a", policy="Fail")
    label = ("runtimeproxy.koordinator.sh/skip-hookserver", "true")
    proxy = servers.proxy()
    proxy.before("RunPodSandbox", run_request(**dict([label])), Subject(), None)
    of = subject()
    assert of.pod is not None
    of.pod.config.labels.update([label])
    proxy.before("StartContainer", cri.StartContainerRequest(), of, None)
    proxy.after("StopPodSandbox", cri.StopPodSandboxRequest(), cri.StopPodSandboxResponse(), of, None)
    assert server.asked == []
    servers.proxy(skip=("l", "1")).before("RunPodSandbox", run_request(), Subject(), None)
    assert server.asked == []
    servers.proxy(skip=("l", "2")).before("RunPodSandbox", run_request(), Subject(), None)
    assert server.stages == ["PreRunPodSandbox"]


def test_requests_of_unknown_pods_are_forwarded_and_logged(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    server, proxy = servers.add("a", policy="Fail"), servers.proxy()
    proxy.before("CreateContainer", cri.CreateContainerRequest(pod_sandbox_id="x"), Subject(), None)
    proxy.before("StartContainer", cri.StartContainerRequest(container_id="x"), Subject(subject().pod), None)
    assert server.asked == []
    assert "unknown pod in CreateContainerRequest" in caplog.text
    assert "unknown container in StartContainerRequest" in caplog.text


def test_without_registrations_no_server_is_called(servers: Servers) -> None:
    request = run_request()
    servers.proxy().before("RunPodSandbox", request, Subject(), None)
    assert request == run_request()


def test_the_proxys_settings_have_registration_folder_and_mode(servers: Servers) -> None:
    assert RegisteredServers.of(ProxySettings()) is None
    first = servers.add("10", lambda *_: {"labels": {"by": "10"}})
    second = servers.add("20", lambda *_: {"labels": {"by": "20"}})
    settings = HookServerSettings(enable=True, folder=servers.folder, timeout=9.0, every=True)
    registered = RegisteredServers.of(
        ProxySettings(skip_label_key="skip", skip_label_value="me", hook_servers=settings)
    )
    assert registered is not None
    servers.stack.callback(registered.stop)
    registered.before("RunPodSandbox", run_request(skip="me"), Subject(), None)
    registered.before("RunPodSandbox", run_request(), Subject(), None)
    assert (len(first.asked), len(second.asked)) == (1, 1)
    with pytest.raises(ValueError, match="timeout 0 s is too short for a timeout"):
        HookServerSettings(timeout=0)
