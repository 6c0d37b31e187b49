"""`hook-injector` beside the Go plugin: the same directories and containers, and the replies compared as messages.

The facts are in tests/data/plugins/hook_injector.jsonl: for each case the files of both directories, whether the Go
plugin (v0.12.2-31-g8ec8b28) has started with them, and its replies, as protobuf JSON or as the text of an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nri.api import messages as m
from nri.errors import NriError, PluginRejected
from nri.plugins.hook_injector.plugin import HookInjector
from nri.testing import FakeRuntime, make_container, make_pod

FACTS = Path(__file__).parents[3] / "data" / "plugins" / "hook_injector.jsonl"
CASES = {case["name"]: case for case in map(json.loads, FACTS.read_text().splitlines())}


def directories(case: dict[str, Any], root: Path) -> list[str]:
    """Write the files of a case; returns its directories in order of rank."""
    for where, files in case["files"].items():
        (root / where).mkdir()
        for name, text in files.items():
            (root / where / name).write_text(text)
    return [str(root / "usr"), str(root / "etc")]


def reply_to(runtime: FakeRuntime, given: dict[str, Any]) -> tuple[str, m.CreateContainerResponse]:
    """The plugin's own reply to the creation of a container, before it is merged; or the text of its refusal."""
    replies: list[bytes] = []
    provenance = runtime.adaptation.provenance
    assert provenance is not None
    record = provenance.record

    def keep(event: str, container: str, request: bytes, answers: Any, *rest: Any, **named: Any) -> None:
        if event == "CreateContainer":
            replies.extend(raw for _, raw in answers)
        record(event, container, request, answers, *rest, **named)

    provenance.record = keep  # type: ignore[method-assign]
    mounts = [m.Mount(destination=path, type="bind", source="/") for path in given.get("mounts", ())]
    container = make_container(annotations=given.get("annotations"), args=given.get("args", ()), mounts=mounts)
    try:
        runtime.create_container(make_pod(annotations=given.get("pod")), container)
    except PluginRejected as error:
        return error.message, m.CreateContainerResponse()
    finally:
        provenance.record = record  # type: ignore[method-assign]
    return "", m.CreateContainerResponse.FromString(b"".join(replies))


@pytest.mark.parametrize("name", CASES)
def test_the_reply_is_the_go_plugin_s(name: str, tmp_path: Path, nri_runtime: FakeRuntime) -> None:
    case = CASES[name]
    config = json.dumps({"hooks_dirs": directories(case, tmp_path)})
    if not case["starts"]:
        with pytest.raises(NriError, match=r"a\.json"):
            nri_runtime.add(HookInjector(), config=config)
        return
    nri_runtime.add(HookInjector(), config=config)
    for given in case["containers"]:
        said, reply = reply_to(nri_runtime, given)
        assert said == given.get("error", ""), given
        assert reply == ParseDict(given.get("reply", {}), m.CreateContainerResponse()), given


def test_the_facts_are_many_and_of_all_kinds() -> None:
    containers = [given for case in CASES.values() for given in case["containers"]]
    assert len(CASES) > 150 and len(containers) > 700
    assert sum(not case["starts"] for case in CASES.values()) > 25
    assert sum("error" in given for given in containers) > 30
    assert sum(bool(given.get("reply")) for given in containers) > 300
