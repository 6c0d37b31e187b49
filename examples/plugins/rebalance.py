"""Divide the CPUs of the node again every half minute, and evict containers with too much memory."""

import nri


class Rebalance(nri.Plugin):
    """Weigh containers by how many there are, and evict those with a limit above the greatest allowed."""

    mirror = True

    class Config:
        total_shares: int = 8192
        greatest_limit_mib: int = 4096

    config: Config

    @nri.every(30)
    def rebalance(self) -> None:
        updates = self.updates()
        for failed in self.runtime.update(updates).result():
            self.log.warning("could not weigh %s", failed.container_id)

    @nri.every(60)
    async def evict_large(self) -> None:
        for container in list(self.state.containers.values()):
            if (nri.memory_limit_of(container) or 0) > self.config.greatest_limit_mib << 20:
                await self.runtime.evict(container, "its memory limit is too high")

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.UpdateAnswer:
        return [update for update in self.updates() if update.container_id != container.id]

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.runtime.update(self.updates()).add_done_callback(self.log_failures)

    def log_failures(self, pending: nri.Pending) -> None:
        try:
            self.log.info("could not weigh %d containers", len(pending.result()))
        except nri.NriError as error:
            self.log.warning("nothing was weighed: %s", error)

    def updates(self) -> list[nri.Update]:
        containers = list(self.state.containers.values())
        shares = max(2, self.config.total_shares // max(1, len(containers)))
        return [nri.Update(container).set_cpu_shares(shares) for container in containers]


if __name__ == "__main__":
    Rebalance.main()
