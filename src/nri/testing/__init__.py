"""For people who test plugins, and for our own tests: a real runtime side without root, files or a container engine.

    from nri.testing import make_container, make_pod

    def test_pod_name(nri_runtime):
        reply = nri_runtime.add(PodName()).create_container(make_pod(name="web"), make_container())
        assert reply.env == {"POD_NAME": "web"}

`FakeRuntime` is the adaptation itself with plugins on socket pairs: what passes there passes the wire. `Link` is a wire
that can be made to fail. The fixture `nri_runtime` comes with the package, without a line in conftest.py.
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

# Loaded when first used: every run of pytest on a machine that has this package loads the fixtures, and with them this.
if not TYPE_CHECKING:  # a checker that sees this takes every misspelt name for one that exists
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
