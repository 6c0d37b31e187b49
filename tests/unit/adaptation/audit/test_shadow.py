"""Reports of the changes that a shadow plugin would have made."""

import json

from nri.adaptation.audit.shadow import report
from nri.adaptation.merge import CreateMerge
from nri.api import messages as m

POD = m.PodSandbox(namespace="prod", name="web-1")


def container(**parts):
    return m.Container(id="c1", name="web", **parts)


def env(key, value=""):
    return m.ContainerAdjustment(env=[m.KeyValue(key=key, value=value)])


def create(adjust=None, update=(), evict=()):
    return m.CreateContainerResponse(adjust=adjust, update=update, evict=evict)


def test_a_report_line_names_plugin_event_container_and_changes():
    created = report("10-new", "CreateContainer", POD, container(env=["A=0"]), create(env("A", "1")))
    expected = 'shadow plugin 10-new at CreateContainer of prod/web-1/web would have: Env A: "0" -> "1"'
    assert str(created) == expected


def test_setting_another_plugins_field_is_a_conflict():
    state = CreateMerge(m.CreateContainerRequest(pod=POD, container=container()))
    state.apply("00-first", create(env("A", "0")))
    created = report("10-new", "CreateContainer", POD, state.container, create(env("A", "1")), ledger=state.ledger)
    assert created.conflicts == [("Env", "A", "00-first")]
    assert str(created).endswith('Env A: "0" -> "1" (in conflict with 00-first)')


def test_removing_another_plugins_field_is_not_a_conflict():
    state = CreateMerge(m.CreateContainerRequest(pod=POD, container=container()))
    state.apply("00-first", create(env("A", "0")))
    created = report("10-new", "CreateContainer", POD, state.container, create(env("-A")), ledger=state.ledger)
    assert created.conflicts == []


def test_updates_and_evictions_are_reported():
    update = m.ContainerUpdate(container_id="c2")
    update.linux.resources.cpu.shares.value = 512
    resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=1024)))
    evict = [m.ContainerEviction(container_id="c3", reason="too big")]
    reply = create(update=[update], evict=evict)
    created = report("10-new", "CreateContainer", POD, container(), reply, resources_of={"c2": resources}.get)
    assert [tuple(change) for change in created.changes] == [("c2", "CPUShares", "", 1024, 512)]
    assert created.evictions == [("c3", "too big")]


def test_an_answer_without_changes_is_empty():
    created = report("10-new", "CreateContainer", POD, container(), create(m.ContainerAdjustment()))
    assert created.empty
    assert str(created).endswith("would have: done nothing")


def test_an_event_of_a_pod_has_no_container():
    created = report("10-new", "RunPodSandbox", POD, None, m.RunPodSandboxResponse())
    assert (created.empty, created.container) == (True, "")


def test_a_failed_shadow_plugin_is_reported():
    created = report("10-new", "RunPodSandbox", POD, None, failed="no answer within 2 s")
    assert str(created).endswith("would have: failed: no answer within 2 s")
    assert not created.empty


def test_a_report_is_valid_json():
    created = report("10-new", "CreateContainer", POD, container(env=["A=0"]), create(env("A", "1")))
    tree = json.loads(json.dumps(created.to_json()))
    assert tree["changes"] == [{"container": "c1", "field": "Env", "key": "A", "before": "0", "after": "1"}]
