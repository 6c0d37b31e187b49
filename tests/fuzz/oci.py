"""Targets for what comes into OCI specs: specs themselves, files of devices and classes, the host's table of mounts.

What is documented is one SpecError for a spec, and one ConfigError for a file; both can be printed.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

from nri.api import messages as m
from nri.config import Source, parse_text
from nri.errors import ConfigError, SpecError
from nri.oci import BlockIoClasses, CdiDevices, Generator, MountTable, RdtClasses, canonical, difference, validate
from nri.oci.cdi.file import read_device_file
from nri.oci.fields import OBJECTS
from tests.fuzz import inputs
from tests.fuzz.engine import Target
from tests.fuzz.files import printed

__all__ = ["TARGETS"]

_SPEC = {
    "ociVersion": "1.2.0",
    "process": {"args": ["sh"], "cwd": "/", "env": ["A=1", "B"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 1}]},
    "root": {"path": "r"},
    "mounts": [{"destination": "/proc", "type": "proc", "options": ["ro"]}],
    "hooks": {"poststop": [{"path": "/x"}]},
    "annotations": {"a": "b"},
    "linux": {
        "namespaces": [{"type": "pid"}],
        "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3}],
        "resources": {"memory": {"limit": 5}, "devices": [{"allow": False}], "hugepageLimits": [{"pageSize": "2MB"}]},
        "sysctl": {"a": "1"},
        "seccomp": {"syscalls": [{"names": ["read"]}]},
    },
}
_SPEC_KEYS = tuple({key for fields in OBJECTS.values() for key in fields})
_ADJUSTMENT = m.ContainerAdjustment(
    env=[m.KeyValue(key="A", value="2"), m.KeyValue(key="-B")],
    mounts=[m.Mount(destination="-/proc"), m.Mount(destination="/data", type="bind", options=["rslave"])],
    rlimits=[m.POSIXRlimit(type="RLIMIT_CORE")],
    annotations={"-a": "", "c": "d"},
    hooks=m.Hooks(poststop=[m.Hook(path="/y")]),
    linux=m.LinuxContainerAdjustment(
        devices=[m.LinuxDevice(path="-/dev/x"), m.LinuxDevice(path="/dev/y", type="c")],
        namespaces=[m.LinuxNamespace(type="pid", path="/ns")],
        resources=m.LinuxResources(hugepage_limits=[m.HugepageLimit(page_size="2MB")], pids=m.LinuxPids(limit=5)),
    ),
)
_HOST = "27 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n30 27 0:25 / /data\\040x rw - tmpfs tmpfs rw\n"
_CDI = {
    "cdiVersion": "1.1.0",
    "kind": "v.com/c",
    "annotations": {"a": "b"},
    "containerEdits": {"env": ["A=1"]},
    "devices": [
        {
            "name": "a",
            "containerEdits": {
                "deviceNodes": [{"path": "/dev/null", "fileMode": "0640", "permissions": "rw"}],
                "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["bind"]}],
                "hooks": [{"hookName": "poststop", "path": "/x", "timeout": 1}],
                "netDevices": [{"hostInterfaceName": "eth1", "name": "a"}],
                "intelRdt": {"closID": "x"},
                "additionalGids": [5],
            },
        }
    ],
}
_CDI_KEYS = ("cdiVersion", "kind", "devices", "name", "containerEdits", *_CDI["devices"][0]["containerEdits"], "path")  # type: ignore[index]
_BLOCKIO = {"Classes": {"a": [{"Weight": 80}, {"Devices": ["/dev/null*", "[a-"], "ThrottleReadBps": "5M"}]}}
_RDT = {"classes": {"a": {"closID": "x", "schemata": ["L3:0=f"]}}, "partitions": {"p": {"classes": {"b": {}}}}}


def _source(data: bytes) -> Source:
    return Source("input", data.decode(errors="surrogateescape"))


def _spec(data: bytes) -> None:
    spec = parse_text(Source("input", data.decode(errors="surrogateescape"), "json"))
    for problem in validate(spec):
        printed(str(problem))
    if not isinstance(spec, dict):
        return
    before = copy.deepcopy(spec)
    assert difference(spec, before) == []
    assert canonical(canonical(spec)) == canonical(spec)
    created = Generator(spec, mounts=MountTable.parse(_HOST)).adjust(_ADJUSTMENT)
    for change in difference(spec, created):
        printed(str(change))
    assert spec == before


def _cdi(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-f-") as folder:
        path = Path(folder, "x.yaml")
        path.write_bytes(data)
        devices = CdiDevices([folder])
        read_device_file(str(path))
        for name in devices.devices:
            printed(devices.inject({"linux": {"namespaces": [{"type": "user"}]}}, [name]))


def _blockio(data: bytes) -> None:
    classes = BlockIoClasses(_source(data))
    for name in classes.names:
        printed(classes.resolve(name))


def _rdt(data: bytes) -> None:
    classes = RdtClasses(_source(data))
    for name in classes.names:
        printed(classes.resolve(name))


def _mounts(data: bytes) -> None:
    table = MountTable.parse(data.decode(errors="surrogateescape"))
    for path in ("/data x/y", "", "/", "x"):
        for by_prefix in (True, False):
            assert table.propagation(path, by_prefix=by_prefix) in (None, "", "rshared", "rslave")


TARGETS = (
    Target("spec", inputs.documents([_SPEC], _SPEC_KEYS), _spec, (ConfigError, SpecError)),
    Target("cdi", inputs.documents([_CDI], _CDI_KEYS), _cdi, (ConfigError, SpecError), 0.5),
    Target("blockio", inputs.documents([_BLOCKIO], ("Classes", "Devices", "Weight")), _blockio, (ConfigError,)),
    Target("rdt", inputs.documents([_RDT], ("classes", "closID", "schemata", "partitions")), _rdt, (ConfigError,)),
    Target("mountinfo", inputs.texts([_HOST]), _mounts),
)
