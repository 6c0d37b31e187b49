"""The effective value of a plugin's annotation for a container of a pod.

The most specific of `KEY/container.NAME`, `KEY/pod` and `KEY` is used. Only annotations of the pod are read, because
users cannot write the annotations of a container.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.api.messages import PodSandbox

#: The domain of the NRI community's annotations.
DOMAIN = "noderesource.dev"
#: The annotation with a list of plugins. If one of them is missing, the default validator refuses the container.
REQUIRED_PLUGINS = "required-plugins." + DOMAIN
#: The strings for true and false in annotations, as in Go's strconv.ParseBool.
BOOLEANS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def keys(key: str, container_name: str = "") -> tuple[str, ...]:
    """The full keys to look up, the most specific first. Without a container's name, only the keys for the pod."""
    pod_keys = (f"{key}/pod", key)
    return (f"{key}/container.{container_name}", *pod_keys) if container_name else pod_keys


def scope_and_value(annotations: Mapping[str, str], key: str, container_name: str = "") -> tuple[int, str] | None:
    """The effective value with its scope, where 0 is the most specific scope. Returns None without a value."""
    for scope, full_key in enumerate(keys(key, container_name)):
        if full_key in annotations:
            return scope, annotations[full_key]
    return None


def effective_annotation(pod: PodSandbox, key: str, container_name: str = "") -> str | None:
    """The value of the annotation `key` for this container of the pod, or None. An empty value is valid."""
    match = scope_and_value(pod.annotations, key, container_name)
    return None if match is None else match[1]
