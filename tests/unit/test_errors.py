"""Exceptions have attributes and a text of one line."""

from __future__ import annotations

import pytest

from nri import errors
from nri.errors import PluginClosed, PluginError, PluginRejected, PluginTimeout, PluginUnavailable
from tests.support.every_error import every


def test_all_exported_names_exist_and_derive_from_nri_error() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith(("Error", "Rejected", "Timeout"))]
    assert all(issubclass(kind, errors.NriError) for kind in kinds)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PluginError, 2), (PluginRejected, 7), (PluginTimeout, 4), (PluginClosed, 14), (PluginUnavailable, 14)],
)
def test_a_plugin_error_without_a_reply_has_code_and_message(kind: type[PluginError], code: int) -> None:
    error = kind("10-p", "no")
    assert isinstance(error, PluginError)
    assert (error.plugin, error.reason, error.code, error.message) == ("10-p", "no", code, "no")


def test_a_plugin_error_keeps_code_and_message_of_the_reply() -> None:
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
def test_describe_returns_type_and_text(error: Exception, text: str) -> None:
    assert errors.describe(error) == text


#: What a plugin, a runtime or a file may hold: it forges a line, steers the terminal, turns the text, and is long.
HOSTILE = "a\nERROR nri: forged\x1b[2J\u202e" + "b" * 100_000


@pytest.mark.parametrize("error", list(every(HOSTILE)), ids=lambda error: type(error).__qualname__)
def test_an_error_with_hostile_content_is_one_short_line(error: errors.NriError) -> None:
    assert str(error).isprintable() and 0 < len(str(error)) <= errors.TEXT_LENGTH


class OfAnAuthor(errors.Reject):
    """A class that is not of this package."""


@pytest.mark.parametrize("error", [errors.RequestError("field", [HOSTILE], "no"), OfAnAuthor(HOSTILE)])
def test_errors_with_odd_values_are_one_short_line(error: errors.NriError) -> None:
    assert str(error).isprintable() and 0 < len(str(error)) <= errors.TEXT_LENGTH


def test_the_whole_text_of_an_error_is_unchanged() -> None:
    assert errors.Reject(HOSTILE).whole_text == HOSTILE
    assert errors.RpcError(5, HOSTILE).whole_text == f"rpc error: code = NotFound desc = {HOSTILE}"
    assert PluginError("10-a", HOSTILE).whole_text == f"plugin 10-a: {HOSTILE}"


def test_a_long_source_hides_neither_key_nor_reason_nor_the_next_problem() -> None:
    second = errors.ConfigError("g", "k", "second")
    text = str(errors.ConfigError(HOSTILE, "key", "reason", "suggestion", [second]))
    assert text.endswith(": key: reason (suggestion); g: k: second")


@pytest.mark.parametrize("error", [ValueError(HOSTILE), errors.Reject(HOSTILE)])
def test_describe_returns_short_printable_text(error: Exception) -> None:
    assert errors.describe(error).isprintable() and len(errors.describe(error)) <= errors.TEXT_LENGTH


def test_a_protocol_error_requires_local_or_remote() -> None:
    with pytest.raises(TypeError, match="raise LocalProtocolError or RemoteProtocolError"):
        errors.ProtocolError("a frame too many")
    assert errors.RemoteProtocolError("a frame too many").reason == "a frame too many"
