"""The engine's exceptions."""

from __future__ import annotations

from nri.errors import NriError
from nri.text import cut


class EngineError(NriError):
    """The engine could not fulfil a request."""


class InvalidRequest(EngineError):
    """A request is invalid. Examples are an invalid image name, and a path that leads out of its root."""


class NotFound(EngineError):
    """A pod, container or image does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {cut(name)!r}")
        self.kind = kind
        self.name = name


class AlreadyExists(EngineError):
    """A name is in use. `holder` is the id of the pod or container that has it."""

    def __init__(self, kind: str, name: str, holder: str) -> None:
        super().__init__(f"the name {cut(name)!r} is already used by {kind} {holder}")
        self.kind = kind
        self.name = name
        self.holder = holder


class WrongState(EngineError):
    """The state of a pod or container does not allow this step."""

    def __init__(self, thing: str, state: str, step: str) -> None:
        super().__init__(f"{thing} is {state}: {step} is not possible")
        self.thing = thing
        self.state = state
        self.step = step


class TooMany(EngineError):
    """Too many calls of one kind are running."""

    def __init__(self, things: str, limit: int) -> None:
        super().__init__(f"too many {things}: at most {limit} are allowed at a time")
        self.limit = limit


class MissingTool(EngineError):
    """A program that the engine needs is missing on this machine."""

    def __init__(self, tool: str, message: str = "") -> None:
        super().__init__(
            message
            or f"the program {tool!r} is missing: install it, or set the program's path in the engine's configuration"
        )
        self.tool = tool


class CommandFailed(EngineError):
    """A program ended with an error. `code` is its exit code, negative for a signal; `cause` is its output."""

    def __init__(self, action: str, code: int, cause: str) -> None:
        ending = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        super().__init__(f"{action}: {cause or 'no output'} ({ending})")
        self.action = action
        self.code = code
        self.cause = cause


class CreateFailed(CommandFailed):
    """The OCI runtime has refused to create a container, for example because its program does not exist."""


class CommandTimeout(EngineError):
    """A program was still running at its deadline, and was killed."""

    def __init__(self, action: str, timeout_s: float) -> None:
        super().__init__(f"{action}: still running after {timeout_s:g} s, killed")
        self.action = action
        self.timeout_s = timeout_s
