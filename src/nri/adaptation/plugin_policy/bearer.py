"""The right to bear a plugin's name: rules for a name hold for what a plugin is, not for what it says.

A plugin that connects chooses its index and name, and policies go by these. So a policy also says whose process may
bear its name: which user's (``uid``, as the kernel tells), and whether one that this runtime has launched
(``launched``). One that may not is refused when it registers, and cut off when the policy changes under it. Plugins
inside the runtime are the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.adaptation.plugin_policy.policy import PluginPolicy

__all__ = ["refusal"]


def refusal(policy: PluginPolicy, label: str, *, launched: bool, uid: int | None) -> str:
    """Say why this process may not be the plugin of this ``NN-name``; "" if it may.

    Args:
        launched: this runtime has started it.
        uid: its user, None if the kernel does not tell.
    """
    if policy.strict:
        return f"no policy names plugin {label}, and unknown plugins are refused (strict)"
    if policy.launched is not None and policy.launched is not launched:
        wanted = "launched by the runtime" if policy.launched else "one that connects by itself"
        return f"plugin {label} must be {wanted} (launched)"
    if policy.uid is not None and uid not in policy.uid:
        who = "an unknown user" if uid is None else f"user {uid}"
        return f"{who} may not be plugin {label} (uid)"
    return ""
