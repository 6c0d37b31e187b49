"""Questions to an agent or plugin that runs, over its unix socket: HTTP, answers in JSON, bounded, with a deadline.

Next: `nri.service.http` is the other end.
"""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from nri.cli.errors import UNREACHABLE, Failure
from nri.cli.settings import Settings
from nri.config.syntax import parse_json
from nri.placement.registry import DEFAULT_POLICY, POLICIES

#: How long they may take, in seconds.
_ANSWER_S = 5.0
#: The longest answer that is read, in bytes.
MOST_BYTES = 64 << 20


class AskedProgram(NamedTuple):
    """Who is asked: in words, how it is started, and the option for its socket."""

    name: str
    start: str
    option: str


AGENT = AskedProgram("agent", "nri agent run", "--agent-socket")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("agent", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(
    path: str, target: str, timeout_s: float, query: Mapping[str, str] | None = None, whom: AskedProgram = AGENT
) -> tuple[int, Any]:
    """Ask for a target such as `/explain`; returns the status and the answer. Raises Failure if there is none."""
    if query:
        target += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    connection = UnixConnection(path, timeout_s)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        body = response.read(MOST_BYTES + 1)
    except TimeoutError:
        raise Failure(f"the {whom.name} at {path} has not answered in {timeout_s:g} s", UNREACHABLE) from None
    except PermissionError:
        raise Failure(f"cannot connect to {path}: permission denied. Run it as root", UNREACHABLE) from None
    except OSError as error:
        told = error.strerror or error
        raise Failure(
            f"cannot connect to {path}: {told}. Is the {whom.name} running? try: {whom.start}", UNREACHABLE
        ) from None
    except http.client.HTTPException:
        raise Failure(f"{path} is not the {whom.name}'s socket ({whom.option})", UNREACHABLE) from None
    finally:
        connection.close()
    if len(body) > MOST_BYTES:
        raise Failure(f"the answer of {path} is longer than {MOST_BYTES >> 20} MiB")
    try:
        return response.status, parse_json(body)
    except ValueError:
        return response.status, body.decode("utf-8", "replace")


def ask_placement(settings: Settings, folder: str, target: str, plugin: str = "", **query: str) -> Any:
    """The answer of the plugin for placement, the one that is given or runs, whose state is in a folder."""
    running = [name for name in POLICIES if os.path.exists(f"{folder}/{name}.sock")]
    name = plugin or (running[0] if running else DEFAULT_POLICY.name)
    whom = AskedProgram(f"plugin {name}", f"nri run {name}", "--state-dir")
    path = f"{folder}/{name}.sock"
    status, answer = ask(path, target, settings.timeout_s or _ANSWER_S, query, whom)
    if status == 200 and isinstance(answer, dict):
        return answer
    raise Failure(answer["error"] if isinstance(answer, dict) else f"{path} answered {status}: {str(answer).strip()}")
