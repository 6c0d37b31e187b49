"""The last good text of pods' annotations, which counts while a newer one cannot be read.

Rules: of the pods that run, and of no others. A pod whose annotation was taken away has none. Next:
`nri.agent.pods.verbose_info`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["LastGoodAnnotations"]


class LastGoodAnnotations:
    """Texts by pod and annotation. For one thread."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """The number of texts that are kept."""
        return len(self._texts)

    def keep(self, uid: str, key: str, annotations: Mapping[str, str]) -> None:
        """Keep a pod's annotation, because it could be read, or that the pod has none."""
        text = annotations.get(key)
        if text:
            self._texts[uid, key] = text
        else:
            self._texts.pop((uid, key), None)

    def instead(self, uid: str, key: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
        """The annotations with the last good text of one; None if it never had one."""
        text = self._texts.get((uid, key))
        return None if text is None else {**annotations, key: text}

    def only(self, uids: Collection[str]) -> None:
        """Forget all other pods."""
        for uid, key in [each for each in self._texts if each[0] not in uids]:
            del self._texts[uid, key]
