"""Exceptions carry their parties and read as one line."""

from __future__ import annotations

import pytest

from nri import errors
from nri.errors import PluginClosed, PluginError, PluginRejected, PluginTimeout, PluginUnavailable
from tests.support.every_error import every


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
    error = PluginError("10-p", "NotFound: gone", code=5, message="gone")
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


@pytest.mark.parametrize("error", list(every(HOSTILE)), ids=lambda error: type(error).__qualname__)
def test_an_error_is_one_short_line_whatever_others_have_put_in(error: errors.NriError) -> None:
    assert str(error).isprintable() and 0 < len(str(error)) <= errors.TEXT_LENGTH


class OfAnAuthor(errors.Reject):
    """A class that is not of this package."""


@pytest.mark.parametrize("error", [errors.RequestError("field", [HOSTILE], "no"), OfAnAuthor(HOSTILE)])
def test_so_is_one_of_an_author_and_one_of_an_odd_value(error: errors.NriError) -> None:
    assert str(error).isprintable() and 0 < len(str(error)) <= errors.TEXT_LENGTH


def test_the_text_of_an_error_is_as_it_was_given() -> None:
    assert errors.Reject(HOSTILE).whole_text == HOSTILE
    assert errors.RpcError(5, HOSTILE).whole_text == f"rpc error: code = NotFound desc = {HOSTILE}"
    assert PluginError("10-a", HOSTILE).whole_text == f"plugin 10-a: {HOSTILE}"


def test_a_long_source_hides_neither_key_nor_reason_nor_the_next_problem() -> None:
    second = errors.ConfigError("g", "k", "second")
    text = str(errors.ConfigError(HOSTILE, "key", "reason", "suggestion", [second]))
    assert text.endswith(": key: reason (suggestion); g: k: second")


@pytest.mark.parametrize("error", [ValueError(HOSTILE), errors.Reject(HOSTILE)])
def test_an_exception_in_one_line_is_short_and_fit_for_a_terminal(error: Exception) -> None:
    assert errors.describe(error).isprintable() and len(errors.describe(error)) <= errors.TEXT_LENGTH


def test_who_broke_the_protocol_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="raise LocalProtocolError or RemoteProtocolError"):
        errors.ProtocolError("a frame too many")
    assert errors.RemoteProtocolError("a frame too many").reason == "a frame too many"
