"""The cause of a runtime's failure, from its output and its log."""

from pathlib import Path

from nri.engine.process.runtime_log import STDERR, cause_of, complaints

LOG = b"""{"level":"debug","msg":"nsexec[1]: ..."}
{"level":"warning","msg":"unable to oom kill"}
{"level":"error","msg":"write /proc/self/oom_score_adj: permission denied","time":"..."}
no json
[1]
{"level":"error","msg":"write /proc/self/oom_score_adj: permission denied"}
"""


def test_warnings_and_errors_are_listed_once() -> None:
    assert complaints(LOG) == ["unable to oom kill", "write /proc/self/oom_score_adj: permission denied"]


def test_messages_of_the_log_follow_the_printed_ones(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(LOG)
    assert cause_of(b"can't get final child's PID from pipe: EOF\n", tmp_path / "log") == (
        "can't get final child's PID from pipe: EOF; unable to oom kill; "
        "write /proc/self/oom_score_adj: permission denied"
    )


def test_equal_messages_of_the_log_are_omitted(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"level":"error","msg":"no such file"}\n')
    printed = b'time="2026-01-01T00:00:00Z" level=error msg="runc create failed: no such file"\n'
    assert cause_of(printed, tmp_path / "log") == "runc create failed: no such file"
    assert cause_of(b"", tmp_path / "missing") == ""


def test_a_log_in_the_output_is_read() -> None:
    assert cause_of(LOG, STDERR) == "unable to oom kill; write /proc/self/oom_score_adj: permission denied"
    assert cause_of(b"it does not exist\n", STDERR) == "it does not exist"
