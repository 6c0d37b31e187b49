"""The admin socket, over a real socket."""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from nri.adaptation import admin
from nri.adaptation.admin import SERVICE, Admin, ask, follow
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.recent import Recent
from nri.adaptation.audit.reporting import Reporting
from nri.api import messages as m
from nri.errors import ConnectionClosed, RemoteProtocolError, RpcError, RuntimeUnavailable
from nri.plugin_policy.policy import Policies
from nri.rules import Rules
from nri.ttrpc import Client, Code, Method, Server, Service
from tests.support.waiting import wait_for

PLUGINS = [{"plugin": "10-a", "state": "active"}]


def record(provenance: Provenance, container: str, value: str = "1", pod: str = "") -> None:
    whose = m.PodSandbox(id=f"pod-{pod}", name=pod, namespace="prod") if pod else None
    request = m.CreateContainerRequest(pod=whose, container=m.Container(id=container, name="web"))
    pairs = [m.KeyValue(key="A", value=value)]
    reply = m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=pairs))
    provenance.record("CreateContainer", container, request.SerializeToString(), [("10-a", reply.SerializeToString())])


@pytest.fixture
def provenance():
    return Provenance()


@pytest.fixture
def path(provenance):
    with tempfile.TemporaryDirectory(prefix="nri-admin-", dir="/tmp") as folder:
        existing = "7c0ffee"
        shown = (provenance, Policies(None), lambda: PLUGINS, Rules.DEFAULT, existing.startswith, Recent(Reporting()))
        served = Admin(f"{folder}/run/admin.sock", *shown)
        served.start()
        yield served.path
        served.stop()
        assert not os.path.exists(served.path), "the socket stays behind"


def refusal(path: str, method: str, request: dict) -> RpcError:
    with pytest.raises(RpcError) as caught:
        ask(path, method, request)
    return caught.value


def test_why_returns_the_history_of_a_container(path, provenance):
    record(provenance, "1f2e3d4c")
    chain = ask(path, "Why", {"container": "1f2e3d4c"})
    assert [(step["plugin"], step["key"], step["after"]) for step in chain["steps"]] == [("10-a", "A", "1")]


def test_why_gives_the_values_in_force_only_on_request(path, provenance):
    record(provenance, "1f2e3d4c")
    chain = ask(path, "Why", {"container": "1f2e3d4c", "values": True})
    assert [(row["key"], row["value"], row["plugin"]) for row in chain["values"]] == [("A", "1", "10-a")]
    assert "values" not in ask(path, "Why", {"container": "1f2e3d4c"})


def test_plugins_names_the_runtime_and_its_version(tmp_path, provenance):
    more = (provenance, Policies(None), lambda: PLUGINS, Rules.DEFAULT, bool, Recent(Reporting()))
    served = Admin(str(tmp_path / "admin.sock"), *more, runtime=("engine", "1.2"))
    served.start()
    try:
        runtime = ask(served.path, "Plugins", {})["runtime"]
    finally:
        served.stop()
    assert (runtime["name"], runtime["version"]) == ("engine", "1.2") and runtime["protocol"].startswith("v0.")


def test_an_occupied_path_is_an_error_with_the_setting(path, provenance):
    second = Admin(path, provenance, Policies(None), lambda: PLUGINS, Rules.DEFAULT, bool, Recent(Reporting()))
    with pytest.raises(OSError, match=rf"admin_socket: {path} is in use: another process listens there"):
        second.start()


def test_why_accepts_the_prefix_of_an_id(path, provenance):
    record(provenance, "1f2e3d4c")
    assert ask(path, "Why", {"container": "1f2"})["container"] == "1f2e3d4c"


def test_an_ambiguous_prefix_is_an_error_with_the_ids(path, provenance):
    record(provenance, "1f2e")
    record(provenance, "1f2d")
    error = refusal(path, "Why", {"container": "1f"})
    assert error.message == '"1f" matches several containers: 1f2d (web), 1f2e (web)'


def test_why_accepts_names_and_prefers_the_existing_container(path, provenance):
    record(provenance, "1f2e", pod="one")
    record(provenance, "7c0", pod="two")
    for word, matches in {"one": "1f2e", "two/web": "7c0", "prod/one/web": "1f2e", "web": "7c0"}.items():
        assert ask(path, "Why", {"container": word})["container"] == matches


def test_of_repeated_creations_the_last_one_is_used(path, provenance):
    for number in range(3):
        record(provenance, f"1f2{number}", pod="one")
    assert ask(path, "Why", {"container": "one/web"})["container"] == "1f22"


def test_a_container_without_a_history_is_an_error_with_the_reason(path, provenance):
    record(provenance, "1f2e3d4c")
    provenance.forget("1f2e3d4c")
    reasons = {"9": 'container "9" not found: no container since',
               "1f2e": 'no history of container "1f2e": it was removed',
               "7c0f": "histories begin with the start of the runtime, 20"}  # fmt: skip
    for expected, words in reasons.items():
        error = refusal(path, "Why", {"container": expected})
        assert error.code == Code.NOT_FOUND
        assert words in error.message


