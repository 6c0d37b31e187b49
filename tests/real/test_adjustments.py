"""Every adjustment, asked for by a plugin on a real containerd and read back from the real container.

The outcome is measured first and then compared with the table of what each runtime supports, so an adjustment that
stops working and one that starts to work both fail a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.real.adjustments import CASES, CDI_SPEC, Case
from tests.real.bundles import wait_own_process
from tests.real.conftest import Runtime
from tests.real.support_matrix import APPLIED, IGNORED, adjustment_support
from tools.runtimes import cgroups
from tools.runtimes.cri import Cri


@dataclass
class ContainerView:
    """A container of the tests, as `adjustments.View` wants it."""

    cri: Cri
    id: str
    dir: Path
    shared: bool = False
    started: bool = True
    pid: int = 0
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.info = self.cri.info(self.id)
        self.pid = self.info.get("pid", 0)
        if self.pid and self.started:
            wait_own_process(self.pid)

    def exec(self, *command: str) -> str:
        return self.cri.exec(self.id, *command)

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        if not v2_file and not cgroups.is_v1(self.pid, controller):
            # CPU weight: its relation to shares differs between runc releases.
            return str(self.spec("linux", "resources", "cpu", "shares"))
        return cgroups.read(self.pid, controller, v1_file, v2_file)

    def spec(self, *path: str) -> Any:
        value: Any = self.info["runtimeSpec"]
        for name in path:
            value = (value or {}).get(name)
        return value

    def remove(self) -> None:
        if not self.shared:
            self.cri.stop(self.id)
            self.cri.remove(self.id)


def run_case(runtime: Runtime, folder: Path, name: str, case: Case | None) -> ContainerView:
    """A container, adjusted as the case says; not at all without a case."""
    cri = runtime.daemon.cri
    wishes = {"test/adjust": name} if case else {}
    annotations = {**wishes, "test/dir": str(folder), "test/cgroup": f"/{runtime.daemon.run_dir.name}"}
    pod = cri.run_pod(f"adjust-{name}", annotations=annotations)
    container = cri.create(
        pod, "main", env={"OF_POD": "old"}, annotations={"of-container": "1"}, memory_limit_in_bytes=64 << 20
    )
    started = case is None or case.start
    if started:
        cri.start(container)
    return ContainerView(cri, container, folder, shared=case is None, started=started)


@pytest.fixture(scope="module")
def plain(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerView]:
    """The same container without any adjustment: what "ignored" looks like."""
    (runtime.daemon.run_dir / "cdi/test.json").write_text(json.dumps(CDI_SPEC))
    yield run_case(runtime, tmp_path_factory.mktemp("plain"), "plain", None)
    runtime.daemon.cri.remove_all()


@pytest.mark.parametrize("name", CASES)
def test_an_adjustment_has_the_effect_that_the_table_says(
    runtime: Runtime, plain: ContainerView, name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    (tmp_path / "hello").write_text("hello")
    unadjusted = case.read(plain)
    assert unadjusted != case.effect, f"{name}: the case shows nothing, a plain container reads {unadjusted!r} as well"
    try:
        seen = case.read(run_case(runtime, tmp_path, name, case))
        outcome = APPLIED if seen == case.effect else IGNORED if seen == unadjusted else f"read back {seen!r}"
    except grpc.RpcError as error:
        outcome = f"refused: {error.details()}"
    expected = adjustment_support(name)[runtime.key]
    matches = outcome == expected or (expected.startswith("refused") and expected.removeprefix("refused: ") in outcome)
    assert matches, f"{case.text} on containerd {runtime.key}: expected {expected!r}, got {outcome!r}"


def test_the_table_has_a_row_for_every_adjustment() -> None:
    for name in CASES:
        assert set(adjustment_support(name)) == {"1.7", "2.1", "2.4"}, f"{name}: a cell for each runtime"
