"""The right to use a plugin's name. It depends on the process, not on what the process declares.

A plugin that connects chooses its index and name, and these select its policy. So a policy also limits which processes
may use the plugin's name: by the user of the process (``uid``, from the kernel), and by whether this runtime has
launched the process (``launched``). Another process is refused when it registers, or disconnected when the policy
changes. Plugins inside the runtime are trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.plugin_policy.policy import PluginPolicy


def refusal(policy: PluginPolicy, label: str, *, launched: bool, uid: int | None) -> str:
    """The reason why a process may not be the plugin with this ``NN-name``, or "" if it may.

    Args:
        launched: whether this runtime has started the process.
        uid: the user of the process, None if unknown.
    """
    if policy.strict:
        return f"plugin {label} has no policy, and plugins without a policy are refused (strict)"
    if policy.launched is not None and policy.launched is not launched:
        required = "be launched by the runtime" if policy.launched else "connect by itself"
        return f"plugin {label} must {required}: its policy has launched = {str(policy.launched).lower()}"
    if policy.uid is not None and uid not in policy.uid:
        users = f"uid {', '.join(map(str, policy.uid))}" if policy.uid else "no user"
        user_text = "an unknown user" if uid is None else f"user {uid}"
        return f"{user_text} may not be plugin {label}: its policy allows {users}"
    return ""
