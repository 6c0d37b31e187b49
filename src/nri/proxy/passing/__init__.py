"""Pass calls from the kubelet's socket to the runtime's, byte by byte, without knowledge of the messages.

Metadata, statuses with their details, deadlines and cancellations are passed along.
"""

from nri.proxy.passing.backend import Backend
from nri.proxy.passing.call import Call, RuntimeFailed
from nri.proxy.passing.front import Front

__all__ = ["Backend", "Call", "Front", "RuntimeFailed"]
