"""What tests of histories share."""

from __future__ import annotations

import pytest

from nri.adaptation.audit.provenance import Provenance
from tests.support.histories import Clock


@pytest.fixture
def provenance() -> Provenance:
    return Provenance(clock=Clock())
