"""The generator as runtimes use it: the order of steps, runtime functions, and atomic changes."""

from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.errors import LocalProtocolError, SpecError
from nri.oci import Generator, MountTable
from nri.rules import Rules
from tests.unit.oci.build import adjustment


def test_a_builder_a_message_and_none_are_accepted_as_adjustments() -> None:
    spec = {"process": {"args": ["a"]}, "vendor": {"x": 1}}
    built = nri.Adjustment().set_args(["b"])
    for adjusted in (built, built.message):
        assert Generator(spec).adjust(adjusted) == {"process": {"args": ["b"]}, "vendor": {"x": 1}}
    assert Generator(spec).adjust(None) is spec
    assert Generator(spec).adjust(m.ContainerAdjustment()) == spec


def test_adjustments_add_up_in_spec() -> None:
    generator = Generator({})
    generator.adjust(nri.Adjustment().set_args(["b"]))
    generator.adjust(nri.Adjustment().set_oom_score_adj(5))
    assert generator.spec == {"process": {"args": ["b"], "oomScoreAdj": 5}}


def test_a_failed_adjustment_does_not_change_the_spec() -> None:
    spec: dict[str, Any] = {}
    generator = Generator(spec)
    with pytest.raises(SpecError):
        generator.adjust(adjustment(args=["x"], linux={"namespaces": [{"type": "?"}]}))
    assert generator.spec is spec
    assert spec == {}


def test_compat_selects_the_rules() -> None:
    assert Generator({}, compat="reference").rules == Rules.REFERENCE
    assert Generator({}).rules == Rules.DEFAULT
    with pytest.raises(LocalProtocolError, match="compat must be"):
        Generator({}, compat="exact")  # type: ignore[arg-type]


def test_cdi_comes_after_variables_and_before_devices_and_mounts() -> None:
    anys: list[Any] = []

    def inject(spec: dict[str, Any], names: Any) -> dict[str, Any]:
        anys.append((spec["process"]["env"], "linux" in spec, "mounts" in spec, names))
        return {**spec, "mounts": [{"destination": "/a", "source": "cdi"}]}

    adjusted = adjustment(
        CDI_devices=[{"name": "v/c=1"}, {"name": "v/c=2"}],
        env=[{"key": "A", "value": "1"}],
        linux={"devices": [{"path": "/dev/x", "type": "c"}]},
        mounts=[{"destination": "/a", "source": "plugin"}],
    )
    new_spec = Generator({}, cdi=inject).adjust(adjusted)
    assert anys == [(["A=1"], False, False, ["v/c=1", "v/c=2"])]
    assert new_spec["mounts"] == [{"destination": "/a", "source": "plugin"}]


def classes(blockio: str | None = None, rdt_class: str | None = None, **linux: Any) -> Any:
    named = {"blockio_class": blockio, "rdt_class": rdt_class}
    resources = {key: {"value": name} for key, name in named.items() if name is not None}
    return adjustment(linux={"resources": resources, **linux})


def test_classes_are_resolved_and_the_empty_class_removes_settings() -> None:
    settings = {"fast": {"weight": 500}}
    generator = Generator(
        {"linux": {"resources": {"blockIO": {"weight": 1}}, "intelRdt": {"closID": "x"}}},
        blockio=settings.get,
        rdt=lambda name: {"closID": name},
    )
    assert generator.adjust(classes("fast", "gold", rdt={"schemata": {"value": ["MB:0=5"]}})) == {
        "linux": {
            "resources": {"blockIO": {"weight": 500}},
            "intelRdt": {"closID": "gold", "schemata": ["MB:0=5"]},
        }
    }
    assert generator.adjust(classes("slow")) == {
        "linux": {"resources": {}, "intelRdt": {"closID": "gold", "schemata": ["MB:0=5"]}}
    }
    assert generator.adjust(classes("", "")) == {"linux": {"resources": {}}}


def test_unresolved_refused() -> None:
    adjustment_ = classes("fast", "gold")
    assert Generator({}, compat="reference").adjust(adjustment_) == {"linux": {}}
    with pytest.raises(SpecError, match='BlockIO class in OCI Spec: this runtime has no classes, "fast" is unknown'):
        Generator({}).adjust(adjustment_)
    with pytest.raises(SpecError, match='RDT class in OCI Spec: this runtime has no classes, "gold" is unknown'):
        Generator({}).adjust(classes(rdt_class="gold"))
    assert Generator({}).adjust(classes("", "")) == {"linux": {}}
    device = adjustment(CDI_devices=[{"name": "v/c=1"}])
    assert Generator({}, compat="reference").adjust(device) == {}
    with pytest.raises(SpecError, match="CDI devices: this runtime does not support CDI: v/c=1"):
        Generator({}).adjust(device)


