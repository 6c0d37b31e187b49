import nri


class Demo(nri.Plugin):
    """Tell every container its pod's name, and give it 48 MiB."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("POD_NAME", pod.name).set_memory_limit(48 << 20)


if __name__ == "__main__":
    Demo.main()
