"""The pytest fixture of the package, which its entry point registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.testing.runtime import FakeRuntime


@pytest.fixture
def nri_runtime() -> Iterator[FakeRuntime]:
    """A runtime for a test: `nri_runtime.add(MyPlugin()).create_container(...)`. See `nri.testing.FakeRuntime`."""
    from nri.testing.runtime import FakeRuntime  # noqa: PLC0415 - every run of pytest loads this module

    with FakeRuntime() as runtime:
        yield runtime
