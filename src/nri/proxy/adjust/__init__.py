"""Adjustments put into requests of the CRI, as far as it has words for them.

Rules: a field of an adjustment is a row of the table, with how the CRI says it or why it cannot; what was not said
comes back as a list, so nothing is lost in silence. Next: `table`, then `request`.
"""

from nri.proxy.adjust.request import CLEAR_CPUS, ZERO, Owners, Unsupported, adjust, wishes, zeros
from nri.proxy.adjust.table import TABLE, CriField

__all__ = ["CLEAR_CPUS", "TABLE", "ZERO", "CriField", "Owners", "Unsupported", "adjust", "wishes", "zeros"]
