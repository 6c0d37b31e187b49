"""Limits of one answer: its size, the next request's size, and time. Its plugin is the one that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest

import nri
from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.adaptation import parts_of
from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.dispatch.event import Event, left_out_outcomes
from nri.adaptation.dispatch.invoker import Invoker
from nri.adaptation.dispatch.reply_limits import MAX_REQUEST_BYTES, check_next_request
from nri.adaptation.merge import limits
from nri.adaptation.merge.side_updates import UNKNOWN_CONTAINER, IgnoredRequest
from nri.adaptation.peers.event_request import EventRequest
from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_METHOD
from nri.errors import DeadlineExceeded, OversizedMessage, PluginError
from nri.mux import frames as mux
from nri.rules import Rules
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_response
from tests.support.adapting import RawPlugin
from tests.support.growing import big
from tests.unit.adaptation.merge.test_limits import everything

Mode = Literal["default", "reference"]
both = pytest.mark.parametrize("mode", ["default", "reference"])
ENV, ANNOTATIONS = big.rows()["env"], big.rows()["annotations"]


class Answers:
    """A built-in plugin with given answers, by event; notes what it is asked."""

    def __init__(self, **answers: Callable[[], Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def _answer(self, event: str) -> Any:
        self.asked.append(event)
        return self.answers.get(event, lambda: None)()

    def create_container(self, pod: Any, container: Any) -> Any:
        return self._answer("create")

    def update_container(self, pod: Any, container: Any, resources: Any) -> Any:
        return self._answer("update")

    def stop_container(self, pod: Any, container: Any) -> Any:
        return self._answer("stop")

    def start_container(self, pod: Any, container: Any) -> Any:
        return self._answer("start")


def node(*plugins: Answers, containers: int = 0, **more: Any) -> Adaptation:
    """A runtime with plugins 10-p0, 11-p1, ... and containers c0, c1, ..."""
    state = [make_pod(id="pod")], [make_container(id=f"c{n}", pod_sandbox_id="pod") for n in range(containers)]
    adaptation = Adaptation(
        "r", "1", synchronize=lambda: state, update=lambda updates: None, plugin_path="/nonexistent",
        disable_connections=True, policy_path=None,
        builtin=[BuiltinPlugin(f"{10 + n}", f"p{n}", entry) for n, entry in enumerate(plugins)], **more,
    )  # fmt: skip
    adaptation.start()
    return adaptation


def variables(prefix: str, count: int) -> Callable[[], m.CreateContainerResponse]:
    reply = big.adjustment(ENV, big.names(prefix, count))
    return lambda: reply


# -- event_replies_limited --------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("event", "count"), [("stop", 12_000), ("update", 12_000)])
def test_the_number_of_entries_in_a_reply_is_limited(mode: Mode, event: str, count: int) -> None:
    hostile, next_one = Answers(**{event: lambda: big.updates(count)}), Answers()
    runtime = node(hostile, next_one, containers=count, compat=mode)
    rpc = {"stop": "StopContainer", "update": "UpdateContainer"}[event]

    def run() -> Any:
        if event == "stop":
            return runtime.stop_container(make_pod(), make_container(id="c0"))
        return runtime.update_container(make_pod(), make_container(id="other"), m.LinuxResources())

    if mode == "reference":
        assert len(run().updates) == count
        assert next_one.asked == [event]
        return
    with pytest.raises(PluginError, match=f"^plugin 10-p0: its reply to {rpc} has more than 16000 entries$") as caught:
        run()
    assert (caught.value.plugin, caught.value.code) == ("10-p0", 8)
    assert next_one.asked == [], "the next plugin was asked"
    assert runtime.plugins[0].last_error == str(caught.value)
    assert runtime.plugins[0].state == "active"


def test_a_reply_above_two_mebibytes_is_refused() -> None:
    reply = big.adjustment(ANNOTATIONS, ["k"])
    reply.adjust.annotations["k"] = "x" * (2 << 20)
    runtime = node(Answers(create=lambda: reply))
    with pytest.raises(PluginError, match=r"10-p0: its reply to CreateContainer has 20971\d\d bytes, at most 2097152"):
        runtime.create_container(make_pod(), make_container())


def test_two_million_empty_entries_are_refused_before_decoding() -> None:
    answered = b"\x0a\x00" * 1_000_000
    with FakeRuntime() as runtime:
        raw = RawPlugin(runtime).join()
        helper = threading.Thread(target=lambda: (raw.wait_for(b"StopContainer"), raw.sock.sendall(reply(5, answered))))
        helper.start()
        with pytest.raises(PluginError, match="10-raw: its reply to StopContainer has more than 16000 entries"):
            runtime.stop_container()
        helper.join()
        raw.close()


def reply(stream_id: int, payload: bytes) -> bytes:
    return mux.cut(naming.PLUGIN_SERVICE_CONN, frames.pack(stream_id, frames.RESPONSE, encode_response(payload)))


def test_one_reply_can_update_a_thousand_containers() -> None:
    replies = [everything(f"c{n}") for n in range(1000)]
    runtime = node(Answers(update=lambda: replies), containers=1000)
    reply = runtime.update_container(make_pod(), make_container(id="c0"), m.LinuxResources(), timeout_s=20)
    assert len(reply.updates) == 999
    assert reply.resources.memory.limit.value == 1 << 30


def test_an_event_without_a_result_accepts_any_reply() -> None:
    event = Event(EventRequest(BY_METHOD["start_container"], make_pod(), make_container()))
    reply = b"\x0a\x00" * limits.MAX_BYTES
    with FakeRuntime(builtin=[BuiltinPlugin("10", "p0", Answers())]) as runtime:
        (peer,) = parts_of(runtime.adaptation).chain.peers
        policy = peer.event_policies[BY_METHOD["create_container"].number]
        assert policy is not None
        invoker = Invoker(Rules.DEFAULT, Reporting())
        assert invoker.check_size(peer, policy, event, reply) is reply


def test_an_oversized_shadow_reply_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nri.adaptation")
    with FakeRuntime(
        builtin=[BuiltinPlugin("10", "p0", Answers(create=variables("V", 9000)))], policy='["10-p0"]\nshadow = true\n'
    ) as runtime:
        assert not runtime.create_container().adjust.env
    assert "failed: its reply to CreateContainer has more than 16000 entries" in caplog.text


def test_a_refused_reply_is_in_the_history_without_its_content() -> None:
    runtime = node(Answers(create=variables("V", 9000)))
    with pytest.raises(PluginError):
        runtime.create_container(make_pod(), make_container(id="c1"))
    explanation = runtime.provenance.explain("c1")
    assert explanation is not None and explanation.refused is not None
    assert explanation.refused[1] == "plugin 10-p0: its reply to CreateContainer has more than 16000 entries"


# -- the deadline -----------------------------------------------------------------------------------------------------


def test_two_replies_of_forty_thousand_variables_end_before_the_deadline() -> None:
    first, second = Answers(create=variables("A", 40_000)), Answers(create=variables("B", 40_000))
    runtime = node(first, second, Answers(), compat="reference")
    reply = runtime.create_container(
        make_pod(), make_container(env={f"OWN{n}": "1" for n in range(10_000)}), timeout_s=10
    )
    assert len(reply.adjust.env) == 80_000


def test_a_deadline_that_passes_during_a_merge_is_noticed_before_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow() -> list[m.ContainerUpdate]:
        time.sleep(0.06)
        return big.updates(1)

    requests = Answers(), Answers()
    runtime = node(Answers(stop=slow), requests[0], containers=1)
    with pytest.raises(DeadlineExceeded):
        runtime.stop_container(make_pod(), make_container(id="c0"), timeout_s=0.05)
    assert requests[0].asked == []
    last = node(Answers(stop=slow), containers=1)
    with pytest.raises(DeadlineExceeded):
        last.stop_container(make_pod(), make_container(id="c0"), timeout_s=0.05)


def test_a_creation_after_its_deadline_is_not_validated() -> None:
    validated: list[Any] = []

    class Validator:
        def validate_container_adjustment(self, request: Any) -> None:
            validated.append(request)

    def slow() -> nri.Adjustment:
        time.sleep(0.06)
        return nri.Adjustment().add_env("A", "1")

    with FakeRuntime(builtin=[
        BuiltinPlugin("10", "slow", Answers(create=slow)), BuiltinPlugin("99", "v", Validator()),
    ]) as runtime:  # fmt: skip
        with pytest.raises(DeadlineExceeded):
            runtime.create_container(timeout_s=0.05)
        assert not validated


# -- who is blamed ----------------------------------------------------------------------------------------------------


class Adjusts(nri.Plugin):
    """Adds an annotation of this many bytes."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.asked = 0

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        self.asked += 1
        return nri.Adjustment().add_annotation(f"from-{id(self)}", "x" * self.size_bytes)


