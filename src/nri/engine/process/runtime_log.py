"""Find the cause of an OCI runtime's failure in its output and its log.

runc prints "can't get final child's PID from pipe: EOF", for example, and the cause is only in its log: "write
/proc/self/oom_score_adj: permission denied".
"""

from __future__ import annotations

from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.support.command import last_lines
from nri.files import open_regular

#: The log of a call if the disk has no space for a file.
STDERR = Path("/dev/stderr")
_MAX_LOG_BYTES = 1 << 20
_LEVELS = ("warning", "error", "fatal", "panic")


def cause_of(stderr: bytes, log: Path) -> str:
    """Return the cause in one line: the end of the output, then the errors that are only in the log."""
    if log == STDERR and (mixed := complaints(stderr)):
        return "; ".join(mixed)
    try:
        with open(log, "rb", opener=open_regular) as file:
            logged = complaints(file.read(_MAX_LOG_BYTES)) if log != STDERR else []
    except OSError:
        logged = []  # the OCI runtime failed before it wrote a log
    output = _message_text(last_lines(stderr))
    return "; ".join(dict.fromkeys([*filter(None, [output]), *(text for text in logged if text not in output)]))


def complaints(log: bytes) -> list[str]:
    """Return the warnings and errors in a log of JSON lines, without duplicates. Other lines are ignored."""
    messages = []
    for line in log.splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("level") in _LEVELS and row.get("msg"):
            messages.append(str(row["msg"]).strip())
    return list(dict.fromkeys(messages))


def _message_text(text: str) -> str:
    """Return the message of a line that runc printed: ``time="..." level=error msg="..."``."""
    _, mark, message = text.rpartition('level=error msg="')
    return message.removesuffix('"').replace('\\"', '"') if mark else text
