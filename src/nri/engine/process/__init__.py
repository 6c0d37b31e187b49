"""Processes of containers. An OCI runtime creates them, conmon monitors them, and a restarted engine finds them again.

Every wait has a deadline. An error names the cause, even if the cause is only in the OCI runtime's log.
"""

from nri.engine.process.attach import Attachment
from nri.engine.process.conmon import PERSIST, Conmon, ContainerPids
from nri.engine.process.counters import Counters, Transfer, read_counters
from nri.engine.process.execution import ExecResult, Execution, exec_sync
from nri.engine.process.exits import Exit, Exits
from nri.engine.process.runtime import Runtime, RuntimeState
from nri.engine.process.signals import send
from nri.engine.process.stats import ContainerStats, InterfaceStats, read_interfaces, read_stats
from nri.engine.process.streams import StreamOwner, chown_streams, stream_owner

__all__ = [
    "PERSIST",
    "Attachment",
    "Conmon",
    "ContainerPids",
    "ContainerStats",
    "Counters",
    "ExecResult",
    "Execution",
    "Exit",
    "Exits",
    "InterfaceStats",
    "Runtime",
    "RuntimeState",
    "StreamOwner",
    "Transfer",
    "chown_streams",
    "exec_sync",
    "read_counters",
    "read_interfaces",
    "read_stats",
    "send",
    "stream_owner",
]