@both
def test_an_adjustment_that_makes_the_next_request_too_long_is_an_error_of_its_plugin(mode: Mode) -> None:
    first, second, third = Adjusts(1_500_000), Adjusts(1_500_000), Adjusts(0)
    container = make_container(annotations={"own": "x" * 1_500_000})
    with FakeRuntime(compat=mode, request_timeout_s=30) as runtime:  # machines that build take long over megabytes
        for idx, plugin in (("10", first), ("20", second), ("30", third)):
            runtime.add(plugin, idx=idx, name="p")
        if mode == "reference":
            with pytest.raises(OversizedMessage):
                runtime.create_container(None, container)
            return
        text = (
            r"^plugin 20-p: its reply to CreateContainer makes the next request 45\d+ bytes long, at most 4194048 are"
        )
        with pytest.raises(PluginError, match=text):
            runtime.create_container(None, container)
        assert (first.asked, second.asked, third.asked) == (1, 1, 0)
        assert runtime.health("20-p").last_error.startswith("plugin 20-p: its reply")
        assert runtime.health("30-p").last_error == ""


def test_a_request_too_long_from_the_start_is_not_an_error_of_a_plugin() -> None:
    with FakeRuntime() as runtime:
        runtime.add(Adjusts(10), name="p")
        with pytest.raises(OversizedMessage):
            runtime.create_container(None, make_container(annotations={"own": "x" * (4 << 20)}))
        assert runtime.health("10-p").last_error == ""
        assert runtime.create_container(None, make_container(annotations={"own": "x" * 4_100_000})).adjust.annotations


