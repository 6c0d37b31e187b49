"""The cause of an OCI runtime's failure, out of what it printed and what it wrote into its log.

Pure but for reading the log file. The runtime's last words are first, then what only its log has: runc prints
"can't get final child's PID from pipe: EOF" and writes "write /proc/self/oom_score_adj: permission denied" there.
"""

from __future__ import annotations

from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.support.command import last_words
from nri.files import open_regular

#: The log of a call for which there is no room on the disk.
STDERR = Path("/dev/stderr")
_LIMIT_BYTES = 1 << 20
_LEVELS = ("warning", "error", "fatal", "panic")


def cause_of(stderr: bytes, log: Path) -> str:
    """One line that says why: what was printed, then what the log has besides."""
    if log == STDERR and (mixed := complaints(stderr)):
        return "; ".join(mixed)
    try:
        with open(log, "rb", opener=open_regular) as file:
            logged = complaints(file.read(_LIMIT_BYTES)) if log != STDERR else []
    except OSError:
        logged = []  # it failed before it wrote one
    said = _plain(last_words(stderr))
    return "; ".join(dict.fromkeys([*filter(None, [said]), *(text for text in logged if text not in said)]))


def complaints(log: bytes) -> list[str]:
    """The warnings and errors of a log in JSON lines, each once, in order; lines of another form are left out."""
    found = []
    for line in log.splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("level") in _LEVELS and row.get("msg"):
            found.append(str(row["msg"]).strip())
    return list(dict.fromkeys(found))


def _plain(text: str) -> str:
    """The message alone, where runc printed a log line: ``time="..." level=error msg="..."``."""
    _, mark, message = text.rpartition('level=error msg="')
    return message.removesuffix('"').replace('\\"', '"') if mark else text
