"""The choice of the hook server."""

from nri.proxy.hook_servers import dispatch
from nri.proxy.hook_servers.dispatch import HookServer

FIRST = HookServer("one", ("PostStopContainer", "PreStartContainer"), "Fail")


SECOND = HookServer("two", ("PreStartContainer",), "Ignore")


def test_the_first_server_with_the_stage_is_called() -> None:
    assert dispatch.chosen([FIRST, SECOND], "StartContainer") == (FIRST, "PreStartContainer")
    assert dispatch.chosen([FIRST, SECOND], "StartContainer", unreachable=["one"]) == (SECOND, "PreStartContainer")
    assert dispatch.chosen([FIRST, SECOND], "StopContainer", dispatch.POST) == (FIRST, "PostStopContainer")
    assert dispatch.chosen([FIRST, SECOND], "StopContainer") is None
    assert dispatch.chosen([HookServer("x", ("PreRemoveRunPodSandbox",))], "RunPodSandbox") is None
