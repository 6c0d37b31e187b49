"""Fields, events and namespaces that a plugin may change."""

import typing

import pytest

from nri.api import messages as m
from nri.api.events import BY_RPC, EVENTS
from nri.api.fields import FIELD_NAMES, ROWS
from nri.api.selectors import Pattern
from nri.errors import PluginError
from nri.plugin_policy.allow import Allow, AllowedField, EventName, breach

CREATE = m.Event.CREATE_CONTAINER
NAMESPACE_OF = {"c2": "dev", "c3": "prod"}.get


def fields(*names):
    return Allow(fields=tuple(map(AllowedField.parse, names)))


def namespaces(*names):
    return Allow(namespaces=tuple(map(Pattern.parse, names)))


def adjustment(**parts):
    return m.ContainerAdjustment(**parts)


def update(container="c2", **resources):
    return m.ContainerUpdate(
        container_id=container, linux=m.LinuxContainerUpdate(resources=m.LinuxResources(**resources))
    )


ENV = adjustment(env=[m.KeyValue(key="A", value="1")])
MEMORY = m.LinuxMemory(limit=m.OptionalInt64(value=1))


def test_an_answer_with_only_allowed_fields_is_not_a_breach():
    assert breach(fields("Env"), "10-a", "prod", CREATE, adjust=ENV) is None


def test_a_breach_is_an_error_that_names_plugin_and_field():
    error = breach(fields("Mounts"), "10-a", "prod", CREATE, adjust=ENV)
    assert isinstance(error, PluginError)
    assert str(error) == "plugin 10-a: its policy does not allow it to set Env (allow.fields)"


def test_a_field_without_an_owner_is_named_by_its_path():
    rules = adjustment(linux=m.LinuxContainerAdjustment(resources=m.LinuxResources(devices=[m.LinuxDeviceCgroup()])))
    assert "set linux.resources.devices" in str(breach(fields("Env"), "10-a", "prod", CREATE, adjust=rules))


def test_a_path_allows_everything_below_it():
    cpu = m.LinuxCPU(shares=m.OptionalUInt64(value=1), cpus="0")
    adjust = adjustment(linux=m.LinuxContainerAdjustment(resources=m.LinuxResources(cpu=cpu)))
    assert breach(fields("linux.resources.cpu"), "10-a", "prod", CREATE, adjust=adjust) is None
    assert breach(fields("CPUShares"), "10-a", "prod", CREATE, adjust=adjust) is not None


def test_allowed_fields_apply_to_updates_of_other_containers():
    error = breach(fields("Env"), "10-a", "prod", CREATE, update=[update(memory=MEMORY)])
    assert 'set MemLimit of container "c2" (allow.fields)' in str(error)


EMPTY = {
    "linux.rdt": adjustment(linux=m.LinuxContainerAdjustment(rdt=m.LinuxRdt())),
    "linux.resources.memory": adjustment(
        linux=m.LinuxContainerAdjustment(resources=m.LinuxResources(memory=m.LinuxMemory()))
    ),
    "linux": adjustment(linux=m.LinuxContainerAdjustment()),
}


@pytest.mark.parametrize("path", EMPTY)
def test_an_empty_object_requires_an_allowed_field_below_it(path):
    """Being there means something: an empty RDT object makes a monitoring group."""
    error = breach(fields("Env"), "10-a", "prod", CREATE, adjust=EMPTY[path])
    assert f"set an empty {path} (allow.fields)" in str(error)
    assert breach(fields(path), "10-a", "prod", CREATE, adjust=EMPTY[path]) is None


def test_an_empty_answer_is_not_a_breach():
    assert breach(fields(), "10-a", "prod", CREATE, reply=m.CreateContainerResponse(), adjust=adjustment()) is None


@pytest.mark.parametrize("nothing", [update(), m.ContainerUpdate(container_id="c2")])
def test_an_update_without_resources_counts_as_a_change(nothing):
    error = breach(fields("Env"), "10-a", "prod", CREATE, update=[nothing])
    assert 'make an update without resources of container "c2" (allow.fields)' in str(error)
    assert breach(fields("CPUShares"), "10-a", "prod", CREATE, update=[nothing]) is None
    error = breach(namespaces("prod"), "10-a", "prod", CREATE, update=[nothing], namespace_of=NAMESPACE_OF)
    assert 'in namespace "dev" (allow.namespaces)' in str(error)


#: Field 4000, a varint: in no message of the API.
NEWER = b"\x80\xfa\x01\x01"


def newer(message):
    """The same, from a plugin with a later version of the API."""
    message.MergeFromString(NEWER)
    return message


