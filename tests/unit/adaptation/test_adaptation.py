"""The adaptation as a whole: options, start and stop."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.admin import ask
from nri.adaptation.registration.listener import Listener
from nri.api.events import EVENTS, EventMask
from nri.errors import LocalProtocolError, NriError
from nri.metrics import Observer
from nri.testing import FakeRuntime, make_pod
from nri.ttrpc import Interceptor, Request
from tests.support.adapting import Leaks
from tests.support.made_plugins import Mode, Quiet, both
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for


def test_the_public_attributes_are_methods_and_rules() -> None:
    shown = {name for name in vars(make_adaptation()) if not name.startswith("_")}
    assert shown == {"rules", *(spec.method for spec in EVENTS if spec.relayed)}


@both
def test_shutdown_is_sent(mode: Mode) -> None:
    plugin = Quiet()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(plugin)
    assert plugin.told.is_set() is (mode == "default")


@both
def test_events_need_start(mode: Mode) -> None:
    adaptation = make_adaptation(compat=mode)

    def error_text() -> str:
        try:
            adaptation.run_pod_sandbox(make_pod())
        except LocalProtocolError as error:
            return str(error)
        return ""

    before = error_text()
    adaptation.start()
    between = error_text()
    adaptation.stop()
    if mode == "reference":
        assert [before, between, error_text()] == ["", "", ""]
    else:
        assert before == "RunPodSandbox: the adaptation has not been started: call start() first"
        assert (between, error_text()) == ("", "RunPodSandbox: the adaptation is stopped")


def make_adaptation(**options: Any) -> Adaptation:
    """An adaptation of a runtime without containers, plugins or socket."""
    arguments: dict[str, Any] = {
        "synchronize": lambda: ([], []),
        "update": lambda updates: None,
        "plugin_path": "/nonexistent",
        "disable_connections": True,
        "policy_path": None,
        **options,
    }
    return Adaptation("r", "1", **arguments)


@both
def test_a_second_start_is_refused_and_ends_nothing(mode: Mode, tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    adaptation = make_adaptation(compat=mode, disable_connections=False, socket_path=str(path))
    adaptation.start()
    with pytest.raises(LocalProtocolError, match=r"^start\(\) or stop\(\) was called before"):
        adaptation.start()
    assert path.is_socket()
    adaptation.run_pod_sandbox(make_pod())
    adaptation.stop()
    with pytest.raises(LocalProtocolError, match="create a new one"):
        adaptation.start()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"synchronize": None}, "failed to create NRI adaptation, nil SyncFn"),
        ({"update": None}, "failed to create NRI adaptation, nil UpdateFn"),
        ({"update": 5}, "update must be a function, not 5"),
        ({"synchronize": ([], [])}, "synchronize must be a function, not ([], [])"),
        ({"request_timeout_s": "2s"}, "request_timeout_s must be a number of seconds above 0, not '2s'"),
        ({"request_timeout_s": -1}, "request_timeout_s must be a number of seconds above 0, not -1"),
        (
            {"registration_timeout_s": float("nan")},
            "registration_timeout_s must be a number of seconds above 0, not nan",
        ),
        ({"compat": "go"}, 'compat must be "default" or "reference", not \'go\''),
        ({"fan_out": EventMask.of("CreateContainer", "StartContainer")}, "fan_out must not contain CreateContainer: "),
    ],
)
def test_invalid_options_are_refused_with_advice(options: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        make_adaptation(**options)
    assert str(caught.value).startswith(text)


class Handles:
    """A built-in plugin."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.seen: list[str] = []

    def configure(self, *_: Any) -> None:
        if self.error:
            raise RuntimeError(self.error)

    def start_container(self, *_: Any) -> None:
        self.seen.append("start")


def test_a_builtin_plugin_that_fails_to_start_fails_the_start_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    leaks = Leaks()
    adaptation = make_adaptation(
        builtin=[BuiltinPlugin("10", "in", Handles("no disk"))], disable_connections=False, socket_path=str(path)
    )
    with pytest.raises(NriError, match=r"failed to start builtin plugin 10-in: .*no disk"):
        adaptation.start()
    assert not path.exists()
    leaks.check()


def test_stopping_twice_is_the_same_as_stopping_once(tmp_path: Path) -> None:
    leaks = Leaks()
    sockets = [tmp_path / "nri.sock", tmp_path / "admin.sock"]
    adaptation = make_adaptation(disable_connections=False, socket_path=str(sockets[0]), admin_socket=str(sockets[1]))
    with adaptation:
        assert all(path.exists() for path in sockets)
    adaptation.stop()
    assert not any(path.exists() for path in sockets)
    leaks.check()


def test_the_adaptation_stops_without_a_free_thread(tmp_path: Path) -> None:
    leaks = Leaks()
    sockets = [tmp_path / "nri.sock", tmp_path / "admin.sock"]
    adaptation = make_adaptation(
        disable_connections=False, socket_path=str(sockets[0]), admin_socket=str(sockets[1]),
        builtin=[BuiltinPlugin("10", "in", Handles())],
    )  # fmt: skip
    adaptation.start()
    with no_threads():
        adaptation.stop()
    assert not any(path.exists() for path in sockets)
    leaks.check()


