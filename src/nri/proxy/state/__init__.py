"""The proxy's knowledge of pods and containers, kept over its own restarts.

Rules: knows no plugin, no kubelet and no runtime. Next: :mod:`nri.proxy.state.records`, then `book`.
"""

from nri.proxy.state.book import Book
from nri.proxy.state.checkpoint import Checkpoint
from nri.proxy.state.records import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord

__all__ = ["CREATED", "CREATING", "REMOVED", "STOPPED", "Book", "Checkpoint", "ContainerRecord", "PodRecord"]
