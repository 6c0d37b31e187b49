"""The status codes of ttRPC, which are gRPC's. Plain integers, because importing `enum` would slow a plugin's start."""

from __future__ import annotations

from nri.errors import DeadlineExceeded, RpcError, describe


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


# The Go library's codes for common exceptions; all others are UNKNOWN. The first match is used.
_CODE_BY_EXCEPTION: tuple[tuple[type[BaseException], int], ...] = (
    (TimeoutError, Code.DEADLINE_EXCEEDED),
    (DeadlineExceeded, Code.DEADLINE_EXCEEDED),
    (FileExistsError, Code.ALREADY_EXISTS),
    (FileNotFoundError, Code.NOT_FOUND),
    (PermissionError, Code.PERMISSION_DENIED),
    (EOFError, Code.OUT_OF_RANGE),
    (BrokenPipeError, Code.FAILED_PRECONDITION),
)


def code_of(error: BaseException) -> int:
    """The status code for an exception of a handler."""
    for kind, code in _CODE_BY_EXCEPTION:
        if isinstance(error, kind):
            return code
    return Code.UNKNOWN


def status_of(error: Exception) -> tuple[int, str]:
    """The status code and text for an exception of a handler.

    With code UNKNOWN, the text begins with the exception's type: `KeyError: 'zone'`.
    """
    if isinstance(error, RpcError):
        return error.code, error.message
    code = code_of(error)
    return code, describe(error) if code == Code.UNKNOWN else str(error) or type(error).__name__
