"""Client of the placement plugin, over the socket in its state folder."""

from __future__ import annotations

import os
from typing import Any

from nri.errors import NriError
from nri.placement.registry import DEFAULT_POLICY, POLICIES
from nri.service.client import Program, ask

_TIMEOUT_S = 5.0


def ask_placement(folder: str, target: str, timeout_s: float | None, plugin: str = "", **query: str) -> Any:
    """Query the placement plugin whose state is in `folder`.

    Args:
        plugin: the plugin's name; without a name, the plugin whose socket exists.

    Raises:
        NriError: the plugin does not run, or its answer is an error.
    """
    running = [name for name in POLICIES if os.path.exists(f"{folder}/{name}.sock")]
    name = plugin or (running[0] if running else DEFAULT_POLICY.name)
    path = f"{folder}/{name}.sock"
    program = Program(f"plugin {name}", f"nri run {name}", "--state-dir")
    status, answer = ask(path, target, timeout_s or _TIMEOUT_S, query, program)
    if status == 200 and isinstance(answer, dict):
        return answer
    raise NriError(answer["error"] if isinstance(answer, dict) else f"{path} answered {status}: {str(answer).strip()}")
