"""Annotations of pods and containers that reach the OCI runtime, or that the engine acts on.

Authors of pods write annotations, so each of them is used only as far as the operator's settings permit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

#: Prefixes of annotations on which OCI runtimes act, for example to run a program or to write a file of the node.
_POWERFUL = (
    "run.oci.", "org.systemd.property.", "org.criu.", "krun.", "module.wasm.image/", "io.katacontainers.",
    "dev.gvisor.",
)  # fmt: skip
#: The annotations that `allowed_annotations` may name.
DEVICES, UMASK, WRITABLE_CGROUP = (
    "io.kubernetes.cri-o.Devices",
    "io.kubernetes.cri-o.umask",
    "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw",
)
ALLOWABLE = (DEVICES, UMASK, WRITABLE_CGROUP)


class ClassAnnotation(NamedTuple):
    """An annotation that names the class of a container, or with `is_of_pod` of all containers of the pod."""

    key: str
    class_name: str
    is_of_pod: bool


def parse_pattern(text: str) -> str:
    """Check a pattern for names of annotations, of the form of Go's ``path.Match``. Raises ValueError."""
    start = text.find("[")
    if not text or "\\" in text or (start >= 0 and text.find("]", start + 2) < 0):
        raise ValueError(f'"{text}" must be a name that may contain *, ? and [a-z], without backslashes')
    return text


def parse_allowable(text: str) -> str:
    """Check the name of an annotation that the engine can act on. Raises ValueError."""
    if text not in ALLOWABLE:
        raise ValueError(f'"{text}" is not an annotation that the engine acts on; known: {", ".join(ALLOWABLE)}')
    return text


def passed_annotations(annotations: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """The annotations whose names match a pattern.

    An annotation on which OCI runtimes act has to match a pattern that starts with the same prefix, so that ``*`` does
    not let every author of a pod command the OCI runtime.
    """
    return {name: value for name, value in annotations.items() if any(_is_match(name, pattern) for pattern in patterns)}


def _is_match(name: str, pattern: str) -> bool:
    # A wildcard matches no slash, so the numbers of slashes are equal.
    if name.count("/") != pattern.count("/") or not fnmatchcase(name, pattern.replace("[^", "[!")):
        return False
    return all(pattern.startswith(prefix) for prefix in _POWERFUL if name.startswith(prefix))


def class_annotation(
    kind: str, container_name: str, container_annotations: Mapping[str, str], pod_annotations: Mapping[str, str]
) -> ClassAnnotation | None:
    """The annotation with the class of a container, as in goresctrl; `kind` is ``rdt`` or ``blockio``.

    The container's annotation comes first, then the pod's for this container, then the pod's for all.
    """
    key = f"io.kubernetes.cri.{kind}-class"
    if key in container_annotations:
        return ClassAnnotation(key, container_annotations[key], False)
    prefix = f"{kind}.resources.beta.kubernetes.io"
    for key in (f"{prefix}/container.{container_name}", f"{prefix}/pod"):
        if key in pod_annotations:
            return ClassAnnotation(key, pod_annotations[key], True)
    return None


def allowed_values(
    allowed: Iterable[str], container_annotations: Mapping[str, str], pod_annotations: Mapping[str, str]
) -> dict[str, str]:
    """The values of allowed annotations; those of the container come first."""
    annotations = {**pod_annotations, **container_annotations}
    return {name: annotations[name] for name in allowed if name in annotations}
