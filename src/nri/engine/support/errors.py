"""The engine's exceptions: one class for each status that a CRI client distinguishes.

A text is one line that names the object and the reason. The table from these classes to gRPC's status codes is in
`nri.engine.server.methods`.
"""

from __future__ import annotations

from nri.errors import NriError
from nri.text import cut


class EngineError(NriError):
    """The engine could not do what was asked."""


class InvalidRequest(EngineError):
    """A request asks for something that cannot be: an image's name without letters, a path that leads out of a root."""


class NotFound(EngineError):
    """A pod, container or image does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {cut(name)!r}")
        self.kind = kind
        self.name = name


class AlreadyExists(EngineError):
    """A name is taken. `holder` is the id of the pod or container that has it."""

    def __init__(self, kind: str, name: str, holder: str) -> None:
        super().__init__(f"the name {cut(name)!r} is taken by {kind} {holder}")
        self.kind = kind
        self.name = name
        self.holder = holder


class WrongState(EngineError):
    """A pod or container is not in a state in which this can be done."""

    def __init__(self, thing: str, state: str, step: str) -> None:
        super().__init__(f"{thing} is {state}: {step} is not possible")
        self.thing = thing
        self.state = state
        self.step = step


class TooMany(EngineError):
    """A limit is reached: `limit` at a time."""

    def __init__(self, things: str, limit: int) -> None:
        super().__init__(f"too many {things}: there may be {limit} at a time")
        self.limit = limit


class MissingTool(EngineError):
    """A program that the engine needs is not on this machine."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"the program {tool!r} is missing: install it, or name its path in the engine's configuration")
        self.tool = tool


class CommandFailed(EngineError):
    """A program ended with an error. `code` is its exit code, negative for a signal; `cause` is what it said."""

    def __init__(self, action: str, code: int, cause: str) -> None:
        ending = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        super().__init__(f"{action}: {cause or 'no output'} ({ending})")
        self.action = action
        self.code = code
        self.cause = cause


class CommandTimeout(EngineError):
    """A program was still running at its deadline, and was killed."""

    def __init__(self, action: str, timeout_s: float) -> None:
        super().__init__(f"{action}: still running after {timeout_s:g} s, killed")
        self.action = action
        self.timeout_s = timeout_s
