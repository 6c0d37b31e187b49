"""Standalone mode: a reconciler that writes to the machine, for objects without a runtime and values that drift."""

from nri.agent.transports.standalone.transport import Standalone

__all__ = ["Standalone"]
