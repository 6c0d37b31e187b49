"""Claims of dra-cpu: allocations, the checkpoint, CDI files, and the variables of containers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConfigError, NriError
from nri.oci.cdi.devices import CdiDevices
from nri.plugins.dra_cpu.claims import ClaimError, ClaimStore, PreparedClaim, allocated_cpus, check_names

DRIVER, NODE = "dra-cpu.nri.io", "node-1"
OFFERED = frozenset({1, 2, 3})
UID = "0b1c7d9e-0000-4000-8000-000000000001"


def result(device: str = "cpu-1", **more: Any) -> dict[str, Any]:
    return {"driver": DRIVER, "pool": NODE, "device": device, "request": "cpus", **more}


def allocated(*results: Any) -> dict[int, tuple[str, ...]]:
    status = {"allocation": {"devices": {"results": list(results)}}}
    return allocated_cpus({"metadata": {}, "status": status}, DRIVER, NODE, OFFERED)


def store(folder: Path) -> ClaimStore:
    return ClaimStore(folder / "claims.json", folder / "cdi", DRIVER)


def claim(*cpus: int, uid: str = UID, namespace: str = "shop", name: str = "db") -> PreparedClaim:
    return PreparedClaim(uid, namespace, name, dict.fromkeys(cpus, ("cpus",)))


def test_the_results_of_this_driver_are_the_cpus_of_a_claim() -> None:
    other = {"driver": "gpu.example.com", "pool": "x", "device": "gpu-0", "request": "gpu"}
    assert allocated(result("cpu-3"), other, result("cpu-1", request="all/few")) == {1: ("all",), 3: ("cpus",)}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "it is not allocated any device of dra-cpu.nri.io"),
        (["text", None, {"driver": 3}], "it is not allocated any device"),
        ([result(pool="node-2")], 'device "cpu-1" is in pool "node-2", not node-1'),
        ([result("cpu-0")], "CPU 0 is offline, reserved or absent"),
        ([result("gpu-0")], "'gpu-0' is not a device of this driver"),
        ([result(adminAccess=True)], 'request "cpus": adminAccess is not supported'),
        ([result()] * 33, "the allocation has 33 results; the limit is 32"),
    ],
)
def test_an_allocation_that_cannot_be_used_is_an_error(results: list[Any], message: str) -> None:
    with pytest.raises(ClaimError, match=re.escape(message)):
        allocated(*results)


@pytest.mark.parametrize("claim", [{}, {"status": None}, {"status": {"allocation": []}}, {"status": "x"}])
def test_a_claim_without_an_allocation_is_an_error(claim: dict[str, Any]) -> None:
    with pytest.raises(ClaimError, match="it is not allocated any device"):
        allocated_cpus(claim, DRIVER, NODE, OFFERED)


@pytest.mark.parametrize(
    ("namespace", "name", "uid", "message"),
    [
        ("../etc", "db", UID, 'invalid namespace "../etc"'),
        ("shop", "a/b", UID, 'invalid name "a/b"'),
        ("shop", "n" * 254, UID, "invalid name"),
        ("shop", "db", "../../x", 'claim shop/db: invalid uid "../../x"'),
        ("shop", "db", "", "invalid uid"),
        ("shop", "db", "u" * 65, "invalid uid"),
    ],
)
def test_names_that_kubernetes_does_not_allow_are_refused(namespace: str, name: str, uid: str, message: str) -> None:
    with pytest.raises(ClaimError, match=re.escape(message)):
        check_names(namespace, name, uid)


def test_claims_survive_a_restart_and_lost_cdi_files_are_written_again(tmp_path: Path) -> None:
    first = store(tmp_path)
    first.add(claim(1, 3))
    (file,) = (tmp_path / "cdi").iterdir()
    content = file.read_text()
    file.unlink()
    second = store(tmp_path)
    second.load()
    assert (second.claims, second.restricted) == ({UID: claim(1, 3)}, True)
    assert file.read_text() == content
    assert second.remove(UID) and not second.remove(UID)
    assert not list((tmp_path / "cdi").iterdir())
    third = store(tmp_path)
    third.load()
    assert third.claims == {}


def test_a_runtime_gives_a_container_the_variables_of_its_cdi_devices(tmp_path: Path) -> None:
    claims = store(tmp_path)
    claims.add(claim(1, 3))
    spec = CdiDevices([str(tmp_path / "cdi")]).inject({"process": {"env": []}}, [claims.device_ids(claim(1, 3))[3]])
    assert spec["process"]["env"] == [f"NRI_DRA_CPU_3={UID}"]
    assert claims.container_cpus("shop", spec["process"]["env"]) == {3}


@pytest.mark.parametrize(
    ("namespace", "variable", "message"),
    [
        ("other", f"NRI_DRA_CPU_1={UID}", "no such claim of namespace other is prepared on this node"),
        ("shop", "NRI_DRA_CPU_1=unknown", "no such claim of namespace shop"),
        ("shop", f"NRI_DRA_CPU_2={UID}", "claim shop/db has the CPUs 1, 3"),
        ("shop", f"NRI_DRA_CPU_1-3={UID}", "claim shop/db has the CPUs 1, 3"),
        ("shop", f"NRI_DRA_CPU_={UID}", "claim shop/db has the CPUs 1, 3"),
        ("shop", "NRI_DRA_CPU_1", "no such claim"),
    ],
)
def test_a_variable_that_names_other_cpus_than_the_claim_is_refused(
    tmp_path: Path, namespace: str, variable: str, message: str
) -> None:
    claims = store(tmp_path)
    claims.add(claim(1, 3))
    with pytest.raises(ClaimError, match=re.escape(message)):
        claims.container_cpus(namespace, ["PATH=/bin", variable])


def test_a_cpu_of_another_claim_is_refused_until_that_claim_is_released(tmp_path: Path) -> None:
    claims = store(tmp_path)
    claims.add(claim(1, 3))
    second = claim(3, uid="second", name="late")
    with pytest.raises(ClaimError, match="CPU 3 is still in use by claim shop/db"):
        claims.add(second)
    claims.remove(UID)
    claims.add(second)
    assert claims.cpus == {3}


def test_a_claim_that_cannot_be_saved_is_not_prepared(tmp_path: Path) -> None:
    claims = ClaimStore(tmp_path / "missing/claims.json", tmp_path / "cdi", DRIVER)
    with pytest.raises(OSError, match="missing"):
        claims.add(claim(1))
    assert (claims.claims, claims.restricted) == ({}, False)


ENTRY = {"uid": UID, "namespace": "shop", "name": "db", "cpus": {"cpu-1": ["cpus"]}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "claims.json"),
        ("{", "claims.json"),
        ("[]", "claims.json"),
        ('{"claims": []}', "version: missing"),
        ('{"version": 2}', "2 is not known"),
        ('{"version": "x"}', "version"),
        (json.dumps({"version": 1, "claims": [ENTRY | {"uid": "../x"}]}), 'invalid uid "../x"'),
        (json.dumps({"version": 1, "claims": [ENTRY | {"cpus": {"3": []}}]}), "'3' is not a device"),
        (json.dumps({"version": 1, "claims": [ENTRY, ENTRY | {"uid": "b"}]}), "CPU 1 is still in use"),
        ("[" * 100_000, "claims.json"),
    ],
)
def test_a_damaged_checkpoint_is_an_error_with_its_file_and_the_fix(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        store(tmp_path).load()
    assert str(tmp_path / "claims.json") in str(raised.value)
    assert "remove it, and restart the kubelet" in str(raised.value)


def test_a_checkpoint_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "claims.json").symlink_to("/etc/passwd")
    with pytest.raises((OSError, NriError)):
        store(tmp_path).load()
