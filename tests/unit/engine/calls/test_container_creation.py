"""A container made step by step, and taken back the same way when a step fails."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls import container_creation
from nri.engine.state import ContainerState
from nri.engine.support.errors import CommandFailed
from nri.errors import NriError, RequestError


def records(dry: Any) -> list[str]:
    return [path.name for path in (dry.config.root / "records/containers").iterdir()]


def bundles(dry: Any) -> list[str]:
    return [path.name for path in dry.engine.machinery.places.bundles.iterdir()]


def test_what_plugins_answer_is_in_the_spec_and_in_the_record(dry: Any) -> None:
    adjustment = nri.Adjustment().add_env("A", "1").set_cpu_shares(99)
    dry.told.on["create_container"] = lambda *_: adjustment
    entry = dry.engine.inventory.container(dry.create(dry.pod()))
    assert "A=1" in entry.spec["process"]["env"]
    assert entry.spec["linux"]["resources"]["cpu"]["shares"] == 99
    assert str(entry.record.resources["cpu_shares"]) == "99"
    assert entry.record.state is ContainerState.CREATED


@pytest.mark.parametrize("config", [{"log_path": "../a"}, {"log_path": "/a"}])
def test_a_request_that_cannot_be_is_refused_before_anything_is_made(dry: Any, config: dict[str, str]) -> None:
    pod = dry.pod()
    before = bundles(dry)
    with pytest.raises(RequestError, match="log_path"):
        dry.create(pod, **config)
    assert (records(dry), bundles(dry)) == ([], before)


def test_a_container_without_a_name_is_refused(dry: Any) -> None:
    with pytest.raises(RequestError, match=r"metadata\.name"):
        dry.create(dry.pod(), "")


def test_a_plugins_refusal_leaves_nothing_and_the_name_is_free(dry: Any) -> None:
    pod = dry.pod()
    before = bundles(dry)

    def refuse(*_: object) -> None:
        raise nri.Reject("no")

    dry.told.on["create_container"] = refuse
    with pytest.raises(NriError, match="no"):
        dry.create(pod)
    assert (records(dry), bundles(dry)) == ([], before)
    del dry.told.on["create_container"]
    assert dry.create(pod)


def test_a_runtime_that_fails_is_told_to_plugins_as_an_end_and_a_removal(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = dry.pod()

    def fail(*_: object, **__: object) -> None:
        raise CommandFailed("runc create", 1, "no")

    monkeypatch.setattr(dry.engine.machinery.conmon, "create", fail)
    with pytest.raises(CommandFailed):
        dry.create(pod)
    assert dry.told.of("c") == ["create_container", "stop_container", "remove_container"]
    assert records(dry) == []


def test_updates_of_others_are_done_when_the_container_is_there_and_not_if_it_fails(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = dry.pod()
    other = dry.run(pod, "other")
    dry.told.on["create_container"] = lambda *_: (nri.Adjustment(), [nri.Update(other).set_cpu_shares(7)])
    create = dry.engine.machinery.conmon.create

    def fail(*_: object, **__: object) -> None:
        raise CommandFailed("runc create", 1, "no")

    monkeypatch.setattr(dry.engine.machinery.conmon, "create", fail)
    with pytest.raises(CommandFailed):
        dry.create(pod)
    entry = dry.engine.inventory.container(other)
    assert entry.spec["linux"]["resources"].get("cpu", {}).get("shares") != 7
    monkeypatch.setattr(dry.engine.machinery.conmon, "create", create)
    dry.create(pod)
    assert entry.spec["linux"]["resources"]["cpu"]["shares"] == 7


@pytest.mark.parametrize("adjustment", [nri.Adjustment(), nri.Adjustment().add_env("A", "1")], ids=["same", "changed"])
def test_the_event_after_a_creation_has_the_container_as_it_is_then(dry: Any, adjustment: nri.Adjustment) -> None:
    shown: dict[str, Any] = {}
    dry.told.on["create_container"] = lambda pod, container: (shown.update(before=(pod, container)), adjustment)[1]
    dry.told.on["post_create_container"] = lambda pod, container: shown.update(after=(pod, container))
    entry = dry.engine.inventory.container(dry.create(dry.pod()))
    pod, container = shown["after"]
    assert container == dry.engine.domain.container_message(entry)
    assert container.pid == entry.record.pid > shown["before"][1].pid == 0
    assert ("A=1" in container.env) == bool(adjustment.message.env)
    assert pod == dry.engine.domain.pod_message(dry.engine.inventory.pod(entry.record.pod_id))


def test_a_creation_makes_the_messages_for_plugins_and_the_settings_of_the_image_once(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda argument: (calls.append(name), original(argument))[1])

    pod = dry.pod()
    count(dry.engine.domain, "pod_message")
    count(dry.engine.domain, "container_message")
    count(container_creation, "image_config")
    dry.create(pod)
    assert sorted(calls) == ["container_message", "image_config", "pod_message"]


CDI = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.com/nic",
    "annotations": {"required-plugins.noderesource.dev": '["told"]'},
    "devices": [
        {"name": "plain", "containerEdits": {"env": ["NIC=plain"]}},
        {
            "name": "guarded",
            "annotations": {"required-plugins.noderesource.dev": "[10-told, dranet]"},
            "containerEdits": {"env": ["NIC=guarded"]},
        },
        {
            "name": "broken",
            "annotations": {"required-plugins.noderesource.dev": "told"},
            "containerEdits": {"env": ["NIC=broken"]},
        },
    ],
}


@pytest.fixture
def cdi(dry: Any) -> Any:
    folder = dry.folder / "cdi"
    folder.mkdir()
    (folder / "vendor.json").write_text(json.dumps(CDI))
    dry.restart(containers=replace(dry.config.containers, cdi_dirs=(str(folder),)))
    return dry


def test_a_device_of_the_request_or_of_a_plugin_requires_plugins_by_its_annotation(cdi: Any) -> None:
    pod = cdi.pod()
    before = bundles(cdi)
    refusals = {
        "guarded": 'required plugin "dranet" not present: CDI device vendor.com/nic=guarded requires it',
        "broken": "CDI device vendor.com/nic=broken: invalid required-plugins.noderesource.dev annotation",
    }
    for name, refusal in refusals.items():
        device = f"vendor.com/nic={name}"
        with pytest.raises(NriError, match=re.escape(refusal)):
            cdi.create(pod, CDI_devices=[pb.CDIDevice(name=device)])
        cdi.told.on["create_container"] = lambda *_, device=device: nri.Adjustment().add_cdi_device(device)
        with pytest.raises(NriError, match=re.escape(refusal)):
            cdi.create(pod)
        del cdi.told.on["create_container"]
    assert (records(cdi), bundles(cdi)) == ([], before)


def test_a_plugin_that_answered_with_nothing_satisfies_a_device(cdi: Any) -> None:
    created = cdi.create(cdi.pod(), CDI_devices=[pb.CDIDevice(name="vendor.com/nic=plain")])
    assert "NIC=plain" in cdi.engine.inventory.container(created).spec["process"]["env"]
