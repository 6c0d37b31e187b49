"""Host our adaptation for a program in another language: any number of them, over JSON lines on stdin and stdout.

    python -m tests.upstream.runner [--compat default|reference] [--without RULE ...]

A line with "do" is a call: "new" makes an adaptation, "start", "stop", "event", "block" and so on use it. A line with
"asked" answers a question of ours, which is a callback of the adaptation ("synchronize", "update"). Messages are
protobuf in base64. Every call runs in a thread of its own, as a runtime's requests do. ``--without`` has the default
mode do as the reference does in one respect (an attribute of `Rules`). `bridge/process.go` is the other end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import yaml

from nri.adaptation import Adaptation, Block, Rules, ValidatorConfig
from nri.api import messages as m

Line = dict[str, Any]
Mode = Literal["default", "reference"]


class Wire:
    """The lines to and from the other side."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._questions: dict[int, Callable[[Line], None]] = {}

    def write(self, line: Line) -> None:
        """Send one line."""
        data = json.dumps(line).encode() + b"\n"
        with self._writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def ask(self, adaptation: int, what: str, **fields: Any) -> Line:
        """Put a question to the runtime, and wait. RuntimeError with its text if it failed."""
        number, arrived, answers = next(self._numbers), threading.Event(), list[Line]()

        def take(line: Line) -> None:
            answers.append(line)
            arrived.set()

        self._questions[number] = take
        self.write({"ask": what, "asked": number, "on": adaptation, **fields})
        arrived.wait()
        if "error" in answers[0]:
            raise RuntimeError(answers[0]["error"]["text"])
        return answers[0]

    def answered(self, line: Line) -> None:
        """An answer has arrived."""
        self._questions.pop(line["asked"])(line)


class Hosted:
    """One adaptation, and the runtime's callbacks for it."""

    def __init__(self, wire: Wire, number: int, options: Line, compat: Mode) -> None:
        self._wire, self._number = wire, number
        self._blocks: dict[int, Block] = {}
        self._numbers = itertools.count(1)
        validator = options.pop("default_validator", None)
        if validator is not None:
            options["default_validator"] = ValidatorConfig.from_dict(yaml.safe_load(validator))
        # What the runtime has not is None, as it is nil in Go.
        callbacks: Any = {
            "synchronize": self._synchronize if options.pop("synchronize") else None,
            "update": self._update if options.pop("update") else None,
        }
        self.adaptation = Adaptation(**options, **callbacks, compat=compat, policy_path=None)

    def _synchronize(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        state = self._wire.ask(self._number, "synchronize")
        return _all(m.PodSandbox, state.get("pods")), _all(m.Container, state.get("containers"))

    def _update(self, updates: Iterable[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        answer = self._wire.ask(self._number, "update", updates=[_text(update) for update in updates])
        return _all(m.ContainerUpdate, answer.get("updates"))

    # -- calls, by the word in "do" -----------------------------------------------------------------------------------

    def start(self, _line: Line) -> Line:
        """Start it."""
        self.adaptation.start()
        return {}

    def stop(self, _line: Line) -> Line:
        """Stop it."""
        self.adaptation.stop()
        return {}

    def set_request_timeout(self, line: Line) -> Line:
        """Give plugins another time."""
        self.adaptation.set_request_timeout(line["seconds"])
        return {}

    def gone(self, line: Line) -> Line:
        """Whether no plugin of this name is connected."""
        rows = [row for row in self.adaptation.plugins if row.plugin == line["name"]]
        return {"gone": all(row.state == "gone" for row in rows)}

    def block(self, _line: Line) -> Line:
        """Keep plugins from joining."""
        number = next(self._numbers)
        self._blocks[number] = self.adaptation.block_sync()
        return {"block": number}

    def unblock(self, line: Line) -> Line:
        """Let them join again."""
        self._blocks.pop(line["block"]).release()
        return {}

    def event(self, line: Line) -> Line:
        """Relay an event; a creation that goes well here has gone well for the runtime."""
        name, pod = line["name"], _one(m.PodSandbox, line, "pod")
        container, resources = _one(m.Container, line, "container"), _one(m.LinuxResources, line, "resources")
        send, timeout = getattr(self.adaptation, name), {"timeout_s": line.get("timeout_s")}
        if name == "update_pod_sandbox":
            send(pod, _one(m.LinuxResources, line, "overhead"), resources, **timeout)
        elif name.endswith("pod_sandbox"):
            send(pod, **timeout)
        elif name == "update_container":
            reply = send(pod, container, resources, **timeout)
            reply.commit()
            return {"reply": _text(reply.message)}
        elif name == "create_container":
            reply = send(pod, container, **timeout)
            reply.commit()
            message = m.CreateContainerResponse(adjust=reply.adjust, update=reply.updates, evict=reply.evictions)
            return {"reply": _text(message)}
        elif name == "stop_container":
            reply = send(pod, container, **timeout)
            reply.commit()
            return {"reply": _text(m.StopContainerResponse(update=reply.updates))}
        else:
            send(pod, container, **timeout)
        return {}


def _text(message: Any) -> str:
    return b64encode(message.SerializeToString()).decode()


def _one(kind: Any, line: Line, key: str) -> Any:
    return kind.FromString(b64decode(line.get(key) or ""))


def _all(kind: Any, texts: list[str] | None) -> list[Any]:
    return [kind.FromString(b64decode(text)) for text in texts or ()]


def _failure(error: BaseException) -> Line:
    """An exception as a line: its text, and the classes of it and of its causes."""
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        kinds += [kind.__name__ for kind in type(cause).__mro__]
        cause = cause.__cause__
    return {"text": str(error), "kinds": kinds}


def serve(compat: Mode) -> None:
    """Read lines until there are no more."""
    wire, hosted = Wire(), dict[int, Hosted]()

    def call(line: Line) -> None:
        try:
            if line["do"] == "new":
                hosted[line["on"]] = Hosted(wire, line["on"], line["options"], compat)
                answer: Line = {}
            else:
                answer = getattr(hosted[line["on"]], line["do"])(line)
        except Exception as error:
            answer = {"error": _failure(error)}
        wire.write({"id": line["id"], **answer})

    for text in sys.stdin.buffer:
        line = json.loads(text)
        if "asked" in line:
            wire.answered(line)
        else:
            threading.Thread(target=call, args=(line,), daemon=True).start()
    for entry in hosted.values():
        entry.adaptation.stop()


def main() -> None:
    """Parse the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.runner", description=__doc__)
    parser.add_argument("--compat", choices=("default", "reference"), default="default")
    parser.add_argument("--without", nargs="*", default=[], metavar="RULE")
    options = parser.parse_args()
    logging.basicConfig(level=os.environ.get("NRI_TEST_LOG", "ERROR"), stream=sys.stderr)
    Rules.DEFAULT = replace(Rules.DEFAULT, **dict.fromkeys(options.without, False))
    serve(options.compat)


if __name__ == "__main__":
    main()