@pytest.mark.parametrize("request_", [{}, {"container": ""}, {"container": 7}])
def test_why_requires_the_name_of_a_container(path, request_):
    assert refusal(path, "Why", request_).code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("payload", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_request_that_is_not_a_json_object_is_refused(path, payload):
    with Client.connect(path) as client, pytest.raises(RpcError) as caught:
        client.call(SERVICE, "Plugins", payload)
    assert caught.value.code == Code.INVALID_ARGUMENT


def test_an_empty_request_is_an_empty_object(path):
    with Client.connect(path) as client:
        assert json.loads(client.call(SERVICE, "Plugins"))["plugins"] == PLUGINS


def test_plugins_also_returns_the_size_of_the_histories(path, provenance):
    record(provenance, "c1")
    assert ask(path, "Plugins", {})["provenance"]["containers"] == 1


def test_containers_lists_containers_with_a_history_and_escapes_names(path, provenance):
    record(provenance, "1f2e", pod="one")
    record(provenance, "7c0", pod="t\x1bwo")
    answer = ask(path, "Containers", {})
    assert answer["left_out"] == 0
    assert [(row["id"], row["pod"], row["runs"]) for row in answer["containers"]] == [
        ("7c0", "prod/t\\x1bwo", True), ("1f2e", "prod/one", False)]  # fmt: skip


def test_events_are_streamed_at_once_and_then_every_second(path):
    readings = follow(path, {})
    first, second = next(readings), next(readings)
    assert (first["rows"], first["next"], first["more"], first["missed"]) == ([], 0, False, 0)
    assert second["run"] == first["run"] == next(follow(path, {"run": first["run"], "after": 0}))["run"]


@pytest.mark.parametrize("request_", [{"run": 1}, {"after": -1}, {"after": "1"}, {"after": True}])
def test_positions_of_events_must_be_numbers(path, request_):
    with pytest.raises(RpcError) as caught:
        next(follow(path, request_))
    assert caught.value.code == Code.INVALID_ARGUMENT


def test_the_number_of_readers_is_limited_and_leaving_readers_free_their_place(path):
    readers = [follow(path, {}) for _ in range(8)]
    assert all(next(reader)["rows"] == [] for reader in readers)
    with pytest.raises(RpcError, match="too many streams"):
        next(follow(path, {}))
    for reader in readers:
        reader.close()

    def room() -> bool:
        try:
            return next(follow(path, {})) is not None
        except RpcError:
            return False

    wait_for(room, "those that have left are noticed")


def test_a_reader_that_does_not_read_blocks_neither_the_socket_nor_its_stop(path):
    with Client.connect(path) as client, client.stream(SERVICE, "Events", b"{}", streaming="server"):
        assert ask(path, "Plugins", {})["plugins"] == PLUGINS


@pytest.mark.parametrize("messages", [b"[]", b"{}", b"\xff", b'{"run": "a", "next": 1, "missed": 0, "rows": {}}'])
def test_invalid_event_messages_of_another_program_are_refused(tmp_path, messages):
    methods = {"Events": Method(lambda _: [messages], streaming="server")}
    with Server(str(tmp_path / "a.sock"), [Service(SERVICE, methods)]), pytest.raises(RemoteProtocolError):
        next(follow(str(tmp_path / "a.sock"), {}))


def test_policies_are_returned_with_their_source(path):
    assert ask(path, "Policies", {}) == {"path": None, "generation": 0, "error": None, "policies": {}}


def test_only_the_owner_can_access_the_socket(path):
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(Path(path).parent).st_mode) == 0o700


def test_another_user_is_refused_despite_a_wider_mode(path, monkeypatch):
    monkeypatch.setattr(admin.os, "geteuid", lambda: 4711)
    monkeypatch.setattr(admin, "credentials", lambda sock: type("Who", (), {"uid": 4712}))
    with pytest.raises((ConnectionClosed, RuntimeUnavailable)):
        ask(path, "Plugins", {})


def test_a_history_too_long_for_one_reply_loses_its_oldest_steps(path, provenance):
    for number in range(60):
        record(provenance, "c1", f"{number:02}" + "x" * 100_000)
    chain = ask(path, "Why", {"container": "c1"})
    assert chain["forgotten"] > 0
    assert chain["steps"][-1]["after"].startswith("59"), "the newest step is missing"


@pytest.mark.parametrize("answer", [b"{", b"[" * 100_000])
def test_a_reply_that_is_not_json_is_an_error_with_the_socket(tmp_path, answer):
    path = str(tmp_path / "admin.sock")
    service = Service(SERVICE, {"Plugins": Method(lambda payload: answer)})
    with Server(path, [service]), pytest.raises(RemoteProtocolError, match=f"reply from {path} is not JSON: "):
        ask(path, "Plugins", {})


def test_a_missing_socket_is_an_unavailable_runtime(tmp_path):
    with pytest.raises(RuntimeUnavailable):
        ask(str(tmp_path / "none.sock"), "Plugins", {})
