"""Errors of the engine as gRPC statuses."""

from __future__ import annotations

import errno

import grpc
import pytest

from nri import errors
from nri.engine.server.codes import ROWS, status_of
from nri.engine.support.errors import (
    AlreadyThere,
    CommandFailed,
    CommandTimeout,
    EngineError,
    InvalidRequest,
    NotThere,
    ToolMissing,
    TooMany,
    WrongState,
)

Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestError("mounts[0]", "x", "is none"), Code.INVALID_ARGUMENT),
        (InvalidRequest("no image"), Code.INVALID_ARGUMENT),
        (NotThere("pod", "p"), Code.NOT_FOUND),
        (AlreadyThere("pod", "n", "id"), Code.ALREADY_EXISTS),
        (WrongState("pod p", "stopped", "start"), Code.FAILED_PRECONDITION),
        (ToolMissing("runc"), Code.FAILED_PRECONDITION),
        (CommandTimeout("exec", 1), Code.DEADLINE_EXCEEDED),
        (TooMany("listeners", 32), Code.RESOURCE_EXHAUSTED),
        (CommandFailed("runc create", 1, "no"), Code.UNKNOWN),
        (EngineError("else"), Code.UNKNOWN),
        (errors.PluginRejected("10-p", "no"), Code.PERMISSION_DENIED),
        (errors.ValidationRejected("p", "no"), Code.PERMISSION_DENIED),
        (errors.PluginTimeout("10-p", "late"), Code.DEADLINE_EXCEEDED),
        (errors.PluginUnavailable("10-p", "absent"), Code.UNAVAILABLE),
        (errors.PluginError("10-p", "failed"), Code.UNKNOWN),
        (NotImplementedError("later"), Code.UNIMPLEMENTED),
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EIO, "I/O error"), Code.UNKNOWN),
        (ValueError("a fault of ours"), Code.UNKNOWN),
    ],
)
def test_every_error_has_its_code_and_keeps_its_text(error: Exception, code: Code) -> None:
    assert status_of(error) == (code, str(error))


def test_an_error_without_a_text_is_told_by_its_class() -> None:
    assert status_of(KeyError()) == (Code.UNKNOWN, "KeyError")


def test_no_row_is_hidden_by_one_before_it() -> None:
    for place, row in enumerate(ROWS):
        before = [each.kind for each in ROWS[:place] if each.when is None]
        assert not any(issubclass(row.kind, kind) for kind in before), row
