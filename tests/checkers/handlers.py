"""Every handler, plain and async, with names of its own for what it does not use: no checker may complain."""

from collections.abc import Mapping

import nri
from nri.testing import CreateReply, FakeRuntime, StopReply, UpdateReply


class Plain(nri.Plugin):
    name = "plain"
    config_format = "toml"
    mirror = True

    def configure(self) -> nri.EventMask:
        return nri.EventMask.ALL

    def synchronize(self, _pods: list[nri.PodSandbox], _containers: list[nri.Container]) -> list[nri.Update]:
        return []

    def run_pod_sandbox(self, _pod: nri.PodSandbox) -> None: ...

    def update_pod_sandbox(self, _: nri.PodSandbox, __: nri.LinuxResources, ___: nri.LinuxResources) -> None: ...

    def create_container(self, pod: nri.PodSandbox, _: nri.Container) -> tuple[nri.Adjustment, list[nri.Update]]:
        return nri.Adjustment().add_env("A", pod.name), [nri.Update("c").set_cpu_shares(5)]

    def update_container(
        self, _: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.UpdateAnswer:
        limit = nri.memory_limit_of(resources) or nri.memory_limit_of(container)
        return nri.Update(container).set_memory_limit(limit) if limit is not None else None

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update | nri.Eviction]:
        return [nri.Update("c"), nri.Eviction(container, pod.name)]

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        if request.owner("CPUShares") == "10-a":
            raise nri.Reject("no")

    def closed(self) -> None: ...

    def shutdown(self) -> None: ...


class Async(nri.Plugin):
    async def configure(self) -> nri.EventMask | None:
        return None

    async def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> nri.UpdateAnswer:
        return [nri.Update(container) for container in containers if pods]

    async def run_pod_sandbox(self, pod: nri.PodSandbox) -> None: ...

    async def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None: ...

    @nri.when(labels={"app": True}, namespaces=["a", "!b"])
    async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.CreateAnswer:
        return nri.Adjustment(), nri.Eviction(container)

    async def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    async def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.Update | None:
        return None

    async def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update]:
        failed = await self.runtime.update([nri.Update(container)])
        return [nri.Update(update.container_id) for update in failed]

    async def validate_container_adjustment(self, request: nri.ValidationRequest) -> None: ...

    async def closed(self) -> None: ...

    async def shutdown(self) -> None: ...

    @nri.every(5)
    async def work(self) -> None:
        await self.runtime.evict("c")


def replies(runtime: FakeRuntime) -> tuple[CreateReply, UpdateReply, StopReply]:
    created = runtime.add(Plain()).add(Async(), idx="20").create_container()
    limit: int | None = created.memory_limit
    env: Mapping[str, str] = created.env
    updated = runtime.update_container(None, created.container, nri.Update("c").set_cpu_shares(5))
    shares: int | None = updated.cpu_shares
    stopped = runtime.stop_container()
    names: list[str] = [update.container_id for update in stopped.updates.values()]
    runtime.run_pod_sandbox(timeout_s=1)
    runtime.start_container(None, created.container)
    print(limit, env, shares, names, created.adjust.to_json(), created.owner("Env", "A"))
    return created, updated, stopped


async def directly() -> None:
    answer = Plain().create_container(nri.PodSandbox(name="a"), nri.Container())
    print(answer[0].env, await Async().create_container(nri.PodSandbox(), nri.Container()))