UNKNOWN = {
    "the answer": {"reply": newer(m.CreateContainerResponse())},
    "the adjustment": {"adjust": newer(adjustment())},
    "linux": {"adjust": adjustment(linux=newer(m.LinuxContainerAdjustment()))},
    "linux.resources.memory": {
        "adjust": adjustment(
            linux=m.LinuxContainerAdjustment(
                resources=m.LinuxResources(memory=newer(m.LinuxMemory(limit=MEMORY.limit)))
            )
        )
    },
    "mounts": {"adjust": adjustment(mounts=[newer(m.Mount(destination="/a"))])},
    "hooks": {"adjust": adjustment(hooks=m.Hooks(prestart=[newer(m.Hook(path="/h"))]))},
    "linux.seccomp_policy": {
        "adjust": adjustment(
            linux=m.LinuxContainerAdjustment(
                seccomp_policy=m.LinuxSeccomp(syscalls=[m.LinuxSyscall(args=[newer(m.LinuxSeccompArg(index=1))])])
            )
        )
    },
    "linux.net_devices": {
        "adjust": adjustment(linux=m.LinuxContainerAdjustment(net_devices={"eth0": newer(m.LinuxNetDevice(name="n"))}))
    },
    "an update": {"update": [newer(update(memory=MEMORY))]},
    "linux.resources": {
        "update": [
            m.ContainerUpdate(container_id="c2", linux=m.LinuxContainerUpdate(resources=newer(m.LinuxResources())))
        ]
    },
}


@pytest.mark.parametrize("where", UNKNOWN)
def test_an_unknown_field_is_never_allowed(where):
    error = breach(fields("Env", "linux", "Mounts", "OciHooks"), "10-a", "prod", CREATE, **UNKNOWN[where])
    assert f"set the unknown field 4000 of {where}" in str(error)
    assert breach(Allow(), "10-a", "prod", CREATE, **UNKNOWN[where]) is None, "without limits this is allowed"


def test_an_empty_list_of_fields_allows_nothing():
    assert breach(Allow(fields=()), "10-a", "prod", CREATE, adjust=ENV) is not None


def test_an_eviction_must_be_allowed_by_name():
    evict = [m.ContainerEviction(container_id="c2", reason="x")]
    assert 'evict of container "c2"' in str(breach(fields("Env"), "10-a", "prod", CREATE, evict=evict))
    assert breach(fields("evict"), "10-a", "prod", CREATE, evict=evict) is None


def test_a_pod_of_another_namespace_cannot_be_adjusted():
    error = breach(namespaces("dev"), "10-a", "prod", CREATE, adjust=ENV)
    assert 'set Env in namespace "prod" (allow.namespaces)' in str(error)


def test_an_update_counts_for_the_namespace_of_the_container_that_it_names():
    one = [update("c2", memory=MEMORY)]
    assert breach(namespaces("dev"), "10-a", "prod", CREATE, update=one, namespace_of=NAMESPACE_OF) is None
    assert breach(namespaces("prod"), "10-a", "prod", CREATE, update=one, namespace_of=NAMESPACE_OF) is not None


def test_an_unknown_container_is_in_no_allowed_namespace():
    error = breach(namespaces("*"), "10-a", "prod", CREATE, update=[update("c9", memory=MEMORY)])
    assert 'of container "c9", whose namespace is unknown' in str(error)


def test_a_change_in_an_event_that_is_not_allowed_is_a_breach():
    error = breach(Allow(events=("UpdateContainer",)), "10-a", "prod", CREATE, adjust=ENV)
    assert "set Env in CreateContainer (allow.events)" in str(error)


def test_an_answer_that_changes_nothing_is_never_a_breach():
    nothing = Allow(events=(), namespaces=(), fields=())
    assert breach(nothing, "10-a", "prod", CREATE, adjust=adjustment()) is None


def test_the_subscription_has_only_allowed_events():
    assert str(Allow(events=("CreateContainer", "StopContainer")).events_mask) == "CreateContainer,StopContainer"
    assert list(Allow().events_mask) == list(EVENTS)


def test_an_unknown_field_is_an_error_with_a_suggestion():
    with pytest.raises(ValueError, match='did you mean "MemLimit"'):
        AllowedField.parse("memlimt")


def test_every_field_of_the_api_can_be_allowed_by_its_name_and_by_its_path():
    for row in ROWS:
        assert row.path in AllowedField.parse(row.path).paths
        if row.claim:
            assert row.path in AllowedField.parse(FIELD_NAMES[row.claim]).paths


def test_the_names_of_events_equal_the_apis():
    assert set(typing.get_args(EventName)) == set(BY_RPC)
