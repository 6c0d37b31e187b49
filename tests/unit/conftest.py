"""What units share: runtimes that have patience with plugins, so that a busy machine makes none of them late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nri.testing import FakeRuntime
from tests.support.waiting import PATIENCE_S

#: A test of what is late gives its own, shorter time.


@pytest.fixture(autouse=True, scope="session")
def _patient_runtimes() -> Iterator[None]:
    """Give plugins of `FakeRuntime` longer than the two seconds of a real runtime, unless a test says how long."""
    make = FakeRuntime.__init__

    def make_patient(self: FakeRuntime, **options: Any) -> None:
        make(self, **{"request_timeout_s": PATIENCE_S, **options})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeRuntime, "__init__", make_patient)
        yield
