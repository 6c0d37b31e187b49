"""The outcome of a program as Kubernetes's clients read it: a metav1.Status as JSON, or a text in old protocols."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Status"]

#: Longer texts are cut, in characters: some client shows them on one line.
_LIMIT = 16384


class Status(NamedTuple):
    """An exit code, or why there is none."""

    code: int = 0
    error: str = ""

    @property
    def message(self) -> str:
        """For a person; empty if all went well."""
        if self.error:
            return f"Internal error occurred: error executing command in container: {self.error[:_LIMIT]}"
        return f"command terminated with non-zero exit code: exit status {self.code}" if self.code else ""

    def text(self) -> bytes:
        """For the protocols before v4: nothing, or the message."""
        return self.message.encode(errors="replace")

    def json(self) -> bytes:
        """For v4 and v5."""
        found: dict[str, Any] = {"metadata": {}, "status": "Failure" if self.message else "Success"}
        if self.message:
            found["message"] = self.message
        if self.error:
            found |= {"reason": "InternalError", "code": 500}
        elif self.code:
            causes = [{"reason": "ExitCode", "message": str(self.code)}]
            found |= {"reason": "NonZeroExitCode", "details": {"causes": causes}}
        return json.dumps(found).encode(errors="replace")
