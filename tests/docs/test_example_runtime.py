"""The example of a runtime applies plugins' answers in the documented order."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation import OrderedUpdates, SequenceNumbers
from nri.api import messages as m
from nri.testing.plugin_connection import Attached
from nri.ttrpc.waiters import ARRIVALS

FILE = Path(__file__).parents[2] / "examples" / "runtime.py"


class Shares(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().set_cpu_shares(800)


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("example_runtime", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    runtime = module.Runtime(str(tmp_path / "nri.sock"))
    plugin = Attached(Shares(), "10", "shares", "")
    plugin.connect(runtime.nri)
    plugin.wait(runtime.nri)
    yield runtime
    plugin.stop()
    runtime.nri.stop()
    runtime.folder.cleanup()


def test_an_earlier_answer_applied_late_keeps_later_values(example: Any) -> None:
    pod, container = m.PodSandbox(id="p"), m.Container(id="c", pod_sandbox_id="p")

    def update(shares: int, number: int) -> str:
        update_ = nri.Update("c").set_cpu_shares(shares).message
        (result,) = example.update(OrderedUpdates([update_], SequenceNumbers(number)))
        return "".join(row.outcome for row in result.fields)

    def shares() -> int:
        value: int = example.specs["c"].spec["linux"]["resources"]["cpu"]["shares"]
        return value

    example.run_pod(pod)
    before = next(ARRIVALS)
    example.run_container(pod, container)
    between, after = next(ARRIVALS), next(ARRIVALS)
    assert (update(700, before), shares()) == ("stale", 800), "its creation was answered later"
    assert (update(900, after), shares()) == ("applied", 900)
    assert (update(850, between), shares()) == ("stale", 900), "another update was asked for later"
