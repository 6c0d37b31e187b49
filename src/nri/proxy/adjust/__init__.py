"""Put adjustments of plugins into CRI requests, as far as the CRI has fields for them."""

from nri.proxy.adjust.request import CLEAR_CPUS, ZERO, Owners, UnsupportedEntry, adjust, wishes, zeros
from nri.proxy.adjust.table import TABLE, CriField

__all__ = ["CLEAR_CPUS", "TABLE", "ZERO", "CriField", "Owners", "UnsupportedEntry", "adjust", "wishes", "zeros"]
