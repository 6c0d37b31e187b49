"""Every adjustment, asked for by a plugin of the proxy and read back from a real container, on each runtime behind it.

What the table of `nri.proxy.adjust` says cannot be said has no effect, and is in the proxy's log with its plugin's
name; everything else has its effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.real.adjustments import CASES, CDI_SPEC, Case
from tests.real.plugin_process import PluginProcess
from tests.real.test_adjustments import ContainerView
from tools.runtimes.proxy import Proxied

#: Cases whose field, or a part of it, the CRI cannot say; the first word of what the log tells of them.
UNSAID: dict[str, str] = {}
#: What a runtime makes of a case that the CRI can say, where that is not its effect.
OTHERWISE: dict[tuple[str, str], str] = {}


def run_case(proxied: Proxied, folder: Path, name: str, case: Case | None) -> ContainerView:
    """A container, adjusted as the case says; not at all without a case."""
    cri = proxied.cri
    wishes = {"test/adjust": name} if case else {}
    annotations = {**wishes, "test/dir": str(folder), "test/cgroup": f"/{proxied.run_dir.name}"}
    pod = cri.run_pod(f"adjust-{name}", annotations=annotations)
    made = cri.create(
        pod, "main", env={"OF_POD": "old"}, annotations={"of-container": "1"}, memory_limit_in_bytes=64 << 20
    )
    if case is None or case.start:
        cri.start(made)
    return ContainerView(cri, made, folder, shared=case is None)


@pytest.fixture(scope="module")
def plain(proxied: Proxied, plugin: PluginProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerView]:
    """The same container without any adjustment."""
    cdi = proxied.run_dir / "cdi"
    if cdi.is_dir():
        (cdi / "test.json").write_text(json.dumps(CDI_SPEC))
    yield run_case(proxied, tmp_path_factory.mktemp("plain"), "plain", None)
    proxied.cri.remove_all()


@pytest.mark.parametrize("name", CASES)
def test_an_adjustment_has_its_effect_or_is_told(
    proxied: Proxied, runtime_name: str, plain: ContainerView, name: str, tmp_path: Path
) -> None:
    case: Any = CASES[name]
    (tmp_path / "hello").write_text("hello")
    unadjusted = case.read(plain)
    before = len(proxied.log_lines("an adjustment is left out"))
    try:
        seen = case.read(run_case(proxied, tmp_path, name, case))
        outcome = "applied" if seen == case.effect else "ignored" if seen == unadjusted else f"read back {seen!r}"
    except grpc.RpcError as error:
        outcome = f"refused: {error.details()}"
    told = proxied.log_lines("an adjustment is left out")[before:]
    print(name, "|", outcome, "|", [each.partition("left out: ")[2][:110] for each in told])
    if name in UNSAID:
        assert outcome == "ignored"
        assert any(UNSAID[name] in each and "10-recorder" in each for each in told), told
    else:
        assert outcome == OTHERWISE.get((name, runtime_name), "applied")
        assert told == []
