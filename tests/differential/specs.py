"""Draw cases of the spec generator: any OCI spec from the table of its fields, any adjustment from the API's.

As in `generate`, a case is tame or wild, and has a density of its own. Specs may lack what every real one has, may have
names twice, and have texts that no runtime takes: what the reference makes of them is as well defined. Next: `peace`.
"""

from random import Random
from typing import Any

from nri.oci.fields import OBJECTS, Field, fields_of
from tests.differential.generate import Case, Draw
from tests.differential.vocabulary import TAME, TEXTS, WILD, WILD_ENV, WILD_KEYS

_DESTINATIONS = (*TAME["Mount.destination"], "/", "/data/", "//data/sub/..", "/a/b/c/d", "data", "")
_SOURCES = (
    *TAME["Mount.source"], "/", "/mnt", "/mnt/shared", "/mnt/shared/x", "/mnt/sharedx", "/mnt/slave",
    "/mnt/slave/inner/y",     "/mnt/both/inner", "/mnt/shared/../x", "/proc/1", "",
)  # fmt: skip

#: "Object.field" of the spec -> values, so that specs and adjustments meet on the same names.
SPEC_TAME: dict[str, tuple[Any, ...]] = {
    "Process.env": ("FOO=1", "FOO=2", "BAR=", "BAZ=a=b", "PATH=/bin", "HOME", "BARE", "=x", ""),
    "Process.cwd": ("/",),
    "Rlimit.type": TAME["POSIXRlimit.type"],
    "Mount.destination": _DESTINATIONS,
    "Mount.options": TAME["Mount.options"],
    "Namespace.type": TAME["LinuxNamespace.type"],
    "Namespace.path": TAME["LinuxNamespace.path"],
    "Device.path": TAME["LinuxDevice.path"],
    "Device.type": ("c", "b", "u", "p"),
    "DeviceRule.type": ("c", "b", "a", ""),
    "DeviceRule.access": TAME["LinuxDeviceCgroup.access"],
    "HugepageLimit.pageSize": TAME["HugepageLimit.page_size"],
    "Linux.rootfsPropagation": ("", "rprivate", "rslave", "rshared", "private", "slave", "odd"),
    "Spec.ociVersion": ("1.2.0", "1.0.2-dev"),
}
SPEC_KEYS: dict[str, tuple[str, ...]] = {
    "Spec.annotations": ("alpha", "beta.io/x", "gamma", "delta/q", "-alpha"),
    "Linux.sysctl": ("net.ipv4.ip_forward", "kernel.shm_rmid_forced", "net.core.somaxconn"),
    "Linux.netDevices": ("eth1", "ens3", "ib0"),
    "Resources.unified": ("memory.high", "cpu.weight", "io.max"),
}
_ALWAYS = frozenset({"ociVersion", "destination", "path", "type", "pageSize", "name"})
_LIMITS = {"int32": "int32", "int64": "int64", "uint32": "uint32", "uint64": "uint64"}


class _DrawSpec(Draw):
    """A spec in the making; what to adjust is drawn by the base."""

    def object(self, kind: str, density: float) -> dict[str, Any]:
        created = {}
        for key, field in fields_of(kind).items():
            likely = 0.85 if key in ("process", "linux", "resources") else 0.97 if key in _ALWAYS else density
            if self.chance(likely):
                created[key] = self._part(f"{kind}.{key}", field, density)
            elif self.wild and self.chance(0.02):
                created[key] = None
        return created

    def _part(self, name: str, field: Field, density: float) -> Any:
        if field.container == "[":
            return [self._one_of(name, field.kind, density) for _ in range(self._count(limit=4))]
        if field.container == "{":
            keys = WILD_KEYS if self.wild and self.chance(0.3) else SPEC_KEYS.get(name, TEXTS)
            return {self.one(keys): self._one_of(name, field.kind, density) for _ in range(self._count(limit=3))}
        return self._one_of(name, field.kind, density)

    def _one_of(self, name: str, kind: str, density: float) -> Any:
        if kind in OBJECTS:
            return self.object(kind, density)
        if kind == "bool":
            return self.chance(0.5)
        if kind == "text":
            if self.wild and self.chance(0.3):
                return self.one(WILD_ENV if name == "Process.env" else WILD["string"])
            return self.one(SPEC_TAME.get(name, TEXTS))
        if kind == "uint16":
            return self.random.randrange(1 << 16)
        return int(self.one(WILD[_LIMITS[kind]]))

    def sources(self, mounts: list[Any]) -> None:
        """Let the mounts of the adjustment come from places that propagate and from others."""
        for mount in mounts:
            if self.chance(0.6):
                mount["source"] = self.one(_SOURCES)
            if self.chance(0.2):
                mount["destination"] = self._marked("Mount.destination", self.one(_DESTINATIONS))


def draw_spec_case(random: Random, name: str) -> Case:
    """Draw one case. `name` becomes its id."""
    draw = _DrawSpec(random)
    adjust = draw.adjustment()
    draw.sources(adjust.get("mounts", ()))
    spec = draw.object("Spec", draw.one((0.05, 0.2, 0.5, 0.8)))
    return {"id": name, "op": "spec", "spec": spec, "adjust": adjust}
