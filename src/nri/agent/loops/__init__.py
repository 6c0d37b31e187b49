"""The strategies of a profile, called by a timer: samples of the machine in, writes and evictions out."""

from nri.agent.loops.timer import Loops

__all__ = ["Loops"]
