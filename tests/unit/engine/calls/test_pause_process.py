"""The program that holds a pod's process namespace, as a file; tests/engine runs it."""

import struct

import pytest

from nri.engine.calls.pod_creation import pause_program, pause_spec
from nri.engine.support.errors import EngineError


@pytest.mark.parametrize(("architecture", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_it_is_one_segment_that_begins_with_its_code_and_ends_with_the_action(architecture: str, number: int) -> None:
    program = pause_program(architecture)
    kind, machine, _, entry, table = struct.unpack_from("<HHIQQ", program, 16)
    assert (program[:5], kind, machine, table) == (b"\x7fELF\x02", 2, number, 64)
    load, flags, _, address, _, size, memory = struct.unpack_from("<IIQQQQQ", program, 64)
    assert (load, flags, size, memory) == (1, 5, len(program), len(program))
    assert entry == address + 120
    assert program.endswith(struct.pack("<4Q", 1, 2, 0, 0))  # SIG_IGN, SA_NOCLDWAIT


def test_the_code_points_to_the_action_behind_it() -> None:
    code = pause_program("x86_64")[120:-32]
    (offset,) = struct.unpack_from("<i", code, 13)
    assert code[10:13] == bytes.fromhex("488d35") and 17 + offset == len(code)
    words = struct.unpack("<13I", pause_program("aarch64")[120:-32])
    assert words[1] == 0x10000000 | (52 - 4) // 4 << 5 | 1
    assert words[12] & 0x3FFFFFF == (6 - 12) & 0x3FFFFFF


def test_a_machine_that_it_is_not_written_for_is_named() -> None:
    with pytest.raises(EngineError, match="s390x"):
        pause_program("s390x")


def test_it_joins_what_is_pinned_and_leaves_host_name_and_sysctls_alone() -> None:
    spec = {
        "hostname": "web",
        "linux": {"sysctl": {"a.b": "1"}, "namespaces": [{"type": "pid"}, {"type": "network"}], "resources": {}},
    }
    spec_ = pause_spec(spec, {"network": "/run/n"})
    assert spec_ == {"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/n"}], "resources": {}}}
    assert spec["linux"]["sysctl"]  # type: ignore[index]
