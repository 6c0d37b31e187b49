"""The engine's errors have a text of one line and attributes."""

from __future__ import annotations

import inspect

import pytest

from nri.engine.support import errors
from nri.engine.support.errors import EngineError
from nri.errors import NriError

CASES = [
    (errors.NotFound("pod", "web"), "no pod 'web'", {"kind": "pod", "name": "web"}),
    (errors.AlreadyExists("pod", "web", "1f"), "the name 'web' is already used by pod 1f", {"holder": "1f"}),
    (errors.WrongState("pod 1f", "stopped", "start"), "pod 1f is stopped: start is not possible", {"step": "start"}),
    (errors.TooMany("listeners", 3), "too many listeners: at most 3 are allowed at a time", {"limit": 3}),
    (errors.MissingTool("runc"), "the program 'runc' is missing", {"tool": "runc"}),
    (errors.CommandFailed("pulling a", 1, "no"), "pulling a: no (exit code 1)", {"code": 1, "cause": "no"}),
    (errors.CommandFailed("pulling a", -9, ""), "pulling a: no output (ended by signal 9)", {"code": -9}),
    (errors.CommandTimeout("pulling a", 1.5), "pulling a: still running after 1.5 s, killed", {"timeout_s": 1.5}),
]


@pytest.mark.parametrize(("error", "text", "parties"), CASES, ids=lambda value: type(value).__name__)
def test_an_error_is_one_line_that_names_its_objects(error: EngineError, text: str, parties: dict[str, object]) -> None:
    assert isinstance(error, NriError)
    assert str(error).startswith(text)
    assert "\n" not in str(error)
    assert {name: getattr(error, name) for name in parties} == parties


def test_every_error_derives_from_engine_error() -> None:
    classes = [
        value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    assert classes and all(issubclass(kind, EngineError) for kind in classes)
