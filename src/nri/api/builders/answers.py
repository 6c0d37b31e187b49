"""Types of handlers' results, for annotations: `nri.CreateAnswer` and `nri.UpdateAnswer`.

Type checkers accept them also for an `async def`. `nri.stub.handler.answers` checks the results at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update

#: The answer of `update_container`, `stop_container` and `synchronize`: a change of a container, several, or None.
UpdateAnswer: TypeAlias = Update | Eviction | Sequence[Update | Eviction] | None

#: The answer of `create_container`: changes of the container that is being created, of other containers, or both.
CreateAnswer: TypeAlias = Adjustment | UpdateAnswer | tuple[Adjustment | None, UpdateAnswer]