def test_an_oversized_validation_request_is_an_error_of_the_plugin_that_added_most() -> None:
    class Validator(nri.Plugin):
        def validate_container_adjustment(self, request: Any) -> None: ...

    class Variables(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return big.adjustment(ENV, big.names("V", 2000)).adjust

    with FakeRuntime() as runtime:
        runtime.add(Adjusts(1_500_000), idx="10", name="p").add(Variables(), idx="20", name="p")
        container = make_container(annotations={"own": "x" * 2_650_000})
        assert runtime.create_container(None, container).adjust.env
        runtime.add(Validator(), idx="99")
        with pytest.raises(PluginError, match="10-p: its reply to CreateContainer makes the request to validators"):
            runtime.create_container(None, container)


def test_the_request_limit_leaves_space_for_the_envelope() -> None:
    assert 4 << 20 > MAX_REQUEST_BYTES > (4 << 20) - 1024


def test_only_a_plugin_that_adds_to_an_oversized_request_is_blamed() -> None:
    data = bytes(MAX_REQUEST_BYTES + 5)
    check_next_request("CreateContainer", "10-p", data, data)
    with pytest.raises(PluginError, match="10-p: its reply to CreateContainer makes the next request"):
        check_next_request("CreateContainer", "10-p", data, bytes(MAX_REQUEST_BYTES + 6))


def test_the_first_ignored_updates_are_named_and_the_others_counted() -> None:
    ignored = [IgnoredRequest("10-p", f"c{n}", "", UNKNOWN_CONTAINER) for n in range(23)]
    rows = left_out_outcomes("own", [*ignored, IgnoredRequest("10-p", "c", "memory", "clamped")])
    assert len(rows) == 21
    assert rows[0] == ("own", 'update of container "c0" by 10-p', "left out", UNKNOWN_CONTAINER)
    assert rows[-1] == ("own", "3 more updates", "left out", "for reasons as above")
    assert len(left_out_outcomes("own", ignored[:2])) == 2