def fails(*_: Any) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("functions", "adjusted", "text"),
    [
        ({"filter_annotations": fails}, adjustment(), "failed to adjust annotations in OCI Spec: no"),
        ({"check_resources": fails}, adjustment(linux={"resources": {}}), "failed to adjust resources in OCI Spec: no"),
        ({"blockio": fails}, classes("x"), "failed to adjust BlockIO class in OCI Spec: no"),
        ({"rdt": fails}, classes(rdt_class="x"), "failed to adjust RDT class in OCI Spec: no"),
        ({"cdi": fails}, adjustment(CDI_devices=[{}]), "failed to inject CDI devices in OCI Spec: no"),
    ],
)
def test_an_error_of_a_runtime_function_is_the_reason(functions: Any, adjusted: Any, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Generator({}, **functions).adjust(adjusted)
    assert str(caught.value) == text


def test_annotations_are_filtered() -> None:
    keep = Generator({}, filter_annotations=lambda entries: {key: entries[key] for key in entries if key != "b"})
    assert keep.adjust(adjustment(annotations={"a": "1", "b": "2"})) == {"annotations": {"a": "1"}}


def test_the_resource_check_runs_last_and_can_change_resources() -> None:
    spec = {"linux": {"resources": {"memory": {"limit": 5}}}}

    def check(resources: dict[str, Any]) -> None:
        resources["memory"].pop("swap", None)
        resources.pop("hugepageLimits", None)

    generator = Generator(spec, check_resources=check)
    pages = {"hugepage_limits": [{"page_size": "2MB"}], "memory": {"limit": {"value": 9}}}
    assert generator.adjust(adjustment(linux={"resources": pages})) == {
        "linux": {"resources": {"memory": {"limit": 9}}}
    }
    assert spec == {"linux": {"resources": {"memory": {"limit": 5}}}}


def test_the_resource_check_runs_also_without_resources() -> None:
    def set_pids(resources: dict[str, Any]) -> None:
        resources["pids"] = {"limit": 1}

    adjustment_ = adjustment(linux={"resources": {}})
    assert Generator({}, check_resources=set_pids).adjust(adjustment_) == {
        "linux": {"resources": {"pids": {"limit": 1}}}
    }
    assert Generator({}, check_resources=lambda resources: None).adjust(adjustment_) == {"linux": {}}


def test_the_hosts_mounts_are_read_once_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def of_host(path: str = "") -> MountTable:
        reads.append(1)
        return MountTable.parse("1 1 0:1 / / rw shared:1 - ext4 x rw")

    monkeypatch.setattr(MountTable, "of_host", of_host)
    generator = Generator({})
    generator.adjust(adjustment(mounts=[{"destination": "/a", "type": "tmpfs"}]))
    assert reads == []
    shared = {"type": "bind", "source": "/x", "options": ["rshared"]}
    generator.adjust(adjustment(mounts=[{"destination": path, **shared} for path in ("/a", "/b")]))
    assert reads == [1]


def test_a_host_without_a_mount_table_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_host(path: str = "") -> MountTable:
        raise FileNotFoundError(2, "No such file or directory", "/proc/self/mountinfo")

    monkeypatch.setattr(MountTable, "of_host", of_host)
    with pytest.raises(SpecError, match=r"failed to adjust mounts in OCI Spec: .*mountinfo"):
        Generator({}).adjust(adjustment(mounts=[{"destination": "/a", "type": "bind", "options": ["rshared"]}]))


def test_an_update_changes_the_spec_and_returns_the_runtimes_resources() -> None:
    generator = Generator(
        {"linux": {"resources": {"cpu": {"shares": 5, "cpus": "0-3"}}}}, blockio={"f": {"weight": 9}}.get
    )
    update = generator.update(nri.Update("c1").set_cpu_shares(7).set_pids_limit(4).set_blockio_class("f"))
    assert update == {"cpu": {"shares": 7}, "pids": {"limit": 4}, "blockIO": {"weight": 9}}
    resources = {"cpu": {"shares": 7, "cpus": "0-3"}, "pids": {"limit": 4}, "blockIO": {"weight": 9}}
    assert generator.spec == {"linux": {"resources": resources}}
    assert generator.update(m.LinuxResources(unified={"memory.high": "5"})) == {"unified": {"memory.high": "5"}}
    assert generator.update(nri.Update("c1").set_blockio_class("")) == {"blockIO": {}}
    assert "blockIO" not in generator.spec["linux"]["resources"]


def test_zeros_that_mean_unset_change_nothing() -> None:
    """A kubelet's request with one value has zeros for all others, and plugins return them."""
    before = {"linux": {"resources": {"cpu": {"shares": 512, "quota": 5}, "memory": {"limit": 1 << 20}}}}
    generator = Generator(before)
    linux_resources = m.LinuxResources()
    for part, name in (("cpu", "shares"), ("cpu", "quota"), ("cpu", "period"), ("memory", "limit")):
        getattr(getattr(linux_resources, part), name).value = 0
    linux_resources.cpu.cpus = "0"
    assert generator.update(linux_resources) == {"cpu": {"cpus": "0"}}
    resources = {"cpu": {"shares": 512, "quota": 5, "cpus": "0"}, "memory": {"limit": 1 << 20}}
    assert generator.spec == {"linux": {"resources": resources}}


def test_a_failed_update_does_not_change_the_spec() -> None:
    generator = Generator({}, check_resources=fails)
    with pytest.raises(SpecError, match="failed to adjust resources"):
        generator.update(nri.Update("c1").set_cpu_shares(7))
    assert generator.spec == {}
