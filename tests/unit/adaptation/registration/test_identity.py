"""Who a plugin says it is: what it may be called, and whether the one that has a name is still there."""

from __future__ import annotations

import threading

import nri
from nri.testing import FakeRuntime
from tests.support.adapting import RawPlugin


class Quiet(nri.Plugin):
    def __init__(self) -> None:
        self.told = threading.Event()

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if container.name == "bad":
            raise ValueError("boom")

    def shutdown(self) -> None:
        self.told.set()


def test_a_plugin_whose_predecessor_has_hung_up_takes_its_place(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, "quiet").join()
    raw.close()
    nri_runtime.add(Quiet())
    nri_runtime.start_container()
