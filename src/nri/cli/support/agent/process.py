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

    from nri.agent.agent import Agent
    from nri.agent.settings import AgentSettings
    from nri.cli.settings import Settings
    from nri.config.settings import Loaded
    from nri.interfaces import Reporter

__all__ = ["run", "tell_who_waits"]

_log = logging.getLogger("nri.agent")

#: After so many seconds it is told what is still waited for.
_PATIENCE_S = 2.0


def run(settings: Settings, loaded: Loaded[AgentSettings], reporters: Sequence[Reporter] = ()) -> int:
    """Run the agent until a signal; returns the exit code. Raises Failure if it cannot start."""
    config = loaded.settings
    log_to(settings, config.log_level)
    if os.geteuid() != 0 and str(config.root) == "/":
        raise Failure(
            "the agent needs root, to write cgroups. Run it with sudo, or with --root DIR, on a tree of files"
        )
    if not config.root.is_dir():
        raise Failure(f"root: there is no folder {config.root}", USAGE)
    _log.info("settings: %s", ", ".join(loaded.files) or "defaults and flags, for there is no /etc/nri/agent.toml")
    for note in loaded.notes:
        _log.warning("%s", note)
    for kind, files in (("rules", config.rules), ("pods", config.pods)):
        if files.source == "files" and not files.path.exists():
            _log.warning("there are no %s until there is %s (%s.path)", kind, files.path, kind)
    try:
        from nri.agent.agent import Agent

        agent = Agent(config, reporters=reporters)
        told = threading.Timer(_PATIENCE_S, tell_who_waits, [agent])
        told.daemon = True
        told.start()
        try:
            return agent.run()
        finally:
            told.cancel()
    except NriError as error:
        raise Failure(f"the agent cannot start: {error}", FAILED) from error


def tell_who_waits(agent: Agent) -> None:
    """Say in the log which parts of an agent do not do their work yet, and what each one waits for."""
    for row in agent.health().rows:
        if not row.ready:
            _log.warning("%s is not ready yet: %s. It goes on trying; try: nri doctor", row.part, row.state)
