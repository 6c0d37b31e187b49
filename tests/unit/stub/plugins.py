"""The pod, the container, the requests and the plugins that tests of the plugin's side share."""

from __future__ import annotations

import nri
from nri.api import messages as m

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
CREATE = m.CreateContainerRequest(pod=POD, container=CONTAINER)
START = m.StartContainerRequest(pod=POD, container=CONTAINER)
ADJUSTMENT = nri.Adjustment().add_env("A", "1")
UPDATE = nri.Update("other").set_cpu_shares(512)


class Names(nri.Plugin):
    """Tells containers the name of their pod."""

    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)


def creates(answer):
    """A plugin whose create_container returns, raises or awaits `answer`."""

    class Answers(nri.Plugin):
        def create_container(self, pod, container):
            return answer() if callable(answer) else answer

    return Answers()


def create_reply(running) -> m.CreateContainerResponse:
    """The plugin's reply to CREATE."""
    response = running.runtime.call("CreateContainer", CREATE)
    assert not response.code, response.message
    return m.CreateContainerResponse.FromString(response.payload)
