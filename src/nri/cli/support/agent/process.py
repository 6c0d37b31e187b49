"""The agent as a program: its log, and its end in one line if it cannot start. Next: `nri.agent.agent`."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from nri.cli.errors import FAILED, USAGE, Failure
from nri.cli.support.daemon import log_to
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.agent.agent import Agent, Agents
    from nri.agent.settings import AgentSettings
    from nri.cli.settings import Settings
    from nri.config.settings import Loaded
    from nri.interfaces import Reporter

__all__ = ["run", "tell_who_waits"]

_log = logging.getLogger("nri.agent")

#: After so many seconds the log says what is still waited for.
_PATIENCE_S = 2.0


def run(settings: Settings, every: Sequence[Loaded[AgentSettings]], reporter: Reporter | None = None) -> int:
    """Run an agent, or one for each of several profiles, until a signal; returns the exit code.

    Raises:
        Failure: it cannot start.
    """
    config = every[0].settings
    log_to(settings, config.log_level)
    if os.geteuid() != 0 and str(config.root) == "/":
        raise Failure(
            "the agent needs root, to write cgroups. Run it with sudo, or with --root DIR, on a tree of files"
        )
    if not config.root.is_dir():
        raise Failure(f"root: there is no folder {config.root}", USAGE)
    for loaded in every:
        _tell_of(loaded, several=len(every) > 1)
    try:
        from nri.agent.agent import Agent, Agents

        loaded_settings = [loaded.settings for loaded in every]
        agent = Agent(config, reporter=reporter) if len(every) == 1 else Agents(loaded_settings, reporter=reporter)
        told = threading.Timer(_PATIENCE_S, tell_who_waits, [agent])
        told.daemon = True
        told.start()
        try:
            return agent.run()
        finally:
            told.cancel()
    except NriError as error:
        raise Failure(f"the agent cannot start: {error}", FAILED) from error


def _tell_of(loaded: Loaded[AgentSettings], *, several: bool) -> None:
    """Log which settings an agent has, and what of them has no effect."""
    config = loaded.settings
    files = ", ".join(loaded.files) or "defaults and flags, for there is no /etc/nri/agent.toml"
    whose = f" of profile {config.profile} at {config.socket}" if several else ""
    _log.info("settings%s: %s", whose, files)
    for note in loaded.notes:
        _log.warning("%s", note)
    for kind, source in (("rules", config.rules), ("pods", config.pods)):
        if source.source == "files" and not source.path.exists():
            _log.warning("there are no %s until there is %s (%s.path)", kind, source.path, kind)


def tell_who_waits(agent: Agent | Agents) -> None:
    """Say in the log which parts of an agent do not do their work yet, and what each one waits for."""
    for row in agent.health().rows:
        if not row.ready:
            _log.warning("%s is not ready yet: %s. It goes on trying; try: nri doctor", row.part, row.state)
