"""Exceptions carry their parties and read as one line."""

from __future__ import annotations

import pytest

from nri import errors
from nri.errors import PluginClosed, PluginError, PluginRejected, PluginTimeout, PluginUnavailable


def test_all_that_is_named_is_there_and_ours() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith(("Error", "Rejected", "Timeout"))]
    assert all(issubclass(kind, errors.NriError) for kind in kinds)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PluginError, 2), (PluginRejected, 7), (PluginTimeout, 4), (PluginClosed, 14), (PluginUnavailable, 14)],
)
def test_an_error_of_a_plugin_has_a_code_and_a_message_also_without_an_answer(
    kind: type[PluginError], code: int
) -> None:
    error = kind("10-p", "no")
    assert isinstance(error, PluginError)
    assert (error.plugin, error.reason, error.code, error.message) == ("10-p", "no", code, "no")


def test_an_answer_of_a_plugin_keeps_its_code_and_message() -> None:
    error = PluginError("10-p", "rpc error: code = NotFound desc = gone", code=5, message="gone")
    assert (error.code, error.message) == (5, "gone")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("zone"), "KeyError: 'zone'"),
        (ValueError(), "ValueError"),
        (errors.Reject("no"), "no"),
        (errors.Reject(), "Reject"),
    ],
)
def test_an_exception_in_one_line_says_what_it_is(error: Exception, text: str) -> None:
    assert errors.describe(error) == text


#: What a plugin, a runtime or a file may hold: it forges a line, steers the terminal, turns the text, and is long.
HOSTILE = "a\nERROR nri: forged\x1b[2J\u202e" + "b" * 100_000


@pytest.mark.parametrize(
    "error",
    [
        errors.ConfigError(HOSTILE, "", HOSTILE),
        errors.ConfigError("file", HOSTILE, "no", HOSTILE),
        PluginError(HOSTILE, HOSTILE),
        PluginRejected(HOSTILE, HOSTILE),
        errors.ConflictError(errors.Conflict("c", 1, "Env", HOSTILE, "10-a", "20-b")),
        errors.ValidationRejected(HOSTILE, HOSTILE),
        errors.UpdateError(HOSTILE, HOSTILE, HOSTILE),
        errors.UpdateError("10-a", "c", "no", HOSTILE),
        errors.SpecError(HOSTILE, HOSTILE),
        errors.RequestError(HOSTILE, HOSTILE, HOSTILE),
        errors.RequestError("field", [HOSTILE], "no"),
        errors.PluginTimeout("10-a", HOSTILE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_texts_of_others_in_an_error_are_one_short_line(error: Exception) -> None:
    assert str(error).isprintable() and len(str(error)) <= errors.TEXT_LENGTH


@pytest.mark.parametrize("error", [ValueError(HOSTILE), errors.Reject(HOSTILE)])
def test_an_exception_in_one_line_is_short_and_fit_for_a_terminal(error: Exception) -> None:
    assert errors.describe(error).isprintable() and len(errors.describe(error)) <= errors.TEXT_LENGTH


def test_who_broke_the_protocol_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="raise LocalProtocolError or RemoteProtocolError"):
        errors.ProtocolError("a frame too many")
    assert errors.RemoteProtocolError("a frame too many").reason == "a frame too many"
