import nri


class Scratch(nri.Plugin):
    """Give every container 16 MiB of scratch space in memory, and at most 256 open files."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        scratch = nri.Adjustment().add_mount("/scratch", "tmpfs", "tmpfs", ["size=16m", "mode=1777"])
        return scratch.add_rlimit("RLIMIT_NOFILE", 256, 256)


if __name__ == "__main__":
    Scratch.main()
