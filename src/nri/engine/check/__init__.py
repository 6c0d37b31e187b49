"""The engine's surroundings examined before it starts: programs, networks, kernel, with what to do about each.

Rules: looks, and changes nothing; every row says what was found, in words that stand alone. Next:
:mod:`nri.engine.check.rows`, what a row is.
"""

from nri.engine.check.examination import examine, lacking
from nri.engine.check.rows import Check

__all__ = ["Check", "examine", "lacking"]
