"""Pin containers of a namespace to reserved CPUs, and keep all other containers off them."""

import nri


class Pin(nri.Plugin):
    """Pin the containers of chosen namespaces to some CPUs, and all others to the rest."""

    failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)

    class Config:
        namespaces: list[str] = ["realtime"]  # noqa: RUF012 - a default is copied for each plugin
        cpus: str = "2-3"
        others: str = "0-1"

        def __post_init__(self) -> None:
            if self.cpus == self.others:
                raise ValueError(f"cpus and others are the same CPUs, {self.cpus}")

    config: Config

    @nri.when(namespaces="!kube-system")
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.CreateAnswer:
        if nri.cpuset_cpus_of(container) is not None:
            return None  # an earlier plugin has decided
        chosen = pod.namespace in self.config.namespaces
        return nri.Adjustment().set_cpuset_cpus(self.config.cpus if chosen else self.config.others)


if __name__ == "__main__":
    Pin.main()
