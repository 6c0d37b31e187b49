"""The lifetime of a connection: registration, end, and the plugin's callbacks."""

from __future__ import annotations

import threading

import pytest

import nri
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import START, Names


def test_registration_sends_name_index_and_version() -> None:
    with plugin_thread(Names(), index="42") as running:
        request = running.runtime.register()
        assert (request.plugin_name, request.plugin_idx, request.NRI_version) == ("names", "42", "v0.12.5")


def test_configure_can_read_the_runtimes_name_and_version() -> None:
    observed = []

    class Asks(Names):
        def configure(self):
            observed.append(
                (self.runtime.name, self.runtime.version, self.runtime.nri_version, self.runtime.request_timeout_s)
            )

    with plugin_thread(Asks()) as running:
        running.runtime.begin(name="containerd", version="v2.4.2", nri="v0.12.3")
    assert observed == [("containerd", "v2.4.2", "v0.12.3", 2.0)]


def test_a_stop_waits_for_the_current_request() -> None:
    started, release = threading.Event(), threading.Event()

    class Slow(nri.Plugin):
        def start_container(self, pod, container):
            started.set()
            release.wait(10)

    with plugin_thread(Slow()) as running:
        running.runtime.begin()
        running.runtime.send("StartContainer", START)
        assert started.wait(10)
        running.session.stop()
        release.set()
        assert not running.runtime.response().code
        assert running.ended() == "closed"


def test_shutdown_and_closed_are_called() -> None:
    observed = []

    class Ends(Names):
        def shutdown(self):
            observed.append("shutdown")
            raise ValueError("nobody waits for this")

        def closed(self):
            observed.append(f"closed, connected {self.runtime.connected}")

    with plugin_thread(Ends()) as running:
        running.runtime.begin()
        assert not running.runtime.call("Shutdown").code
        running.runtime.close()
        running.ended()
    assert observed == ["shutdown", "closed, connected False"]


ODD = "no\x1b[2J\nerror: forged\u202e"


@pytest.mark.parametrize(
    ("text", "shown"), [(ODD, "no\\x1b[2J\\nerror: forged\\u202e"), ("x" * 100_000, "characters)")]
)
def test_an_error_text_of_the_runtime_is_one_short_line(text: str, shown: str) -> None:
    with plugin_thread(Names()) as running:
        running.runtime.answer(running.runtime.request(), code=2, text=text)
        error = running.ended()
        assert isinstance(error, nri.errors.RegistrationError)
        assert str(error).endswith(shown)
        assert len(str(error)) < 1200
    with plugin_thread(Names()) as running:
        running.runtime.begin(name=text, version=text)
        runtime = running.plugin.runtime
        for message in (runtime.name, runtime.version):
            assert message.isprintable()
            assert len(message) <= 128
        pending = runtime.update(nri.Update("c").set_cpu_shares(2))
        running.runtime.answer(running.runtime.request(), code=2, text=text)
        with pytest.raises(nri.errors.RpcError) as failed:
            pending.result(10)
        assert failed.value.message.endswith(shown)
