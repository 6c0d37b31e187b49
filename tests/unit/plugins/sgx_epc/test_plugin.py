"""`sgx-epc`: start and invalid limits. Its answers are tested in tests/conformance."""

from __future__ import annotations

import pytest

import nri
from nri.plugins.sgx_epc import plugin
from nri.plugins.sgx_epc.plugin import SgxEpc, has_sgx
from nri.testing import FakeRuntime, make_container, make_pod


@pytest.mark.parametrize(("text", "present"), [("with", True), ("without", False), ("gone", False)])
def test_start_and_limits_log_whether_the_processor_has_sgx(
    nri_runtime: FakeRuntime, tmp_path, caplog: pytest.LogCaptureFixture, monkeypatch, text: str, present: bool
) -> None:
    (tmp_path / "with").write_text("processor\t: 0\nflags\t\t: fpu sgx sgx_lc\n")
    (tmp_path / "without").write_text("flags\t\t: fpu sgx_lc\n")
    monkeypatch.setattr(plugin, "CPUINFO", str(tmp_path / text))
    nri_runtime.add(SgxEpc(), idx="10")
    reply = nri_runtime.create_container(make_pod(annotations={"epc-limit.nri.io": "4096"}), make_container("c0"))
    assert reply.unified == {"misc.max": "sgx_epc 4096"}
    assert ("this processor has no SGX" in caplog.text) is not present
    assert ("the container has a limit, but this processor has no SGX" in caplog.text) is not present
    assert ("cannot read" in caplog.text) is (text == "gone")


def test_an_invalid_limit_refuses_the_container_with_its_key(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(SgxEpc(), idx="10")
    pod = make_pod(annotations={"epc-limit.nri.io/container.c0": "16Mi", "epc-limit.nri.io": "1"})
    with pytest.raises(nri.PluginRejected) as raised:
        nri_runtime.create_container(pod, make_container("c0"))
    lines = 'annotation epc-limit.nri.io/container.c0: "16Mi" is not a number of bytes; write a number'
    assert raised.value.reason.startswith(lines)


@pytest.mark.parametrize("annotations", [{}, {"epc-limit.nri.io": "0"}, {"epc-limit.nri.io/container.c1": "x"}])
def test_without_a_limit_the_container_is_unchanged(nri_runtime: FakeRuntime, annotations: dict[str, str]) -> None:
    nri_runtime.add(SgxEpc(), idx="10")
    assert nri_runtime.create_container(make_pod(annotations=annotations), make_container("c0")).unified == {}


def test_cpuinfo_without_flags_means_no_sgx() -> None:
    assert not has_sgx("Features : fp asimd\n")
