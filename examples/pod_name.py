import nri


class PodName(nri.Plugin):
    """Tell every container which pod it runs in."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("POD_NAME", pod.name)


if __name__ == "__main__":
    PodName.main()
