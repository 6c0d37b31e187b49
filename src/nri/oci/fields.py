"""The Linux fields of the OCI runtime spec (1.3.0) as one table: their types, and when they are absent.

A row has the format of the spec's Go types:

    "hostname": "text?"        omitted if it is empty, 0 or false
    "cwd": "text"              always present, even if empty
    "limit": "int64*"          optional: an empty value has a meaning
    "cpu": "Cpu*"              an object of the table, optional
    "user": "User"             an object of the table, always present
    "env": "[text]"            a list; an empty list is omitted
    "netDevices": "{NetDevice}" a map; an empty map is omitted

Fields that are not in the table are kept unchanged, at any depth.
"""

from __future__ import annotations

import functools
from typing import NamedTuple


class Field(NamedTuple):
    """A parsed row of the table."""

    kind: str  # a scalar's name, or an object's name in OBJECTS
    container: str = ""  # "[" a list, "{" a map, "" a single value
    absent: str = ""  # "?" omitted if empty, "*" optional, "" always present


@functools.cache
def fields_of(name: str) -> dict[str, Field]:
    """The fields of an object in `OBJECTS`."""
    return {key: _field(text) for key, text in OBJECTS[name].items()}


def _field(text: str) -> Field:
    if text[0] in "[{":
        return Field(text[1:-1], text[0], "?")
    return Field(text.rstrip("?*"), "", text[-1] if text[-1] in "?*" else "")


OBJECTS: dict[str, dict[str, str]] = {
    "Spec": {
        "ociVersion": "text", "process": "Process*", "root": "Root*", "hostname": "text?", "domainname": "text?",
        "mounts": "[Mount]", "hooks": "Hooks*", "annotations": "{text}", "linux": "Linux*",
    },
    "Process": {
        "terminal": "bool?", "consoleSize": "Box*", "user": "User", "args": "[text]", "env": "[text]", "cwd": "text",
        "capabilities": "Capabilities*", "rlimits": "[Rlimit]", "noNewPrivileges": "bool?", "apparmorProfile": "text?",
        "oomScoreAdj": "int64*", "scheduler": "Scheduler*", "selinuxLabel": "text?", "ioPriority": "IoPriority*",
        "execCPUAffinity": "CpuAffinity*",
    },
    "Box": {"height": "uint64", "width": "uint64"},
    "User": {
        "uid": "uint32", "gid": "uint32", "umask": "uint32*", "additionalGids": "[uint32]", "username": "text?",
    },
    "Capabilities": {
        "bounding": "[text]", "effective": "[text]", "inheritable": "[text]", "permitted": "[text]",
        "ambient": "[text]",
    },
    "Rlimit": {"type": "text", "hard": "uint64", "soft": "uint64"},
    "Scheduler": {
        "policy": "text", "nice": "int32?", "priority": "int32?", "flags": "[text]", "runtime": "uint64?",
        "deadline": "uint64?", "period": "uint64?",
    },
    "IoPriority": {"class": "text", "priority": "int64"},
    "CpuAffinity": {"initial": "text?", "final": "text?"},
    "Root": {"path": "text", "readonly": "bool?"},
    "Mount": {
        "destination": "text", "type": "text?", "source": "text?", "options": "[text]", "uidMappings": "[IdMapping]",
        "gidMappings": "[IdMapping]",
    },
    "IdMapping": {"containerID": "uint32", "hostID": "uint32", "size": "uint32"},
    "Hooks": {
        "prestart": "[Hook]", "createRuntime": "[Hook]", "createContainer": "[Hook]", "startContainer": "[Hook]",
        "poststart": "[Hook]", "poststop": "[Hook]",
    },
    "Hook": {"path": "text", "args": "[text]", "env": "[text]", "timeout": "int64*"},
    "Linux": {
        "uidMappings": "[IdMapping]", "gidMappings": "[IdMapping]", "sysctl": "{text}", "resources": "Resources*",
        "cgroupsPath": "text?", "namespaces": "[Namespace]", "devices": "[Device]", "netDevices": "{NetDevice}",
        "seccomp": "Seccomp*", "rootfsPropagation": "text?", "maskedPaths": "[text]", "readonlyPaths": "[text]",
        "mountLabel": "text?", "intelRdt": "IntelRdt*", "memoryPolicy": "MemoryPolicy*", "personality": "Personality*",
        "timeOffsets": "{TimeOffset}",
    },
    "Namespace": {"type": "text", "path": "text?"},
    "Device": {
        "path": "text", "type": "text", "major": "int64", "minor": "int64", "fileMode": "uint32*", "uid": "uint32*",
        "gid": "uint32*",
    },
    "NetDevice": {"name": "text?"},
    "Seccomp": {
        "defaultAction": "text", "defaultErrnoRet": "uint32*", "architectures": "[text]", "flags": "[text]",
        "listenerPath": "text?", "listenerMetadata": "text?", "syscalls": "[Syscall]",
    },
    "Syscall": {"names": "[text]", "action": "text", "errnoRet": "uint32*", "args": "[SyscallArgument]"},
    "SyscallArgument": {"index": "uint32", "value": "uint64", "valueTwo": "uint64?", "op": "text"},
    "IntelRdt": {
        "closID": "text?", "schemata": "[text]", "l3CacheSchema": "text?", "memBwSchema": "text?",
        "enableMonitoring": "bool?",
    },
    "MemoryPolicy": {"mode": "text", "nodes": "text", "flags": "[text]"},
    "Personality": {"domain": "text", "flags": "[text]"},
    "TimeOffset": {"secs": "int64?", "nanosecs": "uint32?"},
    "Resources": {
        "devices": "[DeviceRule]", "memory": "Memory*", "cpu": "Cpu*", "pids": "Pids*", "blockIO": "BlockIo*",
        "hugepageLimits": "[HugepageLimit]", "network": "Network*", "rdma": "{Rdma}", "unified": "{text}",
    },
    "DeviceRule": {"allow": "bool", "type": "text?", "major": "int64*", "minor": "int64*", "access": "text?"},
    "Memory": {
        "limit": "int64*", "reservation": "int64*", "swap": "int64*", "kernel": "int64*", "kernelTCP": "int64*",
        "swappiness": "uint64*", "disableOOMKiller": "bool*", "useHierarchy": "bool*", "checkBeforeUpdate": "bool*",
    },
    "Cpu": {
        "shares": "uint64*", "quota": "int64*", "burst": "uint64*", "period": "uint64*", "realtimeRuntime": "int64*",
        "realtimePeriod": "uint64*", "cpus": "text?", "mems": "text?", "idle": "int64*",
    },
    "Pids": {"limit": "int64*"},
    "BlockIo": {
        "weight": "uint16*", "leafWeight": "uint16*", "weightDevice": "[WeightDevice]",
        "throttleReadBpsDevice": "[ThrottleDevice]", "throttleWriteBpsDevice": "[ThrottleDevice]",
        "throttleReadIOPSDevice": "[ThrottleDevice]", "throttleWriteIOPSDevice": "[ThrottleDevice]",
    },
    "WeightDevice": {"major": "int64", "minor": "int64", "weight": "uint16*", "leafWeight": "uint16*"},
    "ThrottleDevice": {"major": "int64", "minor": "int64", "rate": "uint64"},
    "HugepageLimit": {"pageSize": "text", "limit": "uint64"},
    "Network": {"classID": "uint32*", "priorities": "[InterfacePriority]"},
    "InterfacePriority": {"name": "text", "priority": "uint32"},
    "Rdma": {"hcaHandles": "uint32*", "hcaObjects": "uint32*"},
}  # fmt: skip
