"""Status codes of ttRPC: those of gRPC. Plain integers, because `enum` would cost a plugin's start."""

from __future__ import annotations

from nri.errors import DeadlineExceeded, RpcError, describe

__all__ = ["Code", "code_of", "status_of"]


class Code:
    """The status codes by name; `Code.UNIMPLEMENTED == 12`."""

    OK = 0
    CANCELED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# The reference's codes of well-known errors of a handler; every other one is UNKNOWN. First match wins.
_OF_EXCEPTION: tuple[tuple[type[BaseException], int], ...] = (
    (TimeoutError, Code.DEADLINE_EXCEEDED),
    (DeadlineExceeded, Code.DEADLINE_EXCEEDED),
    (FileExistsError, Code.ALREADY_EXISTS),
    (FileNotFoundError, Code.NOT_FOUND),
    (PermissionError, Code.PERMISSION_DENIED),
    (EOFError, Code.OUT_OF_RANGE),
    (BrokenPipeError, Code.FAILED_PRECONDITION),
)


def code_of(error: BaseException) -> int:
    """The status code that a server answers with when a handler raises `error`."""
    for kind, code in _OF_EXCEPTION:
        if isinstance(error, kind):
            return code
    return Code.UNKNOWN


def status_of(error: Exception) -> tuple[int, str]:
    """Code and text that a server answers with when a handler raises `error`.

    Where the code says nothing, the text begins with the exception's type: `KeyError: 'zone'`.
    """
    if isinstance(error, RpcError):
        return error.code, error.message
    code = code_of(error)
    return code, describe(error) if code == Code.UNKNOWN else str(error) or type(error).__name__
