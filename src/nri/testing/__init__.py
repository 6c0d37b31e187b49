"""Test plugins against a real runtime side, without root, files or a container engine.

    from nri.testing import FakeRuntime, make_container, make_pod

    def test_pod_name(nri_runtime: FakeRuntime) -> None:
        reply = nri_runtime.add(PodName()).create_container(make_pod(name="web"), make_container())
        assert reply.env == {"POD_NAME": "web"}

`FakeRuntime` is the real adaptation, with plugins on socket pairs. `Link` is a connection with faults. The package
registers the pytest fixture `nri_runtime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.lazy import lazy

if TYPE_CHECKING:
    from nri.testing.builders import make_container, make_pod
    from nri.testing.replay import Replay
    from nri.testing.replies import CreateReply, StopReply, UpdateReply
    from nri.testing.runtime import FakeRuntime
    from nri.testing.wire import Direction, Link

__all__ = [
    "CreateReply",
    "Direction",
    "FakeRuntime",
    "Link",
    "Replay",
    "StopReply",
    "UpdateReply",
    "make_container",
    "make_pod",
]

# Imported lazily, because every run of pytest with this package installed imports the fixtures, and so this file.
if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept every misspelt name
    __getattr__, __dir__ = lazy(
        globals(),
        {
            "builders": "make_container make_pod",
            "replay": "Replay",
            "replies": "CreateReply StopReply UpdateReply",
            "runtime": "FakeRuntime",
            "wire": "Direction Link",
        },
    )
