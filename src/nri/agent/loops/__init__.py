"""The strategies of a profile: called by a timer, they read samples and request writes and evictions."""

from nri.agent.loops.timer import Loops

__all__ = ["Loops"]
