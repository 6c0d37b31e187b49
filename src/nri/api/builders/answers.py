"""The types of what handlers return, for annotations: `nri.CreateAnswer` and `nri.UpdateAnswer`.

One job: two names that a type checker understands, also on the left of an `async def`. Nothing at run time looks at
them; what a handler has really returned is checked in `nri.stub.handler.answers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update

__all__ = ["CreateAnswer", "UpdateAnswer"]

#: The answer of `update_container`, `stop_container` and `synchronize`: one change of a container, several, none.
UpdateAnswer: TypeAlias = Update | Eviction | Sequence[Update | Eviction] | None

#: The answer of `create_container`: changes of the container that is being created, of others, or both as a pair.
CreateAnswer: TypeAlias = Adjustment | UpdateAnswer | tuple[Adjustment | None, UpdateAnswer]
