"""Status codes: codes of exceptions and names of codes."""

from __future__ import annotations

import pytest

from nri.errors import DeadlineExceeded, RpcError
from nri.ttrpc import Code
from nri.ttrpc.codes import code_of, status_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), Code.DEADLINE_EXCEEDED),
        (DeadlineExceeded("x"), Code.DEADLINE_EXCEEDED),
        (FileExistsError(), Code.ALREADY_EXISTS),
        (FileNotFoundError(), Code.NOT_FOUND),
        (PermissionError(), Code.PERMISSION_DENIED),
        (EOFError(), Code.OUT_OF_RANGE),
        (BrokenPipeError(), Code.FAILED_PRECONDITION),
        (ValueError(), Code.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_well_known_errors_have_the_codes_of_the_reference(error: Exception, code: int) -> None:
    assert code_of(error) == code


def test_a_status_that_a_handler_raises_is_kept() -> None:
    assert status_of(RpcError(Code.NOT_FOUND, "no luck")) == (Code.NOT_FOUND, "no luck")


def test_with_an_unknown_code_the_text_starts_with_the_exception_type() -> None:
    assert status_of(KeyError("zone")) == (Code.UNKNOWN, "KeyError: 'zone'")


def test_with_a_known_code_the_text_is_the_exceptions_text() -> None:
    assert status_of(PermissionError("not you")) == (Code.PERMISSION_DENIED, "not you")
    assert status_of(EOFError()) == (Code.OUT_OF_RANGE, "EOFError")


def test_codes_have_names_and_numbers_without_one_are_shown() -> None:
    assert str(RpcError(Code.DEADLINE_EXCEEDED, "late")) == "rpc error: code = DeadlineExceeded desc = late"
    messages = [str(RpcError(number, "")) for number in (Code.UNAUTHENTICATED, 17, -1)]
    assert messages == [f"rpc error: code = {name} desc = " for name in ("Unauthenticated", "Code(17)", "Code(-1)")]