def test_a_stop_during_the_launch_of_plugins_ends_everything(tmp_path: Path) -> None:
    path, launched = tmp_path / "nri.sock", tmp_path / "launched"
    (tmp_path / "10-silent").write_text(f"#!/bin/sh\ntouch {launched}\nexec sleep 60\n")
    (tmp_path / "10-silent").chmod(0o755)
    leaks = Leaks()
    adaptation = make_adaptation(plugin_path=str(tmp_path), disable_connections=False, socket_path=str(path))
    errors: list[LocalProtocolError] = []

    def start() -> None:
        try:
            adaptation.start()
        except LocalProtocolError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    wait_for(launched.exists, "the plugin was launched, and is waited for")
    adaptation.stop()
    thread.join(20)
    assert [str(entry) for entry in errors] == ["stop() was called while start() was running"]
    assert not path.exists()
    with pytest.raises(LocalProtocolError, match="the adaptation is stopped"):
        adaptation.run_pod_sandbox(make_pod())
    leaks.check()


@pytest.mark.parametrize("where", ["before it listens", "when it listens"])
def test_a_stop_by_a_signal_handler_during_the_start_of_the_listener_ends_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = tmp_path / "nri.sock"
    leaks = Leaks()
    adaptation = make_adaptation(disable_connections=False, socket_path=str(path))
    start = Listener.start

    def interrupted(listener: Listener) -> None:
        if where == "before it listens":
            adaptation.stop()
        start(listener)
        adaptation.stop()

    monkeypatch.setattr(Listener, "start", interrupted)
    with pytest.raises(LocalProtocolError, match=r"stop\(\) was called while start\(\) was running"):
        adaptation.start()
    assert not path.exists()
    with pytest.raises(LocalProtocolError, match="the adaptation is stopped"):
        adaptation.run_pod_sandbox(make_pod())
    leaks.check()


def test_a_connection_gets_its_configuration() -> None:
    calls: list[str] = []

    class Configured(Quiet):
        def configure(self) -> None:
            calls.append(self.config)

    with FakeRuntime() as runtime:
        runtime.add(Configured(), config="word: own")
    assert calls == ["word: own"]


def test_plugins_are_listed_by_index_whatever_their_kind() -> None:
    builtin = [BuiltinPlugin(index, "in", Handles()) for index in ("40", "05")]
    with FakeRuntime(builtin=builtin) as runtime:
        runtime.add(Quiet(), idx="20")
        assert [row.plugin for row in runtime.plugins] == ["05-in", "20-quiet", "40-in"]


def test_ready_waits_for_the_named_plugins(nri_runtime: FakeRuntime) -> None:
    adaptation = nri_runtime.adaptation
    assert adaptation.ready(), "the policy requires none"
    assert not adaptation.ready(["10-quiet"], 0.01)
    nri_runtime.add(Quiet())
    assert adaptation.ready(["10-quiet"])
    nri_runtime.disconnect()
    assert not adaptation.ready(["10-quiet"])


def test_ready_waits_for_the_plugins_required_by_the_policy() -> None:
    with FakeRuntime(policy='["10-quiet"]\nrequired = true') as runtime:
        assert not runtime.adaptation.ready()
        runtime.add(Quiet())
        assert runtime.adaptation.ready(timeout_s=20)


def test_the_observer_receives_the_number_of_active_plugins() -> None:
    class Counts(Observer):
        def __init__(self) -> None:
            self.counts: list[int] = []

        def update_plugin_count(self, count: int) -> None:
            self.counts.append(count)

    observer = Counts()
    with FakeRuntime(observer=observer) as runtime:
        assert observer.counts == [0]
        runtime.add(Quiet())
        wait_for(lambda: observer.counts[-1] == 1, "it counts")
        runtime.disconnect()
        wait_for(lambda: observer.counts[-1] == 0, "it does not count any more")


def test_without_provenance_the_admin_socket_still_reports_plugins_and_policies(tmp_path: Path) -> None:
    path = str(tmp_path / "admin.sock")
    with FakeRuntime(provenance=False, admin_socket=path, policy='["10-quiet"]\ntimeout = 3') as runtime:
        runtime.add(Quiet())
        assert runtime.adaptation.provenance is None
        (row,) = ask(path, "Plugins", {})["plugins"]
        assert (row["plugin"], row["state"], row["policy"]["timeout"]) == ("10-quiet", "active", 3.0)


def test_interceptors_see_the_calls_of_every_plugin() -> None:
    calls: list[str] = []

    class Notes(Interceptor):
        def call(self, request: Request, proceed: Any) -> bytes:
            calls.append(request.method)
            reply: bytes = proceed(request)
            return reply

    with FakeRuntime(interceptors=[Notes()]) as runtime:
        runtime.add(Quiet())
        runtime.start_container()
    assert calls == ["Configure", "Synchronize", "StartContainer", "Shutdown"]


def test_without_connections_there_is_no_socket_and_builtin_plugins_work(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    adaptation = Adaptation(
        "node", "1", synchronize=lambda: ([], []), update=lambda _: None, socket_path=str(path), policy_path=None,
        disable_connections=True, plugin_path=str(tmp_path), builtin=[BuiltinPlugin("10", "b", object())],
    )  # fmt: skip
    with adaptation:
        assert not path.exists()
        assert [row.plugin for row in adaptation.plugins] == ["10-b"]
