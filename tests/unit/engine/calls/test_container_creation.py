"""The creation of a container in steps, which are undone after an error."""

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


def test_answers_of_plugins_are_in_spec_and_record(dry: Any) -> None:
    adjustment = nri.Adjustment().add_env("A", "1").set_cpu_shares(99)
    dry.told.on["create_container"] = lambda *_: adjustment
    entry = dry.engine.inventory.container(dry.create(dry.pod()))
    assert "A=1" in entry.spec["process"]["env"]
    assert entry.spec["linux"]["resources"]["cpu"]["shares"] == 99
    assert str(entry.record.resources["cpu_shares"]) == "99"
    assert entry.record.state is ContainerState.CREATED


@pytest.mark.parametrize("config", [{"log_path": "../a"}, {"log_path": "/a"}])
def test_an_invalid_request_is_refused_before_any_step(dry: Any, config: dict[str, str]) -> None:
    pod = dry.pod()
    before = bundles(dry)
    with pytest.raises(RequestError, match="log_path"):
        dry.create(pod, **config)
    assert (records(dry), bundles(dry)) == ([], before)


def test_a_container_without_a_name_is_refused(dry: Any) -> None:
    with pytest.raises(RequestError, match=r"metadata\.name"):
        dry.create(dry.pod(), "")


def test_a_plugins_refusal_leaves_no_files_and_frees_the_name(dry: Any) -> None:
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


def test_after_a_failure_of_the_oci_runtime_plugins_receive_stop_and_removal(
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


def test_updates_of_other_containers_apply_only_after_a_successful_creation(
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
def test_post_create_has_the_created_container(dry: Any, adjustment: nri.Adjustment) -> None:
    shown: dict[str, Any] = {}
    dry.told.on["create_container"] = lambda pod, container: (shown.update(before=(pod, container)), adjustment)[1]
    dry.told.on["post_create_container"] = lambda pod, container: shown.update(after=(pod, container))
    entry = dry.engine.inventory.container(dry.create(dry.pod()))
    pod, container = shown["after"]
    assert container == dry.engine.domain.container_message(entry)
    assert container.pid == entry.record.pid > shown["before"][1].pid == 0
    assert ("A=1" in container.env) == bool(adjustment.message.env)
    assert pod == dry.engine.domain.pod_message(dry.engine.inventory.pod(entry.record.pod_id))


def test_a_creation_computes_messages_and_image_settings_once(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_cdi_device_can_require_plugins(cdi: Any) -> None:
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


def test_a_plugin_with_an_empty_answer_satisfies_the_requirement(cdi: Any) -> None:
    created = cdi.create(cdi.pod(), CDI_devices=[pb.CDIDevice(name="vendor.com/nic=plain")])
    assert "NIC=plain" in cdi.engine.inventory.container(created).spec["process"]["env"]
