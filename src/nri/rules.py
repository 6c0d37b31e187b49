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
    """Removing an environment variable or a device reaches the runtime, so that the image's entry is removed, too.

    :Reference: Removing an environment variable or a device hides it from later plugins; the runtime is not notified.
    :Why: A variable or device of the image could not be removed.
    """
    last_word_wins: bool = True
    """The reply has a key once, as set or as removed, whichever came last; later plugins are shown the removal.

    :Reference: A reply can have `k` and `-k` together (one plugin sets `k`, another removes it); the order in which the
        runtime applies them is random. Later plugins still get `k`.
    :Why: The outcome was random.
    """
    removal_frees_key: bool = True
    """A removal is recorded as a removal for every kind of key, claims nothing, and leaves the key to the next plugin.

    :Reference: Fields differ. Annotation, sysctl, network device: the old owner stays. Variable, device, mount: the
        remover becomes the owner. Namespace: two removals conflict.
    :Why: One rule replaces three; two plugins that remove the same key do not conflict.
    """
    same_plugin_may_repeat: bool = True
    """One plugin may set a key or field twice in one reply; its last value counts.

    :Reference: A plugin that sets a key twice in one reply, or a field by two updates of one container, conflicts with
        itself.
    :Why: A conflict requires two plugins.
    """
    literal_marks_refused: bool = True
    """A removal mark on a field that cannot be removed is an error instead of a strange name.

    :Reference: `-RLIMIT_CORE` in rlimits is used as a name and passed on; the same for CDI devices, huge page sizes and
        cgroup v2 keys.
    :Why: These fields cannot be removed; the runtime would fail later, without naming the plugin.
    """
    limits_replace: bool = True
    """A resource limit or huge page limit replaces the limit of the same type, in requests and in updates.

    :Reference: A resource limit or huge page limit is appended to the limit of the same type, in requests to later
        plugins and in updates.
    :Why: A type may occur once; OCI runtimes refuse duplicates.
    """
    args_reset_shows_original: bool = True
    """Arguments that are only the override mark restore the container's own arguments, and claim nothing.

    :Reference: `args: [""]` shows later plugins an empty command line and claims it, although the runtime runs the
        original command line.
    :Why: Plugins get the command line that will run.
    """
    rdt_removal_kept: bool = True
    """Removing RDT settings stays in force when some of these settings are set afterwards.

    :Reference: Removing RDT settings and setting one of them cancels the removal of the other settings.
    :Why: A plugin requested the removal.
    """
    hooks_only_when_set: bool = True
    """The request to validators has hooks in its adjustment only if a plugin set hooks.

    :Reference: The request to validators always has a hooks object in its adjustment.
    :Why: A validator that refuses hooks refused every container.
    """
    rdt_only_when_asked: bool = True
    """The reply has an RDT object only if a plugin set RDT.

    :Reference: The reply has an empty RDT object whenever a plugin adjusted anything below `linux`.
    :Why: The presence of an object has a meaning.
    """
    later_plugins_see_all: bool = True
    """RDT and CDI adjustments are shown to later plugins like all other adjustments.

    :Reference: RDT and CDI adjustments are not shown to later plugins.
    :Why: Each plugin decides on the container as it will be created.
    """

    # --- merging updates and evictions
    pids_in_updates: bool = True
    """A process limit in an update is applied, and the limit in the runtime's request is not claimed by any plugin.

    :Reference: A process limit in an update is dropped. If the runtime's request has a process limit, the second plugin
        that updates the container fails.
    :Why: It is a resource like the others.
    """
    ignored_update_rolls_back: bool = True
    """A failed update with `ignore_failure` leaves nothing behind, not even its claims.

    :Reference: A failed update with `ignore_failure` keeps its claims, so that later plugins conflict with them, and
        adds an empty update.
    :Why: An ignored failure must have no effect.
    """
    absent_containers_left_out: bool = True
    """An update or eviction of a missing container is omitted and reported, or kept until the container is created.

    :Reference: An update or eviction without a container id, or of a container that does not exist, is passed to the
        runtime.
    :Here: It is omitted and reported: in `reply.ignored`, provenance, a metric, and one warning a minute for each
        plugin; if unsolicited, as failed. For a container that is being created, it is kept for the runtime's update
        callback.
    :Why: Existing plugins (koordlet, topology-aware, balloons) often send such updates.
    """
    ignore_failure_covers_self_update: bool = True
    """A request to update the container being created is skipped instead of fatal, if its failure is to be ignored.

    :Reference: A request to update the container that is being created fails the creation even with `ignore_failure`.
    :Why: This is the meaning of `ignore_failure`.
    """
    empty_updates_change_nothing: bool = True
    """An update without any resource is dropped, and never replaces the orchestrator's request by zeros.

    :Reference: An update without resources becomes an update with empty resources. For the updated container itself it
        replaces the orchestrator's request by zeros.
    :Why: It cancelled the kubelet's resize.
    """
    evictions_kept: bool = True
    """Evictions in the replies to events reach the runtime.

    :Reference: Evictions in replies to CreateContainer and UpdateContainer are dropped.
    :Why: Evictions by plugins had no effect.
    """

    # --- limits
    event_replies_limited: bool = True
    """The reply to an event is limited in entries and bytes, and leaves space for the next request; otherwise it fails.

    :Reference: A reply may be as long as a message; if the next plugin's request becomes too long because of it, that
        plugin fails.
    :Here: At most 16,000 entries and 2 MiB, with space for the next request. A larger reply fails the request and names
        its plugin, before it is merged or the next plugin is called.
    :Why: A reply of 230 kB delayed all events for 18 seconds. A policy for 1,000 containers with 14 fields each fits.
    """
    other_updates_limited: bool = True
    """A plugin's updates at Synchronize or unsolicited are limited in entries, by the number of containers.

    :Reference: Updates in a plugin's reply to Synchronize, or unsolicited, are not limited either.
    :Here: At most 16 entries for each existing container, and 16,000 in total. More entries fail this plugin and name
        it: it is not registered, or its request is refused.
    :Why: Adjusting every container of a big node at once is harmless.
    """

    # --- failure policy
    late_answer_costs_event: bool = True
    """A plugin that answers late stays connected, unless the operator configures otherwise; it loses only that event.

    :Reference: A plugin that answers late is disconnected, unless it declared otherwise.
    :Why: One slow answer removed the plugin permanently: the most reported fault.
    """
    declared_failure_spares_stop: bool = True
    """A plugin's own failure policy does not fail Stop and Remove; the operator's policy does.

    :Reference: A plugin that declares `fail_request` fails every request that it does not answer, including Stop and
        Remove.
    :Here: The plugin's declaration does not apply to stopping and removing pods and containers; an operator's policy
        applies to the events that it names.
    :Why: A hung plugin prevented a node from removing pods.
    """
    open_breaker_lets_go: bool = True
    """While a plugin is left out, only requests that the operator protects are refused, whatever the plugin declared.

    :Reference: (There is no breaker.) In this mode `fail_request`, declared by the plugin or the operator, also applies
        while the plugin is left out.
    :Here: While the plugin is left out, and for the request with which it is tried again, only requests for which the
        operator requires it (`required`) are refused; Stop and Remove always pass.
    :Why: A hung plugin blocked the node's pods permanently.
    """

    turns_bounded: bool = True
    """An event waits for its turn at a plugin for at most two of its timeouts; then the plugin counts as not answering.

    :Reference: An event waits for its turn at a plugin as long as earlier events take: behind 60 events, for 60
        timeouts.
    :Here: It waits for two of that plugin's timeouts, then counts as not answered, for policy and breaker, and may
        reach later plugins before events that still wait. The plugin stays connected. A plugin inside the runtime has
        no timeout; events wait for it.
    :Why: A slow plugin delayed the whole node, and its breaker never opened.
    """
    disposal_passes_others: bool = True
    """Stop and Remove overtake waiting events of other pods, but never an earlier event of their own pod.

    :Reference: Stop and Remove wait behind every earlier event.
    :Why: A node must be able to remove pods while a plugin is slow.
    """
    silence_counts_for_all: bool = True
    """A plugin's silence counts for all events that wait for it, and costs each event at most 1.5 timeouts.

    :Reference: Each event that waits for a plugin has its full timeout, however long the plugin has been silent.
    :Here: The plugin's silence counts, whichever event it began with: an event waits at most 1.5 timeouts, then
        continues as not answered. The breaker counts a miss for each full timeout of silence.
    :Why: The fourth of four pods waited four times as long as one pod.
    """

    reports_at_once: bool = True
    """A notification of a completed step goes to all plugins at once, also to plugins after a plugin that fails it.

    :Reference: PostCreateContainer, PostStartContainer, PostUpdateContainer and PostUpdatePodSandbox go from plugin to
        plugin; an error hides the event from later plugins.
    :Here: They go to all plugins at once, in order for each plugin, and one by one to the connections of one process.
        The event's error is the error of the first plugin by index. `Adaptation(fan_out=EventMask(0))`: one by one.
    :Why: Plugins cannot prevent these steps. Plugins that track containers missed some; with ten plugins the
        notification takes a third less time.
    """

    # --- life
    events_need_start: bool = True
    """An event before `start` or after `stop` is an error instead of an event without plugins.

    :Reference: An event before `Start` or after `Stop` passes, without plugins.
    :Why: A container that was created without all plugins, including required plugins, is discovered much later.
    """

    # --- plugins
    live_socket_kept: bool = True
    """A socket on which another process listens is not replaced; the start fails and names the path.

    :Reference: The file at the socket path is removed, even if it is the socket of a running runtime.
    :Here: The start fails and names the path. A dead process's socket is replaced; another file stays.
    :Why: The first runtime got no more connections, and both runtimes looked healthy.
    """
    conflict_keys_escaped: bool = True
    """The key in the message of a conflict is short, printable, and on one line.

    :Reference: The message of a conflict (`ConflictError.text`) has the key as the plugin wrote it.
    :Why: A plugin must not write its own lines into logs.
    """
    errors_name_plugin: bool = True
    """The error of a failed event begins with the plugin that failed it.

    :Reference: The error of a failed event does not name the plugin that failed it.
    :Why: Operators look for the plugin.
    """
    duplicates_refused: bool = True
    """A second plugin with the index and name of a connected plugin is refused, and the error names it.

    :Reference: Two plugins may have the same index and name; they share claims and conflict with each other.
    :Why: It is nearly always the same plugin, started twice.
    """
    unknown_events_masked: bool = True
    """A plugin that subscribes to events newer than this runtime gets all other events, and a warning is logged.

    :Reference: A plugin that subscribes to an event that the runtime does not know is refused.
    :Why: A plugin that was built for a newer runtime works with this runtime.
    """
    registers_once: bool = True
    """A plugin that registers again on the same connection is refused; its identity stays.

    :Reference: A plugin that registers again on its connection changes its identity.
    :Why: Ownership and policy depend on the name.
    """
    updates_need_registration: bool = True
    """Updates of a plugin that is not configured yet are refused.

    :Reference: Updates from a connection that has not registered are accepted.
    :Why: The sender is unknown.
    """
    bad_files_skipped: bool = True
    """A file in the plugin folder with a wrong name, or that others may write, is reported and skipped.

    :Reference: A badly named file in the plugin folder prevents the start of all plugins.
    :Here: The file is reported and skipped. Files that other users control are skipped, too: only root or the runtime's
        user may own and write the file, its folders and links, its drop-in configuration and a script's interpreter.
        This is checked before each start.
    :Why: One file must not prevent all plugins, and plugins run with the runtime's rights.
    """
    launched_plugins_restart: bool = True
    """A plugin that the runtime launched is started again when it dies or its configuration changes.

    :Reference: A plugin that the runtime launched and that dies is missing until the runtime restarts.
    :Why: No other program can start it.
    """
    wasm_events_optional: bool = True
    """A plugin in WebAssembly without the functions of some events is loaded, but not called for these events.

    :Reference: A WebAssembly file without the function of one event is not loaded.
    :Here: The plugin is loaded, but not called for that event. A plugin that subscribes to the event is refused, with
        the function's name.
    :Why: Every plugin that is older than an event was refused.
    """
    shutdown_is_sent: bool = True
    """Plugins get Shutdown when the runtime stops.

    :Reference: Plugins get no message when the runtime stops.
    :Why: The protocol documents it.
    """
    synchronize_timeout_per_message: bool = True
    """Every part of a split Synchronize has the full request timeout.

    :Reference: All parts of a split Synchronize share one request timeout.
    :Why: Big nodes could not be synchronized in time.
    """
    lost_validators_refuse: bool = True
    """A validator that disconnects during a creation fails the creation.

    :Reference: A validator whose connection ends during a creation is skipped.
    :Why: The validator was connected when the creation began, and has not agreed to it.
    """
    indexed_names_exact: bool = True
    """A required plugin that is named with its index is that plugin, and not a plugin whose name looks the same.

    :Reference: The default validator accepts a plugin `99-10-guard` (index 99, name `10-guard`) as the required plugin
        `10-guard`.
    :Why: A plugin chooses its name.
    """
    validators_see_answerers: bool = True
    """Validators get the plugins that answered instead of the plugins that were to be called.

    :Reference: Validators get the names of all plugins that were to be called.
    :Why: A required plugin that timed out counted as present.
    """
    unsolicited_evictions_kept: bool = True
    """Unsolicited evictions by a plugin reach the runtime.

    :Reference: Evictions that a plugin requests outside of events are dropped.
    :Why: As for replies.
    """

    # --- the OCI spec
    env_adjustment_wins: bool = True
    """The last value of a variable in the adjustment counts, however often the spec has the variable.

    :Reference: If the spec has a variable twice, the second entry overrides the adjustment; a variable that is set and
        then removed is set if the spec does not have it.
    :Why: The adjustment had no effect, or the opposite effect.
    """
    bare_env_kept: bool = True
    """An entry of the spec's environment without "=" stays when variables are adjusted.

    :Reference: An entry without `=` is removed when any variable is adjusted.
    :Why: No plugin requested its removal.
    """
    rlimits_replace: bool = True
    """A resource limit replaces the spec's limit of the same type.

    :Reference: A limit is appended to a limit of the same type.
    :Why: OCI runtimes refuse two limits of one type.
    """
    removal_takes_all: bool = True
    """Removing or replacing a mount, device or namespace affects all entries of that name instead of the first entry.

    :Reference: Removing or replacing a mount, device or namespace affects the first entry of that name.
    :Why: A removed entry was still present.
    """
    device_removal_revokes: bool = True
    """Removing a device removes its rule in the device cgroup, and adding it again adds no second rule.

    :Reference: The device cgroup still allows a removed device, and has a second rule for a device that is added again.
    :Why: The container could create the device node again.
    """
    device_access_follows_mode: bool = True
    """The device cgroup allows reading and writing an added device according to its file mode.

    :Reference: Each added device may be read and written.
    :Here: The device may be read if its file mode has a read bit, and written if it has a write bit; both are allowed
        without these bits.
    :Why: The mode expresses the wanted access.
    """
    time_namespace_known: bool = True
    """Time namespaces can be adjusted like other namespaces.

    :Reference: `time` is not a known type of namespace.
    :Why: The OCI spec has time namespaces.
    """
    seccomp_errno_kept: bool = True
    """The default errno of a seccomp policy reaches the spec.

    :Reference: The default errno of a seccomp policy is dropped.
    :Why: The policy returned another error than configured.
    """
    unknown_values_refused: bool = True
    """A number that is not a value of an enum is an error instead of an empty name in the spec.

    :Reference: A number that is not a value of its enum becomes an empty name in the spec.
    :Why: The OCI runtime would fail later, without naming the plugin.
    """
    all_memory_fields_applied: bool = True
    """All memory settings reach the spec, with a separate swap limit if it is set.

    :Reference: Only the memory limit is applied, and swap is set to the same value.
    :Why: The API has these settings, and plugins set them.
    """
    unlimited_pids_applied: bool = True
    """A process limit of -1 removes the spec's limit.

    :Reference: A process limit of -1 leaves the spec's limit unchanged.
    :Why: -1 means no limit.
    """
    propagation_per_mount: bool = True
    """A mount has only its own propagation option, and only a bind mount's source is checked for propagation.

    :Reference: A mount without a propagation option gets the option of the previous mount; sources that are not paths
        are checked, too; /dat counts as a parent of /data.
    :Why: Mounts failed because of options of other mounts.
    """
    unresolved_refused: bool = True
    """CDI devices and block-I/O and RDT classes that a runtime cannot resolve are an error.

    :Reference: CDI devices, and block-I/O and RDT classes, are ignored by a runtime that cannot resolve them.
    :Why: A container without its device fails later, without naming the plugin.
    """


Rules.DEFAULT = Rules()
Rules.REFERENCE = Rules(**dict.fromkeys((f.name for f in fields(Rules)), False))
