"""`sgx-epc`: limit the encrypted memory of Intel SGX (EPC) that a container may use, by an annotation.

One job: one annotation to `misc.max` of cgroup v2. How annotations are found is in `nri.plugins.annotations`.
"""

from __future__ import annotations

import re

import nri
from nri.plugins.annotations import find
from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

__all__ = ["SgxEpc", "has_sgx"]

KEY = "epc-limit.nri.io"
CPUINFO = "/proc/cpuinfo"
#: The greatest number of 64 bits.
MAX_EPC_BYTES = 2**64 - 1


class SgxEpc(nri.Plugin):
    """Limit the encrypted memory (EPC) of Intel SGX that containers use, by an annotation."""

    name = "sgx-epc"
    sets = ("linux.resources.unified.misc.max",)
    annotations: ClassVar[Mapping[str, str]] = {KEY: "bytes of encrypted memory at most; 0: no limit"}

    def __init__(self) -> None:
        self.present = False

    def configure(self) -> None:
        try:
            with open(CPUINFO, encoding="utf-8", errors="replace") as lines:
                self.present = has_sgx(lines.read(1 << 20))
        except OSError as error:
            self.log.warning("cannot read %s: %s", CPUINFO, error.strerror or error)
        if not self.present:
            self.log.warning("the processor here has no SGX: the kernel will refuse every limit, and its container")

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        annotation = find(pod, container.name, KEY)
        if annotation is None:
            return None
        if not re.fullmatch("[0-9]{1,32}", annotation.text) or int(annotation.text) > MAX_EPC_BYTES:
            step = "write bytes, such as 16777216; 0 for no limit"
            raise annotation.refusal("", f"{quote(annotation.text[:64])} is not a number of bytes", step)
        limit = int(annotation.text)
        if not limit:
            return None
        if not self.present:
            self.log.warning("a limit, and no SGX here")
        self.log.info("encrypted memory: %d bytes at most", limit)
        return nri.Adjustment().add_unified("misc.max", f"sgx_epc {limit}")


def has_sgx(cpuinfo: str) -> bool:
    """Whether a processor of this `/proc/cpuinfo` has SGX."""
    match = re.search(r"^flags\s*:(.*)", cpuinfo, re.MULTILINE)
    return match is not None and "sgx" in match[1].split()


if __name__ == "__main__":
    SgxEpc.main()
