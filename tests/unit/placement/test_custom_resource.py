"""Custom resources become a plugin's file, and their status follows the plugin, with a scripted API server."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import NriError
from nri.kube.client.connection import Listing
from nri.kube.client.objects import ApiserverError, key_of
from nri.kube.object_cache import ObjectCache
from nri.placement import custom_resource as resources_module
from nri.placement.custom_resource import Place, Resources, follow_until_stopped, policy_of_node
from nri.placement.policy import document
from nri.placement.registry import POLICIES
from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.service.client import ask as ask_socket
from nri.stub.session import settings
from tests.support.placement import guest, topology_aware, write_machine
from tests.support.waiting import wait_for

SPEC = {"reservedResources": {"cpu": "cpuset:0"}}


def policy(name: str, spec: Any = SPEC, generation: int = 1) -> dict[str, Any]:
    meta = {"name": name, "namespace": "kube-system", "uid": f"u-{name}", "generation": generation}
    return {"kind": "TopologyAwarePolicy", "apiVersion": "config.nri/v1alpha1", "metadata": meta, "spec": spec}


class Api:
    """An apiserver with these policies and one node, which keeps what it is asked to change."""

    def __init__(self, *policies: dict[str, Any], group: str = "") -> None:
        self.lists = {"TopologyAwarePolicy": list(policies), "Node": [{"metadata": {"name": "n1", "labels": {}}}]}
        if group:
            self.lists["Node"][0]["metadata"]["labels"]["config.nri/group"] = group
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.refuses: list[ApiserverError] = []
        self.asked: list[tuple[str, str]] = []

    def list(self, kind: Any, fields: str, _version: str) -> Listing:
        self.asked.append((kind.name, fields))
        kept_objects = ObjectCache()
        for thing in self.lists[kind.name]:
            kept_objects.put(key_of(thing), thing, 1)
        return Listing(kept_objects, "1")

    def watch(self, *_: Any) -> Any:
        raise ApiserverError("watch", 0, "not here")

    def patch(self, _what: str, path: str, changes: dict[str, Any], owner: str = "") -> None:
        if self.refuses:
            raise self.refuses.pop()
        self.patched.append((path + (f"?{owner}" if owner else ""), changes))


class Plugin:
    """A plugin that accepts each file, or reports a problem."""

    def __init__(self, file: Path, problem: str = "") -> None:
        self.file, self.problem, self.up = file, problem, True
        self.unmet: list[str] = []
        self._shown = document(topology_aware())

    def __call__(self) -> dict[str, Any]:
        if not self.up:
            raise NriError("cannot connect")
        values = int(self.file.exists()) and self.file.stat().st_mtime_ns
        return self._shown | {"configuration": {"given": values, "problem": self.problem, "unmet": self.unmet}}


def place_of(file: Path) -> Place:
    """The resource of topology-aware on the node n1."""
    row = POLICIES["topology-aware"]
    return Place(row.resource, row.load().plugin_options_type, "n1", "kube-system", "config.nri/group", file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "policy.json"


def followed(api: Api, file: Path, plugin: Callable[[], dict[str, Any]]) -> Resources:
    """Resources that have been read once."""
    place = Place(
        POLICIES["topology-aware"].resource, TopologyAwarePlugin.Config, "n1", "kube-system", "config.nri/group", file
    )
    resources = Resources(api, place, plugin)  # type: ignore[arg-type]
    for follower in resources.followers:
        follower.run_once()
    return resources


def relisted(resources: Resources, api: Api) -> None:
    """Let a change of the policies be seen, as after a watch."""
    resources.take_policies({("kube-system", row["metadata"]["name"]): row for row in api.lists["TopologyAwarePolicy"]})


def statuses(api: Api) -> list[tuple[str, Any]]:
    actual = [
        (path.split("/")[-2], changes["status"]["nodes"]["n1"]) for path, changes in api.patched if "status" in path
    ]
    return [(name, status and (status["status"], status["errors"], status["generation"])) for name, status in actual]


def test_precedence_is_policy_of_the_node_of_its_group_default() -> None:
    names = ["default", "group.fast", "node.n1", "node.n2"]
    policies = {("kube-system", name): policy(name) for name in names}

    def name(*names: str, group: str = "fast") -> str:
        actual = policy_of_node({key: policy for key, policy in policies.items() if key[1] in names}, "n1", group)
        return actual["metadata"]["name"] if actual else ""

    assert name(*names) == "node.n1"
    assert name("default", "group.fast") == "group.fast"
    assert name("default", "group.fast", group="") == "default"
    assert name("node.n2") == ""


def test_a_policy_becomes_the_file_and_its_status_success(file: Path) -> None:
    api = Api(policy("default"), policy("group.fast", {**SPEC, "pinMemory": False}, 7), group="fast")
    followed(api, file, Plugin(file)).step()
    assert json.loads(file.read_text())["spec"]["pinMemory"] is False
    assert statuses(api) == [("group.fast", ("Success", "", 7))]
    assert ("TopologyAwarePolicy", "metadata.namespace=kube-system") in api.asked
    assert ("Node", "metadata.name=n1") in api.asked
    path, zones = api.patched[-1]
    assert path == "apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1?nri-placement"
    assert zones["metadata"] == {"name": "n1"} and "root" in [zone["name"] for zone in zones["zones"]]


def test_unfulfilled_requests_of_running_containers_are_in_the_status(file: Path) -> None:
    api, plugin = Api(policy("default")), Plugin(file)
    resources = followed(api, file, plugin)
    for unmet in ([], ["n/p/a: there is no type", "n/p/b: there is no class"], []):
        plugin.unmet = unmet
        resources.step()
        resources.step()
    both = "n/p/a: there is no type; n/p/b: there is no class"
    assert statuses(api) == [("default", ("Success", errors, 1)) for errors in ("", both, "")]


def test_unchanged_policies_are_not_written_again(file: Path) -> None:
    api = Api(policy("default"))
    resources = followed(api, file, Plugin(file))
    resources.step()
    before = len(api.patched)
    resources.step()
    assert len(api.patched) == before == 2


@pytest.mark.parametrize("late", [False, True])
def test_a_refused_policy_is_replaced_by_the_last_accepted_file(
    file: Path, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0)
    api, plugin = Api(policy("default")), Plugin(file)
    resources = followed(api, file, plugin)
    resources.step()
    good = file.read_bytes()
    for generation in (2, 3):
        plugin.problem, plugin.up = "no place for default/web/main", not late
        api.lists["TopologyAwarePolicy"] = [policy("default", {**SPEC, "pinMemory": False}, generation)]
        relisted(resources, api)
        resources.step()
        assert (file.read_bytes() == good) is not late
    plugin.up = True
    resources.step()
    assert file.read_bytes() == good
    assert statuses(api)[-1] == ("default", ("Failure", plugin.problem, 3))


def test_each_problem_is_logged_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    resources = followed(api, file, Plugin(file))
    for _ in range(3):
        api.refuses = [ApiserverError("apply", 404, "gone")]
        resources.step()
    assert len([line for line in caplog.messages if "not found: node" in line]) == 1


def test_a_refusal_by_the_plugin_is_in_the_status(file: Path) -> None:
    api = Api(policy("default"))
    followed(api, file, Plugin(file, "no place for default/web/main")).step()
    assert statuses(api) == [("default", ("Failure", "no place for default/web/main", 1))]


def test_an_invalid_policy_keeps_the_file_and_names_the_key(file: Path) -> None:
    api = Api(policy("default"))
    resources = followed(api, file, Plugin(file))
    resources.step()
    before = file.read_text()
    api.lists["TopologyAwarePolicy"] = [policy("default", {**SPEC, "pinCPUs": True}, 2)]
    relisted(resources, api)
    resources.step()
    assert file.read_text() == before
    (_, _), (name, (status, errors, generation)) = statuses(api)
    assert (name, status, generation) == ("default", "Failure", 2)
    assert "pinCPUs" in errors and "pinCPU" in errors


def test_the_previous_policy_loses_the_nodes_status(file: Path) -> None:
    api = Api(policy("default"))
    resources = followed(api, file, Plugin(file))
    resources.step()
    api.lists["TopologyAwarePolicy"].append(policy("node.n1"))
    relisted(resources, api)
    resources.step()
    assert statuses(api)[1:] == [("default", None), ("node.n1", ("Success", "", 1))]


def test_requests_that_the_apiserver_refuses_are_retried(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    api = Api(policy("default"))
    resources = followed(api, file, Plugin(file))
    api.refuses = [ApiserverError("patch", 403, "forbidden")]
    resources.step()
    assert "deploy/placement/rbac.yaml" in caplog.text and statuses(api) == []
    resources.step()
    assert statuses(api) == [("default", ("Success", "", 1))]


def test_without_a_policy_or_a_plugin_the_follower_waits_and_logs(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugin = Plugin(file)
    plugin.up = False
    followed(Api(), file, plugin).step()
    assert "topologyawarepolicies.config.nri not found: node.n1 or default" in caplog.text
    assert not file.exists()


def test_a_late_plugin_is_a_failure_until_it_accepts_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0.0)
    api, plugin = Api(policy("default")), Plugin(file)
    plugin.up = False
    resources = followed(api, file, plugin)
    resources.step()
    resources.step()
    assert statuses(api) == [("default", ("Failure", "cannot connect", 1))]
    plugin.up = True
    resources.step()
    resources.step()
    assert statuses(api)[1:] == [("default", ("Success", "", 1))]


def test_a_plugin_of_another_version_does_not_end_the_follower(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    api, plugin = Api(policy("default")), Plugin(file)
    followed(api, file, lambda: {"configuration": plugin()["configuration"]}).step()
    assert (
        file.exists()
        and "cannot be used (KeyError: 'zones'); run the plugin and nri placement follow from the same" in caplog.text
    )


def test_a_plugin_with_another_file_is_an_error_with_the_expected_path(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0.0)
    api = Api(policy("default"))
    followed(api, file, Plugin(file.with_name("another"))).step()
    ((_, (status, errors, _)),) = statuses(api)
    assert status == "Failure" and f"is its --config {file}?" in errors


def test_a_plugin_that_starts_during_the_wait_has_accepted_the_file(file: Path) -> None:
    api, plugin, requests = Api(policy("default")), Plugin(file), iter((False, False))

    def starts_later() -> dict[str, Any]:
        plugin.up = next(requests, True)
        return plugin()

    followed(api, file, starts_later).step()
    assert statuses(api) == [("default", ("Success", "", 1))]


def test_a_start_logs_no_warning_if_the_apiserver_answers(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Api):
        def list(self, kind: Any, fields: str, version: str) -> Listing:
            if kind.name == "Node":
                threading.Event().wait(0.3)  # the list of policies is there first, and wakes the follower
            return super().list(kind, fields, version)

    monkeypatch.setattr(resources_module, "PATIENCE_S", 60.0)
    resources = Resources(Slow(policy("default")), place_of(file), Plugin(file))  # type: ignore[arg-type]
    resources.run(threading.Event(), once=True)
    assert file.exists() and "waiting" not in caplog.text


def test_no_file_is_written_before_the_apiserver_has_answered(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_module, "PATIENCE_S", 0.0)

    class Silent(Api):
        def list(self, kind: Any, fields: str, _version: str) -> Any:
            raise ApiserverError("list", 0, "not here")

    place = Place(
        POLICIES["topology-aware"].resource, TopologyAwarePlugin.Config, "n1", "kube-system", "config.nri/group", file
    )
    stopping = threading.Event()
    resources = Resources(Silent(), place, Plugin(file))  # type: ignore[arg-type]
    thread = threading.Thread(target=resources.run, args=(stopping, True), daemon=True)
    thread.start()
    wait_for(lambda: "waiting for the apiserver" in caplog.text, "the message that names the apiserver")
    stopping.set()
    thread.join(20)
    assert not thread.is_alive() and not file.exists()


def test_the_status_of_a_removed_policy_does_not_block(file: Path) -> None:
    api = Api(policy("default"))
    resources = followed(api, file, Plugin(file))
    api.refuses = [ApiserverError("patch", 403, "forbidden")]
    resources.step()
    resources.take_policies({})
    api.refuses = [ApiserverError("patch", 404, "no such policy")]
    resources.step()
    assert [path.split("/")[-2] for path, _ in api.patched] == ["noderesourcetopologies"]


def test_once_waits_for_a_valid_policy(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = Place(
        POLICIES["topology-aware"].resource, TopologyAwarePlugin.Config, "n1", "kube-system", "config.nri/group", file
    )
    api, plugin = Api(policy("default", {**SPEC, "pinCPUs": True})), Plugin(file)
    plugin.up = False
    resources = Resources(api, place, plugin)  # type: ignore[arg-type]
    thread = threading.Thread(target=resources.run, args=(threading.Event(), True), daemon=True)
    thread.start()
    wait_for(lambda: "the configuration is unchanged" in caplog.text, "the policy is refused")
    assert not file.exists()
    api.lists["TopologyAwarePolicy"] = [policy("default", generation=2)]
    relisted(resources, api)
    thread.join(20)
    assert not thread.is_alive() and file.exists()


NEW = {**SPEC, "pinMemory": False}


@pytest.mark.parametrize("killed", [False, True], ids=["at rest", "killed before the plugin had its say"])
def test_once_keeps_the_existing_file_while_the_plugin_runs(
    file: Path, killed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0)
    caplog.set_level("INFO")
    api, plugin = Api(policy("default")), Plugin(file)
    resources = followed(api, file, plugin)
    resources.step()
    good, plugin.up = file.read_bytes(), False
    api.lists["TopologyAwarePolicy"] = [policy("default", NEW, 2)]
    relisted(resources, api)
    if killed:
        resources.step()
        assert file.read_bytes() != good
    followed(api, file, plugin).run(threading.Event(), once=True)
    assert file.read_bytes() == good and f"{file} stays as it is" in caplog.text
    plugin.up = True
    followed(api, file, plugin).step()
    assert json.loads(file.read_text())["spec"] == NEW
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_once_rewrites_a_file_that_no_plugin_could_start_with(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugin = Plugin(file)
    plugin.up = False
    file.parent.mkdir()
    file.write_text(json.dumps(policy("default", {**SPEC, "pinCPUs": True})))
    followed(Api(policy("default")), file, plugin).run(threading.Event(), once=True)
    assert json.loads(file.read_text())["spec"] == SPEC
    assert "pinCPUs: unknown key" in caplog.text and "writing the file again" in caplog.text


@pytest.mark.parametrize(
    ("spec", "problem", "words"),
    [
        (NEW, "no place for default/web/main", "no place for default/web/main"),
        ({**SPEC, "pinCPUs": True}, "", r'pinCPUs: unknown key \(did you mean "pinCPU"\?\)'),
        (NEW, "late", "has not read it in time"),
    ],
    ids=["refused", "unreadable", "late"],
)
def test_once_fails_with_the_reason_and_restores_the_last_file_if_the_plugin_refuses(
    file: Path, spec: Any, problem: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0)
    api, plugin = Api(policy("default")), Plugin(file)
    followed(api, file, plugin).run(threading.Event(), once=True)
    good = file.read_bytes()
    api.lists["TopologyAwarePolicy"] = [policy("default", spec, 2)]
    plugin.problem = problem
    if problem == "late":
        plugin.file = file.with_name("another")
    with pytest.raises(NriError, match=rf"default, generation 2: .*{words}.*; .*{file.name} is unchanged"):
        followed(api, file, plugin).run(threading.Event(), once=True)
    assert file.read_bytes() == good
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_invalid_policy_withdraws_an_unread_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0)
    api, plugin = Api(policy("default")), Plugin(file)
    resources = followed(api, file, plugin)
    resources.step()
    good, plugin.up = file.read_bytes(), False
    for generation, spec in ((2, NEW), (3, {**SPEC, "pinCPUs": True})):
        api.lists["TopologyAwarePolicy"] = [policy("default", spec, generation)]
        relisted(resources, api)
        resources.step()
        assert (file.read_bytes() == good) is (generation == 3)


@pytest.mark.parametrize("killed", [False, True], ids=["follower still running", "follower killed"])
def test_a_plugin_that_refuses_the_policy_at_start_gets_the_last_accepted_one(
    file: Path, tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources_module, "TAKE_S", 0)
    write_machine(tmp_path, guest())
    api, plugin, absent = Api(policy("default")), TopologyAwarePlugin(), Plugin(file)

    def start() -> None:
        """Connect, as often as that is: each time the file is read."""
        settings.apply(plugin, "", str(file), {"host-root": [str(tmp_path)], "state-dir": [str(file.parent)]})
        plugin.configure()

    def show() -> Any:
        socket = file.with_name("topology-aware.sock")
        return ask_socket(str(socket), "/show", 5)[1] if socket.exists() else absent()

    resources = followed(api, file, show)
    resources.step()
    good, absent.up = file.read_bytes(), False
    api.lists["TopologyAwarePolicy"] = [policy("default", {"reservedResources": {"cpu": "cpuset:77"}}, 2)]
    relisted(resources, api)
    resources.step()
    assert file.read_bytes() != good
    start()
    assert "77 are not among the available CPUs (remove them); the configuration is unchanged" in caplog.text
    resources = followed(api, file, show) if killed else resources
    resources.step()
    start()
    resources.step()
    assert file.read_bytes() == good
    (_, (status, errors, generation)) = statuses(api)[-1]
    assert (status, generation) == ("Failure", 2) and "77 are not among" in errors
    start()
    assert show()["configuration"]["problem"] == ""
    plugin.closed()


def test_once_ends_when_the_file_is_written(file: Path) -> None:
    place = Place(
        POLICIES["topology-aware"].resource, TopologyAwarePlugin.Config, "n1", "kube-system", "config.nri/group", file
    )
    Resources(Api(policy("default")), place, Plugin(file)).run(threading.Event(), once=True)  # type: ignore[arg-type]
    assert file.exists()


def test_the_follower_runs_until_it_is_stopped(file: Path) -> None:
    place = Place(
        POLICIES["topology-aware"].resource, TopologyAwarePlugin.Config, "n1", "kube-system", "config.nri/group", file
    )
    api, stopping = Api(policy("default")), threading.Event()
    resources = Resources(api, place, Plugin(file))  # type: ignore[arg-type]
    thread = threading.Thread(target=resources.run, args=(stopping,))
    thread.start()
    wait_for(lambda: statuses(api), "the status")
    stopping.set()
    resources.wake()
    thread.join()


def test_once_waits_for_a_policy_while_the_plugin_runs(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    resources = Resources(api, place_of(file), Plugin(file))  # type: ignore[arg-type]
    thread = threading.Thread(target=resources.run, args=(threading.Event(), True), daemon=True)
    thread.start()
    wait_for(lambda: "not found: node.n1 or default" in caplog.text, "the warning")
    assert thread.is_alive() and not file.exists()
    api.lists["TopologyAwarePolicy"] = [policy("default")]
    relisted(resources, api)
    thread.join(20)
    assert not thread.is_alive() and json.loads(file.read_text())["spec"] == SPEC


def test_a_warning_is_logged_again_after_64_others(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    problems: list[str] = []

    def ask() -> dict[str, Any]:
        raise NriError(problems[-1])

    resources = followed(Api(), file, ask)
    for number in range(63):
        problems.append(f"problem {number}")
        resources.step()
    assert len([line for line in caplog.messages if "not found: node" in line]) == 1
    for number in (63, 64):
        problems.append(f"problem {number}")
        resources.step()
    assert len([line for line in caplog.messages if "not found: node" in line]) == 2
    assert [line for line in caplog.messages if "problem" in line] == problems


@pytest.fixture
def _restored_handlers() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_program_with_once_ends_without_a_signal_and_handles_none(file: Path) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    follow_until_stopped(Api(policy("default")), place_of(file), Plugin(file), once=True)  # type: ignore[arg-type]
    assert file.exists() and signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.usefixtures("_restored_handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_and_its_threads(file: Path, number: int) -> None:
    api, threads = Api(policy("default")), set(threading.enumerate())

    def send_signal() -> None:
        wait_for(lambda: statuses(api), "the status")
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send_signal)
    sender.start()
    follow_until_stopped(api, place_of(file), Plugin(file), once=False)  # type: ignore[arg-type]
    sender.join()
    assert statuses(api) == [("default", ("Success", "", 1))]
    followers = [thread for thread in threading.enumerate() if thread.name.startswith("follow ")]
    assert set(followers) <= threads


@pytest.mark.usefixtures("_restored_handlers")
def test_an_unexpected_error_ends_the_program(file: Path) -> None:
    def ask() -> dict[str, Any]:
        raise RuntimeError("not an error of the plugin")

    with pytest.raises(RuntimeError, match="not an error of the plugin"):
        follow_until_stopped(Api(policy("default")), place_of(file), ask, once=False)  # type: ignore[arg-type]
