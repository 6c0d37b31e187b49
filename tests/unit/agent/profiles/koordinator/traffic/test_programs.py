"""Programs, run by their words."""

from __future__ import annotations

import pytest

from nri.agent.profiles.koordinator.traffic import programs
from nri.host import Unsupported


def test_a_program_is_run_by_its_words_with_its_input_and_never_by_a_shell() -> None:
    assert programs.run(["cat"], "a $HOME\n") == programs.Ran(0, "a $HOME\n", "")
    assert programs.run(["echo", "; false `id`"]).out == "; false `id`\n"


def test_one_that_cannot_be_run_or_does_not_end_has_ended_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert programs.run(["no-such-program"]).error.startswith("no-such-program: No such file")
    failed = programs.run(["sh", "-c", "printf 'bad\\033' >&2; exit 3"])
    assert (failed.code, failed.error) == (3, "bad\\x1b")
    monkeypatch.setattr(programs, "TIMEOUT_S", 0.1)
    assert programs.run(["sleep", "60"]) == programs.Ran(-1, "", "sleep did not end within 0.1 s")


def test_what_is_not_installed_is_named() -> None:
    assert programs.missing("sh") is None
    assert programs.missing("sh", "no-such-program", "nor-this") == Unsupported(
        "no-such-program and nor-this: not installed"
    )
