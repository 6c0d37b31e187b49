"""The table from errors to gRPC's status codes, for what serves the CRI. Needs the extra `cri`.

Rules: the first row that fits counts; the text stays as it is, up to a length that gRPC can send. An error that has no
code of its own is Unknown, as with containerd and CRI-O: the kubelet shows the text of such an error without the code.
Servers with errors of their own put rows before these. Next: `nri.cri.server`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import NamedTuple

import grpc

from nri import errors
from nri.text import cut

__all__ = ["ROWS", "TEXT_LENGTH", "Row", "status_of"]

Code = grpc.StatusCode
#: A text is escaped into up to three bytes for each of its own, and has to fit into `server.METADATA_BYTES`.
TEXT_LENGTH = 1 << 18
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)


class Row(NamedTuple):
    """One kind of error. `when` says which of that kind, if not all."""

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
    """The code and the text that a client gets for an error. An error without a text gives its class."""
    code = next(row.code for row in rows if isinstance(error, row.kind) and (row.when is None or row.when(error)))
    return code, cut(str(error), TEXT_LENGTH) or type(error).__name__
