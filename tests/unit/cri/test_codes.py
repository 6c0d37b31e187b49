"""Exceptions as gRPC status codes: the first matching row, with the unchanged text."""

from __future__ import annotations

import errno

import grpc
import pytest

from nri import errors
from nri.cri.codes import ROWS, TEXT_LENGTH, Row, status_of

Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestError("name", "", "is empty"), Code.INVALID_ARGUMENT),
        (NotImplementedError("not here"), Code.UNIMPLEMENTED),
        (OSError(errno.ENOSPC, "full"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EPERM, "no"), Code.UNKNOWN),
        (RuntimeError("broken"), Code.UNKNOWN),
    ],
)
def test_each_kind_of_error_has_its_code_and_keeps_its_text(error: Exception, code: grpc.StatusCode) -> None:
    assert status_of(error) == (code, str(error))


def test_a_text_is_cut_to_the_length_that_grpc_can_send() -> None:
    code, text = status_of(RuntimeError("x" * 1_000_000))
    assert (code, len(text) <= TEXT_LENGTH < 1_000_000) == (Code.UNKNOWN, True)


def test_an_error_without_a_text_has_the_name_of_its_class() -> None:
    assert status_of(KeyError()) == (Code.UNKNOWN, "KeyError")


def test_rows_of_a_server_have_precedence() -> None:
    rows = (Row(LookupError, Code.NOT_FOUND), *ROWS)
    assert status_of(KeyError("x"), rows)[0] is Code.NOT_FOUND
    assert status_of(KeyError("x"))[0] is Code.UNKNOWN
