"""Our `hook-injector` compared with the Go plugin: same directories and containers; replies are compared as messages.

The Go plugin's replies are in tests/data/plugins/hook-injector.jsonl; the README there describes the capture.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nri.api import messages as m
from nri.errors import NriError, PluginRejected
from nri.plugins.hook_injector.plugin import HookInjector
from nri.testing import FakeRuntime, make_container, make_pod

pytestmark = pytest.mark.pure  # a method of the adaptation's is replaced; the plugin itself is never compiled

FACTS = Path(__file__).parents[1] / "data" / "plugins" / "hook-injector.jsonl"
CASES = {case["name"]: case for case in map(json.loads, FACTS.read_text().splitlines())}


def directories(case: dict[str, Any], root: Path) -> list[str]:
    """Write the files of a case; returns its directories in order of rank."""
    for where, files in case["files"].items():
        (root / where).mkdir()
        for name, text in files.items():
            (root / where / name).write_text(text)
    return [str(root / "usr"), str(root / "etc")]


class Replies:
    """A runtime, and the plugin's own reply to each creation, before it is merged."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime
        self._last: list[bytes] = []
        provenance = runtime.adaptation.provenance
        assert provenance is not None
        self._record = provenance.record
        provenance.record = self._keep  # type: ignore[method-assign]

    def _keep(self, event: str, container: str, request: bytes, answers: Any, *remaining: Any, **named: Any) -> None:
        if event == "CreateContainer":
            self._last = [raw for _, raw in answers]
        self._record(event, container, request, answers, *remaining, **named)

    def ask(self, argument: dict[str, Any]) -> m.CreateContainerResponse | None:
        """Create a container; returns the reply, or None if the container was refused."""
        self._last = []
        mounts = [m.Mount(destination=path, type="bind", source="/") for path in argument.get("mounts", ())]
        container = make_container(
            annotations=argument.get("annotations"), args=argument.get("args", ()), mounts=mounts
        )
        try:
            self.runtime.create_container(make_pod(annotations=argument.get("pod")), container)
        except PluginRejected:
            return None
        return m.CreateContainerResponse.FromString(b"".join(self._last))


@pytest.fixture(scope="module")
def replies() -> Iterator[Replies]:
    with FakeRuntime(real_time=False) as runtime:
        yield Replies(runtime)


@pytest.mark.parametrize("name", CASES)
def test_our_reply_equals_the_go_plugins(name: str, tmp_path: Path, replies: Replies) -> None:
    case = CASES[name]
    config = json.dumps({"hooks_dirs": directories(case, tmp_path)})
    runtime = replies.runtime
    if not case["starts"]:
        with pytest.raises(NriError, match=r"a\.json"):
            runtime.add(HookInjector(), config=config)
        return
    runtime.add(HookInjector(), config=config)
    try:
        for argument in case["containers"]:
            reference = None if argument.get("refused") else ParseDict(argument["reply"], m.CreateContainerResponse())
            assert replies.ask(argument) == reference, argument
    finally:
        runtime.disconnect("10-hook-injector")


def test_the_recorded_cases_cover_all_kinds() -> None:
    containers = [container for case in CASES.values() for container in case["containers"]]
    assert len(CASES) > 150 and len(containers) > 600
    assert sum(not case["starts"] for case in CASES.values()) > 25
    assert sum("refused" in container for container in containers) > 30
    assert sum(bool(container.get("reply")) for container in containers) > 300
