"""The configuration of `differ` and the flags that set it. Next: `nri.plugins.differ.plugin`."""

from __future__ import annotations

from nri.stub.program.options import Flag

__all__ = ["FLAGS", "DifferConfig"]


class DifferConfig:
    """At which indices it connects, and how much it says.

    Attributes:
        indices: at least two, 0 to 99; from flags or `--config FILE`, because it is asked before there is a runtime.
        logFile: a file to append to instead of the program's log.
        verboseLevel: 0 changes only; 1 also what the first index gets; 2 also each message before and after; 3 also
            what Synchronize brings.
        yaml: differences as lines of YAML instead of fields.
    """

    indices: tuple[int, ...] = (0, 99)
    logFile: str = ""
    verboseLevel: int = 0
    yaml: bool = False

    def __post_init__(self) -> None:
        wrong = [index for index in self.indices if not 0 <= index <= 99]
        if wrong:
            raise ValueError(f"indices: {wrong[0]} is no index; they are 0 to 99")
        if len(set(self.indices)) < max(2, len(self.indices)):
            raise ValueError("indices: at least two are wanted, and each once; write 0,99")


FLAGS = {
    "indices": Flag("indices", "LIST", "connect at these indices, at least two (default 0,99)"),
    "verbose-level": Flag("verboseLevel", "N", "0 changes, 1 and the first data, 2 and all data, 3 and Synchronize"),
    "yaml": Flag("yaml", "", "print differences as lines of YAML"),
}
