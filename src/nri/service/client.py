"""Query an agent or a plugin over its unix socket, by HTTP with JSON. Size and time are limited."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from nri.config.syntax import parse_json
from nri.errors import NriError, ProgramUnreachable
from nri.user_agent import user_agent

#: The maximum size of a response body; a longer body is refused.
MAX_ANSWER_BYTES = 64 << 20


class Program(NamedTuple):
    """The program that is queried: its name, the command that starts it, and the option for its socket."""

    name: str
    start: str
    option: str


AGENT = Program("agent", "nri agent run", "--agent-socket")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("agent", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Open the unix socket; called by `http.client`."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(
    path: str, target: str, timeout_s: float, query: Mapping[str, str] | None = None, program: Program = AGENT
) -> tuple[int, Any]:
    """Query a target, for example `/explain`, and return status and content. Raises NriError without a response."""
    if query:
        target += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    connection = UnixConnection(path, timeout_s)
    try:
        connection.request("GET", target, headers={"User-Agent": user_agent()})
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES + 1)
    except TimeoutError:
        raise ProgramUnreachable(path, f"the {program.name} at {path} has not replied in {timeout_s:g} s") from None
    except PermissionError:
        raise ProgramUnreachable(
            path, f"cannot connect to {path}: permission denied. Run this command as root"
        ) from None
    except OSError as error:
        reason = error.strerror or error
        step = f"Is the {program.name} running? try: {program.start}"
        raise ProgramUnreachable(path, f"cannot connect to {path}: {reason}. {step}") from None
    except http.client.HTTPException:
        raise ProgramUnreachable(path, f"{path} is not the {program.name}'s socket ({program.option})") from None
    finally:
        connection.close()
    if len(body) > MAX_ANSWER_BYTES:
        raise NriError(f"the response from {path} is longer than {MAX_ANSWER_BYTES >> 20} MiB")
    try:
        return response.status, parse_json(body)
    except ValueError:
        return response.status, body.decode("utf-8", "replace")
