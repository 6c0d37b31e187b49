"""Standalone mode: write decided values to the machine, and correct values that other programs changed."""

from nri.agent.transports.standalone.transport import Standalone

__all__ = ["Standalone"]
