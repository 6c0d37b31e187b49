"""The table from the engine's errors to gRPC's status codes.

Rules: as in `nri.cri.codes`, whose rows stand around the engine's own.
"""

from __future__ import annotations

import grpc

from nri.cri import codes
from nri.cri.codes import Row
from nri.engine.support.errors import (
    AlreadyThere,
    CommandTimeout,
    InvalidRequest,
    NotThere,
    ToolMissing,
    TooMany,
    WrongState,
)

__all__ = ["ROWS", "status_of"]

Code = grpc.StatusCode

ROWS = (
    codes.ROWS[0],
    Row(InvalidRequest, Code.INVALID_ARGUMENT),
    Row(NotThere, Code.NOT_FOUND),
    Row(AlreadyThere, Code.ALREADY_EXISTS),
    Row(WrongState, Code.FAILED_PRECONDITION),
    Row(TooMany, Code.RESOURCE_EXHAUSTED),
    Row(ToolMissing, Code.FAILED_PRECONDITION),
    Row(CommandTimeout, Code.DEADLINE_EXCEEDED),  # the kubelet tells a probe that took too long by this code
    *codes.ROWS[1:],
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """The code and the text that a client gets for an error. An error without a text gives its class."""
    return codes.status_of(error, ROWS)
