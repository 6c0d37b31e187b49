"""The error of the apiserver's client, with the status that tells what to do about it.

Next: `nri.kube.client.connection`, which raises it.
"""

from __future__ import annotations

from nri.errors import NriError
from nri.text import plain

__all__ = ["ApiserverError"]

_GONE = 410
#: An apiserver that was asked for a version that it has not reached answers 504, and so does one that is busy.
_TOO_NEW = "Too large resource version"
_HINTS = {
    401: "is the token still good?",
    403: "see the roles in deploy/agent/rbac.yaml",
    404: "is its CustomResourceDefinition installed?",
}


class ApiserverError(NriError):
    """The apiserver cannot be asked, or refuses.

    Attributes:
        what: what was asked: "list nodeslos.slo.koordinator.sh".
        status: of HTTP, or 0 if there was no answer.
        reason: in a few words, the apiserver's own if it gave some.
        retry_after_s: how long it wants to be left alone, 0 if it does not say.
    """

    def __init__(self, what: str, status: int, reason: str, retry_after_s: float = 0.0) -> None:
        hint = _HINTS.get(status, "")
        told = plain(reason, 300)
        super().__init__(f"cannot {what}: {told}" + (f" ({hint})" if hint else ""))
        self.what = what
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def expired(self) -> bool:
        """Whether the version that was asked for is one that the apiserver does not have: all must be listed anew."""
        return self.status == _GONE or _TOO_NEW in self.reason
