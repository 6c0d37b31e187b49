"""The table from the engine's errors to gRPC's status codes.

Rules: the first row that fits counts; the text stays as it is. What has no code of its own is Unknown, as with
containerd and CRI-O: the kubelet shows the text of such an error without the code.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

import grpc

from nri import errors
from nri.engine.support.errors import (
    AlreadyThere,
    CommandTimeout,
    InvalidRequest,
    NotThere,
    ToolMissing,
    TooMany,
    WrongState,
)

__all__ = ["ROWS", "Row", "status_of"]

Code = grpc.StatusCode
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)


class Row(NamedTuple):
    """One kind of error. `when` says which of that kind, if not all."""

    kind: type[BaseException]
    code: grpc.StatusCode
    when: Callable[[BaseException], bool] | None = None


ROWS = (
    Row(errors.RequestError, Code.INVALID_ARGUMENT),
    Row(InvalidRequest, Code.INVALID_ARGUMENT),
    Row(NotThere, Code.NOT_FOUND),
    Row(AlreadyThere, Code.ALREADY_EXISTS),
    Row(WrongState, Code.FAILED_PRECONDITION),
    Row(TooMany, Code.RESOURCE_EXHAUSTED),
    Row(ToolMissing, Code.FAILED_PRECONDITION),
    Row(CommandTimeout, Code.DEADLINE_EXCEEDED),  # the kubelet tells a probe that took too long by this code
    Row(errors.PluginRejected, Code.PERMISSION_DENIED),
    Row(errors.ValidationRejected, Code.PERMISSION_DENIED),
    Row(errors.PluginTimeout, Code.DEADLINE_EXCEEDED),
    Row(errors.PluginUnavailable, Code.UNAVAILABLE),
    Row(NotImplementedError, Code.UNIMPLEMENTED),
    Row(OSError, Code.RESOURCE_EXHAUSTED, lambda error: getattr(error, "errno", None) in _FULL),
    Row(BaseException, Code.UNKNOWN),
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """The code and the text that a client gets for an error. An error without a text gives its class."""
    code = next(row.code for row in ROWS if isinstance(error, row.kind) and (row.when is None or row.when(error)))
    return code, str(error) or type(error).__name__
