"""`--record`: the recorder of the options, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nri.cli.errors import Failure
from nri.cli.support.recording import record_options, recorded
from nri.trace.history import Note, Trace


def run(*arguments: str, policy_path: str | None = None) -> list[object]:
    """Run a verb that has the options; what it got besides, and how many recorders."""
    objects: list[object] = []

    @click.command()
    @click.option("--own")
    @record_options
    def verb(**options: Any) -> None:
        with recorded(options, "nri verb", policy_path=policy_path, compat="default") as reporters:
            objects.extend((options, len(reporters)))

    CliRunner().invoke(verb, arguments, catch_exceptions=False, standalone_mode=False)
    return objects


def opened(folder: Path) -> dict[str, str]:
    note = next(Trace(folder).items())
    assert isinstance(note, Note)
    return note.about


def test_without_the_option_no_recorder_is_created() -> None:
    assert run("--own", "x") == [{"own": "x"}, 0]


@pytest.mark.parametrize(("words", "redact"), [([], "values"), (["--redact", "none"], "none")])
def test_the_trace_describes_its_command(tmp_path: Path, words: list[str], redact: str) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("# mine")
    assert run("--record", str(tmp_path / "t"), *words, policy_path=str(policy)) == [{"own": None}, 1]
    about = opened(tmp_path / "t")
    assert (about["command"], about["compat"], about["redact"]) == ("nri verb", "default", redact)
    assert about["policy"] == "# mine"


@pytest.mark.parametrize("content", [b"\xff\xff", b"x" * ((1 << 20) + 1), None])
def test_an_unreadable_policy_does_not_prevent_recording(tmp_path: Path, content: bytes | None) -> None:
    policy = tmp_path / "policy.toml"
    if content is not None:
        policy.write_bytes(content)
    assert run("--record", str(tmp_path / "t"), policy_path=str(policy))[1] == 1
    assert "policy" not in opened(tmp_path / "t")


def test_a_folder_that_cannot_be_created_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match=f"--record {tmp_path}/file: is a file: specify a folder"):
        run("--record", str(tmp_path / "file"))
