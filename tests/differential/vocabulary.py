"""The values that generated cases are made of: few per field, so that plugins meet on the same keys.

`TAME` has what real plugins send, by message and field; a field that is not in it takes values by its type. `WILD`
has, by type, what a careless plugin or runtime might send. A new field of the API needs no entry. Next: `generate`.
"""

from typing import Any

TEXTS = ("1", "2", "x", "", "a=b", "y z")

#: "Message.field" -> values, in protobuf JSON (64-bit numbers as texts).
TAME: dict[str, tuple[Any, ...]] = {
    "KeyValue.key": ("FOO", "BAR", "BAZ", "PATH", "HOME", "GPU_IDS"),
    "KeyValue.value": TEXTS,
    "Mount.destination": ("/data", "/data/sub", "/etc/hosts", "/mnt/a", "/var/lib/x", "/dev/shm"),
    "Mount.type": ("bind", "tmpfs"),
    "Mount.source": ("/src/a", "/src/b", "tmpfs"),
    "Mount.options": ("ro", "rw", "rbind", "rshared", "rslave", "rprivate", "nosuid"),
    "Hook.path": ("/bin/h1", "/bin/h2"),
    "Hook.args": ("h", *TEXTS),
    "Hook.env": ("A=1",),
    "POSIXRlimit.type": ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CORE"),
    "CDIDevice.name": ("vendor.com/gpu=0", "vendor.com/gpu=1", "vendor.com/net=nic0"),
    "ContainerAdjustment.args": ("", "sh", "-c", "x", "sleep", "inf"),
    "Container.args": ("orig", "cmd"),
    "Container.env": (
        "FOO=orig", "BAR=orig", "BAZ=orig", "PATH=orig", "HOME=orig", "GPU_IDS=orig",
        "FOO=", "HOME=a=b", "BAR=again", "PATH=again", "BARE", "FOO", "-FOO=1",
    ),
    "LinuxDevice.path": ("/dev/kvm", "/dev/fuse", "/dev/null2", "/dev/nvidia0"),
    "LinuxDevice.type": ("c", "b"),
    "LinuxDeviceCgroup.type": ("a", "b", "c", ""),
    "LinuxDeviceCgroup.access": ("r", "rw", "rwm"),
    "HugepageLimit.page_size": ("2MB", "1GB", "64KB"),
    "HugepageLimit.limit": ("0", "1073741824"),
    "LinuxNamespace.type": ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time"),
    "LinuxNamespace.path": ("", "/run/ns/x"),
    "LinuxNetDevice.name": ("net0", "net1"),
    "LinuxCPU.cpus": ("0-3", "1,5", "4"),
    "LinuxCPU.mems": ("0", "0-1"),
    "LinuxPids.limit": ("-1", "0", "100", "512"),
    "LinuxRdt.remove": (True, True, False),
    "LinuxContainerAdjustment.cgroups_path": ("/kube/a", "sys.slice:x:y"),
    "OptionalRepeatedString.value": ("L3:0=ff", "MB:0=50"),
    "OptionalString.value": ("", "low", "high", "gold"),
    "ContainerEviction.reason": ("r",),
}  # fmt: skip

#: "Message.field" -> keys of a map; other maps take TEXTS.
MAP_KEYS: dict[str, tuple[str, ...]] = {
    "ContainerAdjustment.annotations": ("alpha", "beta.io/x", "gamma", "delta/q", "eps"),
    "Container.annotations": ("alpha", "beta.io/x", "gamma", "delta/q", "eps"),
    "LinuxContainerAdjustment.sysctl": ("net.ipv4.ip_forward", "kernel.shm_rmid_forced", "net.core.somaxconn"),
    "LinuxContainer.sysctl": ("net.ipv4.ip_forward", "kernel.shm_rmid_forced", "net.core.somaxconn"),
    "LinuxContainerAdjustment.net_devices": ("eth1", "ens3", "ib0"),
    "LinuxContainer.net_devices": ("eth1", "ens3", "ib0"),
    "LinuxResources.unified": ("memory.high", "cpu.weight", "io.max"),
}

#: List elements and maps whose keys may carry the removal mark, or, where it means nothing, a literal "-".
KEYS = frozenset(
    {
        "KeyValue.key", "Mount.destination", "LinuxDevice.path", "LinuxNamespace.type", "POSIXRlimit.type",
        "CDIDevice.name", "HugepageLimit.page_size", *MAP_KEYS,
    }
)  # fmt: skip

#: What else a key may be: empty, a mark alone, marked twice, with "=", beyond ASCII, with what has to be escaped.
WILD_KEYS = ("a", "b", "", "-", "--a", "-a", "a=b", "=", "b=", " ", "ß", 'q"\\', "\n", "\x7f", "\u00a0", "😀", "A\ta")
WILD_ENV = (*WILD_KEYS, "a=1", "a=", "=x", "-a=1", "--a=", "b=1=2", "a=1", "a=b=c")

#: Protobuf type name -> values.
WILD: dict[str, tuple[Any, ...]] = {
    "string": ("", "a", "-a", "b", "0-1", "ß", '"', "\n"),
    "bool": (True, False),
    "int32": (0, 1, -1, 7, -(1 << 31), (1 << 31) - 1),
    "uint32": (0, 1, 7, (1 << 32) - 1),
    "int64": ("0", "1", "-1", "7", str(-(1 << 63)), str((1 << 63) - 1)),
    "uint64": ("0", "1", "7", str((1 << 64) - 1)),
}
#: Likewise, for tame cases.
PLAIN: dict[str, tuple[Any, ...]] = {
    "string": TEXTS,
    "bool": (True, False),
    "int32": (0, 1, 4, 42),
    "uint32": (0, 1, 44, 1000),
    "int64": ("0", "-1", "512", "100000", "67108864"),
    "uint64": ("0", "2", "512", "1024", "100000"),
}

PLUGINS = ("logger", "hooks", "gpu", "numa", "qos", "limits")
WILD_PLUGINS = (*PLUGINS, "a", "a", "ß", "a-b", 'q"\\', "-", "\u00a0")
ERRORS = ("plugin says no", "", "plugins do")
