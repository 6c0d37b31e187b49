"""Who a plugin says it is: what it may be called, and whether the one that has a name is still there."""

from __future__ import annotations

from nri.testing import FakeRuntime
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Quiet


def test_a_plugin_whose_predecessor_has_hung_up_takes_its_place(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, "quiet").join()
    raw.close()
    nri_runtime.add(Quiet())
    nri_runtime.start_container()
