"""Map errors to gRPC's status codes, for servers of the CRI. Requires the extra `cri`.

The first matching row is used. Servers put rows for their own errors before these rows. Other errors are Unknown, as in
containerd and CRI-O: the kubelet shows the message of such an error without the code.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import NamedTuple

import grpc

from nri import errors
from nri.text import cut

Code = grpc.StatusCode
#: Maximum length of a message. gRPC escapes it to up to three times its size, which must fit `server.METADATA_BYTES`.
TEXT_LENGTH = 1 << 18
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)


class Row(NamedTuple):
    """A kind of error with its status code. `when` restricts the row to some errors of that kind."""

    kind: type[BaseException]
    code: grpc.StatusCode
    when: Callable[[BaseException], bool] | None = None


ROWS = (
    Row(errors.RequestError, Code.INVALID_ARGUMENT),
    Row(errors.PluginRejected, Code.PERMISSION_DENIED),
    Row(errors.ValidationRejected, Code.PERMISSION_DENIED),
    Row(errors.PluginTimeout, Code.DEADLINE_EXCEEDED),
    Row(errors.PluginUnavailable, Code.UNAVAILABLE),
    Row(NotImplementedError, Code.UNIMPLEMENTED),
    Row(OSError, Code.RESOURCE_EXHAUSTED, lambda error: getattr(error, "errno", None) in _FULL),
    Row(BaseException, Code.UNKNOWN),
)


def status_of(error: BaseException, rows: Sequence[Row] = ROWS) -> tuple[grpc.StatusCode, str]:
    """The code and the message that a client receives for an error. Without a message, it is the error's class name."""
    code = next(row.code for row in rows if isinstance(error, row.kind) and (row.when is None or row.when(error)))
    return code, cut(str(error), TEXT_LENGTH) or type(error).__name__
