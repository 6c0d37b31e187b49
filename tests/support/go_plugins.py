"""What Go plugins answered (tests/data/plugins), and what ours answer to the same request, in a form to compare.

Both are asked through the real adaptation, so what is compared is what was on the wire.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from google.protobuf.json_format import Parse, ParseDict

import nri
from nri.api import messages as m
from nri.errors import NriError, RpcError
from nri.testing import FakeRuntime
from nri.ttrpc import Interceptor
from tests.support.pruned import pruned

DATA = Path(__file__).parents[1] / "data" / "plugins"

#: An answer that is none: the plugin refused, or its process ended.
REFUSED, DIED = "refused", "died"


class Row(NamedTuple):
    """One captured answer.

    Attributes:
        case: what was asked, in words.
        request: as it was sent.
        answer: the reply, `REFUSED` or `DIED`.
        setting: what the plugin was started with, if it was something.
    """

    case: str
    request: m.CreateContainerRequest
    answer: Any
    setting: Any


def captured(name: str) -> list[Row]:
    """All that was captured of one plugin."""
    return [_row(json.loads(line)) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def _row(results: dict[str, Any]) -> Row:
    request = ParseDict(results["request"], m.CreateContainerRequest())
    answer: Any = DIED if "died" in results else REFUSED
    if "reply" in results:
        text = json.dumps(results["reply"]).replace("-pid-PID", f"-pid-{os.getpid()}")  # logger's mark has its process
        answer = comparable(Parse(text, m.CreateContainerResponse()))
    return Row(results["case"], request, answer, results.get("flags", results.get("mountinfo")))


def comparable(reply: m.CreateContainerResponse) -> m.CreateContainerResponse:
    """A reply without empty messages, and with removals before what is set: of these the order says nothing."""
    short: m.CreateContainerResponse = pruned(reply)
    for entries, key in ((short.adjust.mounts, "destination"), (short.adjust.env, "key")):
        entries.sort(key=lambda entry: not getattr(entry, key).startswith("-"))
    return pruned(short)  # type: ignore[no-any-return]


class _Tap(Interceptor):
    """Keeps the last answer to CreateContainer, as it came."""

    answer: Any = None

    def call(self, request: Any, proceed: Callable[[Any], Any]) -> Any:
        """Pass everything on."""
        if request.method != "CreateContainer":
            return proceed(request)
        self.answer = REFUSED
        reply = self.answer = proceed(request)
        return reply


class Asked:
    """Our plugin, connected to a real adaptation. A context manager."""

    def __init__(self, plugin: nri.Plugin, config: str = "") -> None:
        self._tap = _Tap()
        self._runtime = FakeRuntime(interceptors=[self._tap])
        self._runtime.add(plugin, idx="10", config=config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._runtime.close()

    def answer(self, row: Row) -> Any:
        """What our plugin says to the request of a row; a refusal must be one on purpose, that names an annotation."""
        try:
            self._runtime.create_container(row.request.pod, row.request.container)
        except NriError as error:
            if self._tap.answer is REFUSED:
                assert isinstance(error, nri.PluginRejected), f"{row.case}: {error}"
                assert "annotation " in error.reason, f"{row.case}: {error}"
                assert not isinstance(error, RpcError)
        if self._tap.answer is REFUSED:
            return REFUSED
        return comparable(m.CreateContainerResponse.FromString(self._tap.answer))
