"""Every field that a plugin can set has a setter, and every Go setter has ours."""

import importlib
import json
from pathlib import Path

from nri.api import go_names
from nri.api import messages as m
from nri.api.adjustment import Adjustment
from nri.api.linux import LinuxAdjustment
from nri.api.resources import Resources
from nri.api.update import Update

TABLE = json.loads((Path(__file__).parents[2] / "data" / "nri-api-fields.json").read_text())
FIELDS = {message["name"]: message["fields"] for message in TABLE["messages"]}

SECCOMP = m.LinuxSeccomp(
    default_action="SCMP_ACT_ERRNO",
    default_errno=m.OptionalUInt32(value=1),
    architectures=["SCMP_ARCH_X86_64"],
    flags=["SECCOMP_FILTER_FLAG_LOG"],
    listener_path="/l",
    listener_metadata="m",
    syscalls=[
        m.LinuxSyscall(
            names=["read"],
            action="SCMP_ACT_ALLOW",
            errno_ret=m.OptionalUInt32(value=1),
            args=[m.LinuxSeccompArg(index=1, value=2, value_two=3, op="SCMP_CMP_EQ")],
        )
    ],
)

#: Setter -> arguments, so that every field below the adjustment gets a value that is not its default.
RESOURCE_CALLS = {
    "set_memory_limit": (1,),
    "set_memory_reservation": (1,),
    "set_memory_swap": (1,),
    "set_memory_kernel": (1,),
    "set_memory_kernel_tcp": (1,),
    "set_memory_swappiness": (1,),
    "set_memory_disable_oom_killer": (),
    "set_memory_use_hierarchy": (),
    "set_cpu_shares": (2,),
    "set_cpu_quota": (1,),
    "set_cpu_period": (1,),
    "set_cpu_realtime_runtime": (1,),
    "set_cpu_realtime_period": (1,),
    "set_cpuset_cpus": ("0",),
    "set_cpuset_mems": ("0",),
    "set_pids_limit": (1,),
    "add_hugepage_limit": ("2MB", 1),
    "set_blockio_class": ("b",),
    "set_rdt_class": ("r",),
    "add_unified": ("memory.high", "1"),
}
ADJUSTMENT_CALLS = {
    "add_annotation": ("k", "v"),
    "remove_annotation": ("k",),
    "add_env": ("K", "v"),
    "remove_env": ("K",),
    "add_mount": ("/d", "/s", "bind", ["ro"]),
    "remove_mount": ("/d",),
    "set_args": (["a"],),
    "update_args": (["a"],),
    "add_hooks": (m.Hooks(poststart=[m.Hook(path="/h")]),),
    "add_rlimit": ("RLIMIT_CORE", 2, 1),
    "add_device": (
        m.LinuxDevice(
            path="/dev/x",
            type="c",
            major=1,
            minor=2,
            file_mode=m.OptionalFileMode(value=1),
            uid=m.OptionalUInt32(value=1),
            gid=m.OptionalUInt32(value=1),
        ),
    ),
    "remove_device": ("/dev/x",),
    "add_cdi_device": ("v/c=d",),
    "add_or_replace_namespace": ("pid", "/p"),
    "remove_namespace": ("pid",),
    "add_net_device": ("eth0", "e"),
    "remove_net_device": ("eth0",),
    "set_memory_policy": ("BIND", "0", ["RELATIVE_NODES"]),
    "set_rdt_clos_id": ("c",),
    "set_rdt_schemata": (["x"],),
    "set_rdt_enable_monitoring": (),
    "remove_rdt": (),
    "set_cgroups_path": ("/c",),
    "set_oom_score_adj": (1,),
    "set_io_priority": ("BE", 1),
    "set_seccomp_policy": (SECCOMP,),
    "set_sysctl": ("a.b", "1"),
    "set_scheduler": (m.LinuxScheduler(policy=2, nice=1, priority=1, flags=[1], runtime=1, deadline=1, period=1),),
}
UPDATE_CALLS = {"set_container_id": ("c",), "set_ignore_failure": ()}
DEVICE_RULE = (True, "c")


