"""Run the agent as a program until a signal arrives. `nri.agent.agent` builds the agent itself."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from nri.agent.agent import Agent, Agents
from nri.errors import ConfigError, NriError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.agent.settings import AgentSettings
    from nri.config.settings import LoadedSettings
    from nri.interfaces import Reporter

_log = logging.getLogger("nri.agent")

#: After this time, and then at this interval, the log names the parts that are not ready yet.
_REMINDER_S = 2.0


def run(every: Sequence[LoadedSettings[AgentSettings]], reporter: Reporter | None = None) -> int:
    """Run an agent for each of the settings until a signal arrives, and return the exit code.

    Raises:
        NriError: an agent cannot start.
    """
    config = every[0].settings
    if os.geteuid() != 0 and str(config.root) == "/":
        raise NriError(
            "the agent must run as root to write cgroups. Use sudo, or --root DIR for a copy of the file system"
        )
    if not config.root.is_dir():
        raise ConfigError("root", "", f"folder {config.root} not found")
    for loaded in every:
        _log_settings(loaded, several=len(every) > 1)
    try:
        loaded_settings = [loaded.settings for loaded in every]
        agent = Agent(config, reporter=reporter) if len(every) == 1 else Agents(loaded_settings, reporter=reporter)
        ended = threading.Event()
        threading.Thread(target=log_readiness, args=(agent, ended), name="nri-readiness", daemon=True).start()
        try:
            return agent.run()
        finally:
            ended.set()
    except NriError as error:
        raise NriError(f"the agent cannot start: {error}") from error


def _log_settings(loaded: LoadedSettings[AgentSettings], *, several: bool) -> None:
    """Log the source of an agent's settings, and the settings without effect."""
    config = loaded.settings
    files = ", ".join(loaded.files) or "defaults and flags; /etc/nri/agent.toml does not exist"
    suffix = f" of profile {config.profile} at {config.socket}" if several else ""
    _log.info("settings%s: %s", suffix, files)
    for note in loaded.notes:
        _log.warning("%s", note)
    for kind, source in (("rules", config.rules), ("pods", config.pods)):
        if source.source == "files" and not source.path.exists():
            _log.warning("no %s until %s exists (%s.path)", kind, source.path, kind)


def log_readiness(agent: Agent | Agents, ended: threading.Event, interval_s: float = _REMINDER_S) -> None:
    """Log which parts of an agent are not ready and the reason of each, and later when a part is ready.

    Returns when all these parts have been ready once, or when the agent has `ended`.
    """
    pending: set[str] | None = None
    while pending != set() and not ended.wait(interval_s):
        rows = agent.health().rows
        if pending is None:
            pending = {row.part for row in rows if not row.ready}
            for row in rows:
                if not row.ready:
                    _log.warning(
                        "%s is not ready yet: %s. The agent keeps trying; nri doctor shows more", row.part, row.state
                    )
        for row in rows:
            if row.ready and row.part in pending:
                pending.remove(row.part)
                _log.info("%s is ready: %s", row.part, row.state)
