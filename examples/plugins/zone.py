"""Request the zone of each pod from a service, and pass it to its containers, with `async` and a timeout."""

import asyncio

import nri


class Zone(nri.Plugin):
    """Set the zone of marked pods in an environment variable."""

    class Config:
        default: str = "unknown"

    config: Config

    async def configure(self) -> None:
        self.zones: dict[str, str] = {}

    async def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.zones = {pod.uid: await self.look_up(pod) for pod in pods}

    @nri.when(annotations="zone.example.com")
    async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if pod.uid not in self.zones:
            async with asyncio.timeout(self.time_left()):
                self.zones[pod.uid] = await self.look_up(pod)
        return nri.Adjustment().add_env("ZONE", self.zones[pod.uid])

    async def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.zones.pop(pod.uid, None)

    async def look_up(self, pod: nri.PodSandbox) -> str:
        await asyncio.sleep(0)  # a request to somewhere
        return pod.annotations.get("zone.example.com") or self.config.default


if __name__ == "__main__":
    Zone.main()