def leaves(message: str, prefix: str = "") -> set[str]:
    """Path of every field below a message, by the table."""
    found: set[str] = set()
    for field in FIELDS[message]:
        path = f"{prefix}{field['name']}"
        kind = field["type"].removeprefix("map<string,").removesuffix(">")
        found |= leaves(kind, path + ".") if kind in FIELDS else {path}
    return found


def set_leaves(message, prefix: str = "") -> set[str]:
    """Path of every field below a message that has a value."""
    found: set[str] = set()
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if hasattr(value, "items"):
            parts = list(value.values())
        elif hasattr(value, "extend"):
            parts = list(value)
        else:
            parts = [value]
        for part in parts:
            found |= set_leaves(part, path + ".") if hasattr(part, "ListFields") else {path}
    return found


def apply(builder, calls: dict[str, tuple]) -> None:
    for name, arguments in calls.items():
        assert getattr(builder, name)(*arguments) is builder, f"{name} must return the builder"


def test_every_field_of_an_adjustment_has_a_setter() -> None:
    adjustment = Adjustment()
    apply(adjustment, RESOURCE_CALLS | ADJUSTMENT_CALLS)
    adjustment.add_device_rule(*DEVICE_RULE, major=1, minor=2)
    for stage in m.Hooks.DESCRIPTOR.fields_by_name:
        adjustment.add_hook(stage, "/h", ["h"], ["A=b"], timeout_s=1)
    assert set_leaves(adjustment.message) == leaves("ContainerAdjustment")


def test_every_field_of_an_update_has_a_setter() -> None:
    update = Update("c")
    apply(update, RESOURCE_CALLS | UPDATE_CALLS)
    update.add_device_rule(*DEVICE_RULE, major=1, minor=2)
    assert set_leaves(update.message) == leaves("ContainerUpdate")


def test_every_optional_resource_has_a_reader_of_the_same_name() -> None:
    update = Update("c")
    apply(update, RESOURCE_CALLS)
    for setter, arguments in RESOURCE_CALLS.items():
        reader = setter.removeprefix("set_")
        if setter.startswith("set_"):
            assert getattr(update, reader) == (arguments[0] if arguments else True), reader
            assert getattr(Update("c"), reader) is None, f"{reader} must be None when it is not set"
    assert update.hugepage_limits == {"2MB": 1}
    assert update.unified == {"memory.high": "1"}


def test_the_go_table_is_exactly_our_setters() -> None:
    def setters(*classes: type) -> set[str]:
        names = {name for one in classes for name in vars(one)}
        return {name for name in names if name.startswith(("add_", "set_", "remove_", "update_"))}

    resources = {python for _, python, _ in go_names.RESOURCES}
    adjustment = {python for _, python, _ in go_names.ADJUSTMENT}
    update = {python for _, python, _ in go_names.UPDATE}
    python_only = set(go_names.PYTHON_ONLY)
    assert setters(Resources) - python_only == resources
    assert setters(Adjustment, LinuxAdjustment) - python_only == adjustment
    assert setters(Update) == update
    assert resources == set(RESOURCE_CALLS)
    assert adjustment == set(ADJUSTMENT_CALLS)


def test_our_names_are_the_go_names_without_linux() -> None:
    def squash(name: str) -> str:
        return name.replace("_", "").lower()

    odd = {
        go
        for go, python, _ in go_names.RESOURCES + go_names.ADJUSTMENT + go_names.UPDATE
        if squash(go.replace("Linux", "")) != squash(python)
    }
    assert odd == {"SetLinuxPidLimits"}


def test_every_function_of_the_go_table_exists() -> None:
    for _, python, _ in go_names.FUNCTIONS:
        parts = python.split(".")
        target = importlib.import_module(".".join(parts[:3]))
        for part in parts[3:]:
            target = getattr(target, part)
        assert callable(target), python
