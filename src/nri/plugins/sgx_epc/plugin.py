"""`sgx-epc`: limit the encrypted memory of Intel SGX (EPC) of a container, by an annotation that sets `misc.max`."""

from __future__ import annotations

import re

import nri
from nri.plugins.annotations import find
from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

KEY = "epc-limit.nri.io"
CPUINFO = "/proc/cpuinfo"
#: The limit has 64 bits.
MAX_EPC_BYTES = 2**64 - 1


class SgxEpc(nri.Plugin):
    """Limit the encrypted memory (EPC) of Intel SGX that containers use, by an annotation."""

    name = "sgx-epc"
    sets = ("linux.resources.unified.misc.max",)
    annotations: ClassVar[Mapping[str, str]] = {KEY: "limit of encrypted memory in bytes; 0: no limit"}

    def __init__(self) -> None:
        self.present = False

    def configure(self) -> None:
        try:
            with open(CPUINFO, encoding="utf-8", errors="replace") as file:
                self.present = has_sgx(file.read(1 << 20))
        except OSError as error:
            self.log.warning("cannot read %s: %s", CPUINFO, error.strerror or error)
        if not self.present:
            self.log.warning("this processor has no SGX: the kernel will refuse each limit, and the container fails")

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        annotation = find(pod, container.name, KEY)
        if annotation is None:
            return None
        if not re.fullmatch("[0-9]{1,32}", annotation.text) or int(annotation.text) > MAX_EPC_BYTES:
            advice = "write a number of bytes, such as 16777216, or 0 for no limit"
            raise annotation.refusal("", f"{quote(annotation.text[:64])} is not a number of bytes", advice)
        limit = int(annotation.text)
        if not limit:
            return None
        if not self.present:
            self.log.warning("the container has a limit, but this processor has no SGX")
        self.log.info("encrypted memory: at most %d bytes", limit)
        return nri.Adjustment().add_unified("misc.max", f"sgx_epc {limit}")


def has_sgx(cpuinfo: str) -> bool:
    """Whether the content of `/proc/cpuinfo` lists the flag `sgx`."""
    match = re.search(r"^flags\s*:(.*)", cpuinfo, re.MULTILINE)
    return match is not None and "sgx" in match[1].split()


if __name__ == "__main__":
    SgxEpc.main()
