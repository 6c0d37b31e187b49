"""Deviations from the Go library and from containerd, one attribute each, in a frozen value.

An attribute is False in `Rules.REFERENCE` and True in `Rules.DEFAULT`; its name states the behaviour if it is True.
Code checks the attribute, never the mode. Every attribute has a row in ``docs/deviations.md``, and tests in both modes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Rules:
    """Behaviour that deviates from the Go library: `Rules()` deviates, `Rules.REFERENCE` behaves the same."""

    REFERENCE: ClassVar[Rules]
    DEFAULT: ClassVar[Rules]

    # --- merging adjustments
    removals_reach_reply: bool = True
    """The removal of a variable or device reaches the runtime, which also removes the image's entry.

    :Reference: It is hidden from the runtime.
    :Why: A variable or device of the image could not be removed.
    """
    last_word_wins: bool = True
    """The reply has a key once, as set or as removed, whichever came last. Later plugins see the removal.

    :Reference: A reply can have `k` and `-k` together; the runtime applies them in random order. Later plugins get `k`.
    :Why: The outcome was random.
    """
    removal_frees_key: bool = True
    """A removal claims nothing, for every kind of key, and leaves the key to the next plugin.

    :Reference: Annotation, sysctl, network device: the old owner stays. Variable, device, mount: the remover becomes
        the owner. Namespace: two removals conflict.
    :Why: One rule replaces three; two plugins that remove the same key do not conflict.
    """
    same_plugin_may_repeat: bool = True
    """The last value of a plugin that sets a key or field twice counts.

    :Reference: Such a plugin conflicts with itself.
    :Why: A conflict requires two plugins.
    """
    literal_marks_refused: bool = True
    """A removal mark on a field that cannot be removed is an error instead of a strange name.

    :Reference: In rlimits, CDI devices, huge page sizes and cgroup v2 keys, a removal mark is a part of the name.
    :Why: These fields cannot be removed; the runtime would fail later, without naming the plugin.
    """
    limits_replace: bool = True
    """A resource or huge page limit replaces the limit of the same type.

    :Reference: It is appended to this limit.
    :Why: A type may occur once; OCI runtimes refuse duplicates.
    """
    args_reset_shows_original: bool = True
    """Arguments that are only the override mark restore the original arguments, and claim nothing.

    :Reference: They claim the command line and show later plugins an empty one, but the runtime runs the original.
    :Why: Plugins get the command line that will run.
    """
    rdt_removal_kept: bool = True
    """A removal of RDT settings stays in force when some of them are set afterwards.

    :Reference: Setting one of them cancels the removal of all.
    :Why: A plugin requested the removal.
    """
    hooks_only_when_set: bool = True
    """The request to validators has a hooks object only if a plugin set hooks.

    :Reference: It always has one.
    :Why: A validator that refuses hooks refused every container.
    """
    rdt_only_when_asked: bool = True
    """The reply has an RDT object only if a plugin set RDT.

    :Reference: Any adjustment below `linux` adds an empty RDT object to the reply.
    :Why: The presence of an object has a meaning.
    """
    later_plugins_see_all: bool = True
    """Later plugins see RDT and CDI adjustments, like all others.

    :Reference: They do not see them.
    :Why: Each plugin decides on the container as it will be created.
    """

    # --- merging updates and evictions
    pids_in_updates: bool = True
    """A process limit in an update is applied; no plugin claims the limit in the runtime's request.

    :Reference: A process limit in an update is dropped. If the runtime's request has one, the second plugin that
        updates the container fails.
    :Why: It is a resource like the others.
    """
    ignored_update_rolls_back: bool = True
    """A failed update with `ignore_failure` leaves nothing behind, not even its claims.

    :Reference: It keeps its claims and adds an empty update.
    :Why: An ignored failure must have no effect.
    """
    absent_containers_left_out: bool = True
    """An update or eviction of a missing container is omitted and reported, or kept until the container is created.

    :Reference: They are passed to the runtime.
    :Here: Updates and evictions without a container id, or of a missing container, are omitted and reported: in
        `reply.ignored`, provenance, a metric and the log; unsolicited ones as failed. Updates of a container that is
        being created wait until it exists.
    :Why: Existing plugins (koordlet, topology-aware, balloons) often send such updates.
    """
    ignore_failure_covers_self_update: bool = True
    """A request with `ignore_failure` to update the container being created is skipped.

    :Reference: Such a request fails the creation, even with `ignore_failure`.
    :Why: This is the meaning of `ignore_failure`.
    """
    empty_updates_change_nothing: bool = True
    """An update without resources is dropped.

    :Reference: An update without resources sets empty resources; for the event's own container it replaces the
        kubelet's request by zeros.
    :Why: It cancelled the kubelet's resize.
    """
    evictions_kept: bool = True
    """Evictions in replies reach the runtime.

    :Reference: They are dropped.
    :Why: Evictions by plugins had no effect.
    """

    # --- limits
    event_replies_limited: bool = True
    """The reply to an event is limited in entries and bytes, and leaves space for the next request; otherwise it fails.

    :Reference: Only the message length limits it; the next plugin fails if its request becomes too long.
    :Here: A reply to an event has at most 16,000 entries and 2 MiB. A larger reply fails the request and names its
        plugin, before it is merged.
    :Why: A reply of 230 kB delayed all events for 18 seconds. A policy for 1,000 containers with 14 fields each fits.
    """
    other_updates_limited: bool = True
    """A plugin's updates at Synchronize or unsolicited are limited in entries, by the number of containers.

    :Reference: No limit.
    :Here: A reply to Synchronize, or unsolicited updates, have at most 16 entries for each container, and 16,000 in
        total. More entries refuse the registration or the request, and name the plugin.
    :Why: Adjusting every container of a big node at once is harmless.
    """

    # --- failure policy
    late_answer_costs_event: bool = True
    """A plugin that answers late stays connected, unless the operator configures otherwise; it loses only that event.

    :Reference: It is disconnected, unless it declared otherwise.
    :Here: A plugin that answers late stays connected, unless the operator configures otherwise; it loses only that
        event.
    :Why: One slow answer removed the plugin permanently: the most reported fault.
    """
    declared_failure_spares_stop: bool = True
    """A plugin's own failure policy does not fail Stop and Remove; the operator's policy does.

    :Reference: `fail_request` fails every unanswered request, including Stop and Remove.
    :Here: A plugin's declaration does not apply to Stop and Remove; an operator's policy does.
    :Why: A hung plugin prevented a node from removing pods.
    """
    open_breaker_lets_go: bool = True
    """While a plugin is left out, only requests that the operator protects are refused, whatever the plugin declared.

    :Reference: There is no breaker; in this mode `fail_request` also applies while the plugin is left out.
    :Here: While the plugin is left out, and for its next trial, only `required` refuses requests; Stop and Remove
        always pass.
    :Why: A hung plugin blocked the node's pods permanently.
    """

    turns_bounded: bool = True
    """An event waits for its turn at a plugin for at most two of its timeouts; then the plugin counts as not answering.

    :Reference: It waits without limit: behind 60 events, for 60 timeouts.
    :Here: An event waits for its turn at a plugin for two of that plugin's timeouts, then counts as not answered. It
        may then overtake events that still wait. The plugin stays connected. Plugins inside the runtime have no
        timeout.
    :Why: A slow plugin delayed the whole node, and its breaker never opened.
    """
    disposal_passes_others: bool = True
    """Stop and Remove overtake waiting events of other pods, but never an earlier event of their own pod.

    :Reference: They wait behind every earlier event.
    :Why: A node must be able to remove pods while a plugin is slow.
    """
    silence_counts_for_all: bool = True
    """A plugin's silence counts for all events that wait for it, and costs each event at most 1.5 timeouts.

    :Reference: It waits for a full timeout, however long the plugin has been silent.
    :Here: An event waits at a silent plugin for at most 1.5 timeouts. The breaker counts a miss for each full timeout
        of silence.
    :Why: The fourth of four pods waited four times as long as one pod.
    """

    reports_at_once: bool = True
    """A notification of a completed step goes to all plugins at once, also to plugins after a plugin that fails it.

    :Reference: They go from plugin to plugin; an error hides the event from later plugins.
    :Here: PostCreateContainer, PostStartContainer, PostUpdateContainer and PostUpdatePodSandbox go to all plugins at
        once. The first error by index counts. `Adaptation(fan_out=EventMask(0))` sends them one by one.
    :Why: Plugins cannot prevent these steps. Plugins that track containers missed some; with ten plugins the
        notification takes a third less time.
    """

    # --- life
    events_need_start: bool = True
    """An event before `start` or after `stop` is an error.

    :Reference: Such an event passes, without plugins.
    :Why: A container that was created without all plugins, including required plugins, is discovered much later.
    """

    # --- plugins
    live_socket_kept: bool = True
    """A socket on which another process listens is not replaced; the start fails and names the path.

    :Reference: The start removes the file at the socket path.
    :Here: If another process listens on the socket, the start fails and names the path.
    :Why: The first runtime got no more connections, and both runtimes looked healthy.
    """
    conflict_keys_escaped: bool = True
    """The key in the message of a conflict is short, printable, and on one line.

    :Reference: The message of a conflict has the key as the plugin wrote it.
    :Why: A plugin must not write its own lines into logs.
    """
    errors_name_plugin: bool = True
    """The error of a failed event begins with the plugin's name.

    :Reference: It does not name the plugin.
    :Why: Operators look for the plugin.
    """
    duplicates_refused: bool = True
    """A second plugin with the index and name of a connected plugin is refused.

    :Reference: Both are accepted; they share claims and conflict with each other.
    :Why: It is nearly always the same plugin, started twice.
    """
    unknown_events_masked: bool = True
    """A plugin that subscribes to unknown events gets all other events, and a warning is logged.

    :Reference: It is refused.
    :Why: A plugin that was built for a newer runtime works with this runtime.
    """
    registers_once: bool = True
    """A second registration on a connection is refused.

    :Reference: It changes the plugin's identity.
    :Why: Ownership and policy depend on the name.
    """
    updates_need_registration: bool = True
    """Updates of a plugin that is not configured yet are refused.

    :Reference: They are accepted, even from connections that have not registered.
    :Why: The sender is unknown.
    """
    bad_files_skipped: bool = True
    """A file in the plugin folder with a wrong name, or that others may write, is reported and skipped.

    :Reference: It prevents the start of all plugins.
    :Here: A badly named file in the plugin folder is reported and skipped. So are files that other users control: only
        root or the runtime's user may own and write the file, its folders and links, its drop-in and a script's
        interpreter.
    :Why: One file must not prevent all plugins, and plugins run with the runtime's rights.
    """
    launched_plugins_restart: bool = True
    """A launched plugin is started again when it dies or its configuration changes.

    :Reference: It is missing until the runtime restarts.
    :Why: No other program can start it.
    """
    wasm_events_optional: bool = True
    """A plugin in WebAssembly without the functions of some events is loaded, but not called for these events.

    :Reference: It is not loaded.
    :Here: A WebAssembly plugin without the function of one event is loaded, but not called for that event. If it
        subscribes to the event, it is refused.
    :Why: Every plugin that is older than an event was refused.
    """
    shutdown_is_sent: bool = True
    """Plugins get Shutdown when the runtime stops.

    :Reference: Plugins get no message.
    :Why: The protocol documents it.
    """
    synchronize_timeout_per_message: bool = True
    """Every part of a split Synchronize has the full request timeout.

    :Reference: All parts share one request timeout.
    :Why: Big nodes could not be synchronized in time.
    """
    lost_validators_refuse: bool = True
    """A validator that disconnects during a creation fails the creation.

    :Reference: Such a validator is skipped.
    :Why: The validator was connected when the creation began, and has not agreed to it.
    """
    indexed_names_exact: bool = True
    """A required plugin that is named with its index is only that plugin.

    :Reference: A plugin `10-guard` with index 99 counts as the required plugin `10-guard`.
    :Why: A plugin chooses its name.
    """
    validators_see_answerers: bool = True
    """Validators get the plugins that answered.

    :Reference: Validators get the plugins that were to be called.
    :Why: A required plugin that timed out counted as present.
    """
    unsolicited_evictions_kept: bool = True
    """Unsolicited evictions reach the runtime.

    :Reference: They are dropped.
    :Why: As for replies.
    """

    # --- the OCI spec
    env_adjustment_wins: bool = True
    """The last value of a variable in the adjustment counts.

    :Reference: If the spec has a variable twice, its second entry wins. A variable that is set and then removed is set
        if the spec lacks it.
    :Why: The adjustment had no effect, or the opposite effect.
    """
    bare_env_kept: bool = True
    """An entry of the spec's environment without "=" stays when variables are adjusted.

    :Reference: Any adjustment of a variable removes it.
    :Why: No plugin requested its removal.
    """
    rlimits_replace: bool = True
    """A resource limit replaces the spec's limit of the same type.

    :Reference: It is appended.
    :Why: OCI runtimes refuse two limits of one type.
    """
    removal_takes_all: bool = True
    """Removing or replacing a mount, device or namespace affects all entries of that name.

    :Reference: It affects the first entry.
    :Why: A removed entry was still present.
    """
    device_removal_revokes: bool = True
    """Removing a device removes its rule in the device cgroup; adding it again adds one rule.

    :Reference: The device cgroup still allows a removed device, and has two rules for a device that is added again.
    :Why: The container could create the device node again.
    """
    device_access_follows_mode: bool = True
    """The device cgroup allows reading and writing an added device according to its file mode.

    :Reference: Each added device may be read and written.
    :Here: The read and write bits of an added device's file mode decide; without such bits, both are allowed.
    :Why: The mode expresses the wanted access.
    """
    time_namespace_known: bool = True
    """Time namespaces can be adjusted like other namespaces.

    :Reference: `time` is unknown.
    :Why: The OCI spec has time namespaces.
    """
    seccomp_errno_kept: bool = True
    """The default errno of a seccomp policy reaches the spec.

    :Reference: It is dropped.
    :Why: The policy returned another error than configured.
    """
    unknown_values_refused: bool = True
    """A number that is not a value of its enum is an error.

    :Reference: It becomes an empty name in the spec.
    :Why: The OCI runtime would fail later, without naming the plugin.
    """
    all_memory_fields_applied: bool = True
    """All memory settings reach the spec, with a separate swap limit if it is set.

    :Reference: Only the memory limit is applied, and swap is set to the same value.
    :Why: The API has these settings, and plugins set them.
    """
    unlimited_pids_applied: bool = True
    """A process limit of -1 removes the spec's limit.

    :Reference: It has no effect.
    :Why: -1 means no limit.
    """
    propagation_per_mount: bool = True
    """A mount has only its own propagation option, and only a bind mount's source is checked for propagation.

    :Reference: A mount without the option gets that of the previous mount; sources that are not paths are checked; /dat
        counts as a parent of /data.
    :Why: Mounts failed because of options of other mounts.
    """
    unresolved_refused: bool = True
    """CDI devices and block-I/O and RDT classes that a runtime cannot resolve are an error.

    :Reference: They are ignored.
    :Why: A container without its device fails later, without naming the plugin.
    """


Rules.DEFAULT = Rules()
Rules.REFERENCE = Rules(**dict.fromkeys((f.name for f in fields(Rules)), False))
