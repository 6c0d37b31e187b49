"""The differences from the reference: one attribute each, in one frozen value.

An attribute is False in `Rules.REFERENCE` and True in `Rules.DEFAULT`; its name says what is the case if it is True.
Code checks the attribute, never the mode. Every attribute has a row in ``docs/deviations.md`` with the reason, and
tests in both modes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The choices where the reference surprises its users: `Rules()` is what they expect, `Rules.REFERENCE` exact."""

    REFERENCE: ClassVar[Rules]
    DEFAULT: ClassVar[Rules]

    # --- merging adjustments
    removals_reach_reply: bool = True
    """Removing an environment variable or a device reaches the runtime, so that one of the image goes away too."""
    last_word_wins: bool = True
    """The reply holds a key once, as set or as removed, whichever came last; later plugins see a removal."""
    removal_frees_key: bool = True
    """A removal is recorded as such for every kind of key, claims nothing, and leaves the key to the next plugin."""
    same_plugin_may_repeat: bool = True
    """One plugin may set a key or field twice in one reply; its last value counts."""
    literal_marks_refused: bool = True
    """A removal mark on a field that knows no removal is an error and not a strange name."""
    limits_replace: bool = True
    """A resource limit or huge page limit replaces the one of the same type, in requests and in updates."""
    args_reset_shows_original: bool = True
    """Arguments that are only the override mark give the container its own arguments back and claim nothing."""
    rdt_removal_kept: bool = True
    """Removing RDT settings stays in force when some of them are set afterwards."""
    hooks_only_when_set: bool = True
    """The request to validators has hooks in its adjustment only if a plugin set some."""
    rdt_only_when_asked: bool = True
    """The reply has an RDT object only if a plugin gave one."""
    later_plugins_see_all: bool = True
    """RDT and CDI adjustments are shown to later plugins like all others."""

    # --- merging updates and evictions
    pids_in_updates: bool = True
    """A process limit in an update is applied, and the runtime's own one is claimed by no plugin."""
    ignored_update_rolls_back: bool = True
    """An update whose failure is to be ignored leaves nothing behind when it fails, claims included."""
    absent_containers_left_out: bool = True
    """An update or eviction of a container that is not there is left out and reported, or kept until it is created."""
    ignore_failure_covers_self_update: bool = True
    """Asking for an update of the container being created is skipped, not fatal, if failure is to be ignored."""
    empty_updates_change_nothing: bool = True
    """An update without any resource is dropped, and never replaces the orchestrator's request by zeros."""
    evictions_kept: bool = True
    """Evictions in the replies to events reach the runtime."""

    # --- limits
    event_replies_limited: bool = True
    """The reply to an event has a most of entries and bytes, and leaves room for the next request: else it fails."""
    other_updates_limited: bool = True
    """A plugin's updates at Synchronize or by itself have a most of entries, by the number of containers."""

    # --- failure policy
    late_answer_costs_event: bool = True
    """A plugin that answers late stays connected, unless the operator wants otherwise; it loses that event only."""
    declared_failure_spares_stop: bool = True
    """A plugin's own failure policy fails no Stop and no Remove that it does not answer; the operator's does."""
    open_breaker_lets_go: bool = True
    """While a plugin is left out, only what the operator requires is refused, whatever the plugin declared."""

    turns_bounded: bool = True
    """An event waits for its turn at a plugin for two of its timeouts at most; then that is the plugin's miss."""
    disposal_passes_others: bool = True
    """Stop and Remove pass waiting events of other pods, never an earlier one of their own."""
    silence_counts_for_all: bool = True
    """A plugin's silence counts for all events that wait for it, and costs each one and a half timeouts at most."""

    reports_at_once: bool = True
    """A report of something done goes to all plugins at once, also to those behind one that fails it."""

    # --- life
    events_need_start: bool = True
    """An event before `start` or after `stop` is an error, and not an event without plugins."""

    # --- plugins
    live_socket_kept: bool = True
    """A socket on which another process listens is not taken over; the start fails by name."""
    conflict_keys_escaped: bool = True
    """The key in the text of a conflict is one short line that prints."""
    errors_name_plugin: bool = True
    """The error of a failed event begins with the plugin that failed it."""
    duplicates_refused: bool = True
    """A second plugin with the index and name of one that is connected is refused, by name."""
    unknown_events_masked: bool = True
    """A plugin that subscribes to events which are newer than this runtime gets the others, and a warning says so."""
    registers_once: bool = True
    """A plugin that registers again on the same connection is refused; its identity stays."""
    updates_need_registration: bool = True
    """Updates of a plugin that is not configured yet are refused."""
    bad_files_skipped: bool = True
    """A file in the plugin folder with a wrong name, or that others may write, is reported and skipped."""
    launched_plugins_restart: bool = True
    """A plugin that the runtime launched is started again when it dies or its configuration changes."""
    wasm_events_optional: bool = True
    """A plugin in WebAssembly that lacks the functions of some events is loaded, and not asked about these."""
    shutdown_is_sent: bool = True
    """Plugins get Shutdown when the runtime stops."""
    synchronize_timeout_per_message: bool = True
    """Every part of a split Synchronize has the whole request timeout."""
    lost_validators_refuse: bool = True
    """A validator that leaves while a creation is on its way fails it."""
    indexed_names_exact: bool = True
    """A required plugin that is named with its index is that plugin, and not one whose own name reads like it."""
    validators_see_answerers: bool = True
    """Validators see the plugins that answered, not those that were about to be called."""
    unsolicited_evictions_kept: bool = True
    """Evictions that a plugin asks for by itself reach the runtime."""

    # --- the OCI spec
    env_adjustment_wins: bool = True
    """A variable is what the adjustment said last of it, however often the spec has it."""
    bare_env_kept: bool = True
    """An entry of the spec's environment without "=" stays when variables are adjusted."""
    rlimits_replace: bool = True
    """A resource limit replaces the spec's one of the same type."""
    removal_takes_all: bool = True
    """Removing, or replacing, a mount, device or namespace takes all entries of that name, not the first alone."""
    device_removal_revokes: bool = True
    """Removing a device takes away the device cgroup's rule for it, and adding one again adds no second rule."""
    device_access_follows_mode: bool = True
    """The device cgroup allows an added device to be read and written as its file mode says."""
    time_namespace_known: bool = True
    """Time namespaces can be adjusted like the others."""
    seccomp_errno_kept: bool = True
    """The default errno of a seccomp policy reaches the spec."""
    unknown_values_refused: bool = True
    """A number that is no value of an enum is an error and not an empty name in the spec."""
    all_memory_fields_applied: bool = True
    """All memory settings reach the spec, swap by itself where it is given."""
    unlimited_pids_applied: bool = True
    """A process limit of -1 takes the spec's limit away."""
    propagation_per_mount: bool = True
    """A mount's propagation is its own, and asked of its source's mount only if it is bound."""
    unresolved_refused: bool = True
    """CDI devices and block-I/O and RDT classes of which a runtime knows nothing are an error."""


Rules.DEFAULT = Rules()
Rules.REFERENCE = Rules(**dict.fromkeys((f.name for f in fields(Rules)), False))
