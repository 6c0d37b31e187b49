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
    """Removing an environment variable or a device reaches the runtime, so that one of the image goes away too.

    :Reference: Removing an environment variable or a device hides it from later plugins; the runtime does not learn of
        it.
    :Why: A variable or device of the image could not be removed.
    """
    last_word_wins: bool = True
    """The reply holds a key once, as set or as removed, whichever came last; later plugins see a removal.

    :Reference: A reply can hold `k` and `-k` at once (a sets `k`, b removes it); which one the runtime applies is
        chance. Later plugins still see `k`.
    :Why: The outcome was random.
    """
    removal_frees_key: bool = True
    """A removal is recorded as such for every kind of key, claims nothing, and leaves the key to the next plugin.

    :Reference: Differs by field. Annotation, sysctl, network device: the old owner stays. Variable, device, mount: the
        remover owns it. Namespace: two removals conflict.
    :Why: One rule instead of three; two that remove the same thing agree.
    """
    same_plugin_may_repeat: bool = True
    """One plugin may set a key or field twice in one reply; its last value counts.

    :Reference: A plugin that sets a key twice in one reply, or a field through two updates of one container, conflicts
        with itself.
    :Why: A conflict takes two.
    """
    literal_marks_refused: bool = True
    """A removal mark on a field that knows no removal is an error and not a strange name.

    :Reference: `-RLIMIT_CORE` in rlimits is taken as a name and passed on; the same for CDI devices, huge page sizes
        and cgroup v2 keys.
    :Why: These fields know no removal; the runtime would fail later, and name nobody.
    """
    limits_replace: bool = True
    """A resource limit or huge page limit replaces the one of the same type, in requests and in updates.

    :Reference: A resource limit or huge page limit is appended to the one of the same type, in requests to later
        plugins and in updates.
    :Why: A type may occur once; OCI runtimes refuse more.
    """
    args_reset_shows_original: bool = True
    """Arguments that are only the override mark give the container its own arguments back and claim nothing.

    :Reference: `args: [""]` shows later plugins an empty command line and claims it, though the runtime runs the
        original one.
    :Why: Plugins see what will run.
    """
    rdt_removal_kept: bool = True
    """Removing RDT settings stays in force when some of them are set afterwards.

    :Reference: Removing RDT settings and setting one of them cancels the removal of the others.
    :Why: A plugin asked for the removal.
    """
    hooks_only_when_set: bool = True
    """The request to validators has hooks in its adjustment only if a plugin set some.

    :Reference: The request to validators always has a hooks object in its adjustment.
    :Why: A validator that refuses hooks refused every container.
    """
    rdt_only_when_asked: bool = True
    """The reply has an RDT object only if a plugin gave one.

    :Reference: The reply has an empty RDT object whenever a plugin adjusted anything below `linux`.
    :Why: An object that is there means something.
    """
    later_plugins_see_all: bool = True
    """RDT and CDI adjustments are shown to later plugins like all others.

    :Reference: RDT and CDI adjustments are not shown to later plugins.
    :Why: Each plugin decides on what the container will be.
    """

    # --- merging updates and evictions
    pids_in_updates: bool = True
    """A process limit in an update is applied, and the runtime's own one is claimed by no plugin.

    :Reference: A process limit in an update is dropped. If the runtime's request has one, the second plugin that
        updates the container fails.
    :Why: It is a resource like the others.
    """
    ignored_update_rolls_back: bool = True
    """An update whose failure is to be ignored leaves nothing behind when it fails, claims included.

    :Reference: A failed update with `ignore_failure` keeps its claims, against which later plugins conflict, and adds
        an empty update.
    :Why: Ignored means ignored.
    """
    absent_containers_left_out: bool = True
    """An update or eviction of a container that is not there is left out and reported, or kept until it is created.

    :Reference: An update or eviction without a container id, or of a container that does not exist, is passed to the
        runtime.
    :Here: It is left out and reported: `reply.ignored`, provenance, a metric, one warning a minute for each plugin;
        unsolicited, as failed. One for a container in the making is kept for the runtime's update callback.
    :Why: Ready-made plugins (koordlet, topology-aware, balloons) send such updates all the time.
    """
    ignore_failure_covers_self_update: bool = True
    """Asking for an update of the container being created is skipped, not fatal, if failure is to be ignored.

    :Reference: Asking for an update of the container that is being created fails the creation even with
        `ignore_failure`.
    :Why: That is what the flag says.
    """
    empty_updates_change_nothing: bool = True
    """An update without any resource is dropped, and never replaces the orchestrator's request by zeros.

    :Reference: An update without resources becomes one with empty ones, which for the updated container itself
        replaces the orchestrator's request by zeros.
    :Why: It cancelled the kubelet's resize.
    """
    evictions_kept: bool = True
    """Evictions in the replies to events reach the runtime.

    :Reference: Evictions in replies to CreateContainer and UpdateContainer are dropped.
    :Why: Plugins that evict were never heard.
    """

    # --- limits
    event_replies_limited: bool = True
    """The reply to an event has a most of entries and bytes, and leaves room for the next request: else it fails.

    :Reference: A reply may be as long as a message; if the next plugin's request becomes too long because of it, that
        plugin fails.
    :Here: At most 16,000 entries and 2 MiB, with room for the next request. More fails the request by its maker's
        name, before anything is merged or the next plugin asked.
    :Why: One reply of 230 kB held up all events for 18 seconds. A policy for 1,000 containers with 14 fields each
        passes.
    """
    other_updates_limited: bool = True
    """A plugin's updates at Synchronize or by itself have a most of entries, by the number of containers.

    :Reference: The same for updates in its reply to Synchronize, or by itself.
    :Here: At most 16 entries for each container there is, and 16,000 in any case. More fails that plugin by name: it
        does not join, or its request is refused.
    :Why: Adjusting every container of a big node at once does no harm.
    """

    # --- failure policy
    late_answer_costs_event: bool = True
    """A plugin that answers late stays connected, unless the operator wants otherwise; it loses that event only.

    :Reference: A plugin that answers late is disconnected, unless it declared otherwise.
    :Why: One slow answer took the plugin away for good: the most reported fault.
    """
    declared_failure_spares_stop: bool = True
    """A plugin's own failure policy fails no Stop and no Remove that it does not answer; the operator's does.

    :Reference: A plugin that declares `fail_request` fails every request that it does not answer, Stop and Remove too.
    :Here: Its declaration does not hold for stopping and removing pods and containers; an operator's own holds for the
        events that it names.
    :Why: A hung plugin kept a node from getting rid of pods.
    """
    open_breaker_lets_go: bool = True
    """While a plugin is left out, only what the operator requires is refused, whatever the plugin declared.

    :Reference: (It has no breaker.) In this mode a declared `fail_request`, or the operator's, counts also while the
        plugin is left out.
    :Here: While it is left out, and for the request on which it is tried again, only what the operator requires
        (`required`) is refused; Stop and Remove always pass.
    :Why: A plugin that hung stopped the node's pods for good.
    """

    turns_bounded: bool = True
    """An event waits for its turn at a plugin for two of its timeouts at most; then that is the plugin's miss.

    :Reference: An event waits for its turn at a plugin as long as earlier events take there: behind 60, for 60
        timeouts.
    :Here: It waits for two of that plugin's timeouts, then counts as not answered, for policy and breaker, and may
        reach later plugins before events that still wait. The plugin stays connected. One inside the runtime has no
        timeout, and is waited for.
    :Why: A slow plugin held up the whole node, and its breaker never opened.
    """
    disposal_passes_others: bool = True
    """Stop and Remove pass waiting events of other pods, never an earlier one of their own.

    :Reference: Stop and Remove wait behind every earlier event.
    :Why: A node must be able to get rid of pods while a plugin is slow.
    """
    silence_counts_for_all: bool = True
    """A plugin's silence counts for all events that wait for it, and costs each one and a half timeouts at most.

    :Reference: Each event that waits for a plugin has its whole timeout, however long the plugin has been silent.
    :Here: The plugin's silence counts, whichever event it was asked about: one waits one and a half timeouts in all,
        then goes on as not answered. The breaker counts a miss for each whole timeout of silence.
    :Why: The fourth of four pods waited four times as long as one.
    """

    reports_at_once: bool = True
    """A report of something done goes to all plugins at once, also to those behind one that fails it.

    :Reference: PostCreate-, PostStart-, PostUpdateContainer and PostUpdatePodSandbox go from plugin to plugin; an
        error hides the event from those behind.
    :Here: They go to all plugins at once, each in its order, and in turn to the places of one process; the event's
        error is that of the first by index. `Adaptation(fan_out=EventMask(0))`: in turn.
    :Why: Nobody can prevent them. Plugins that keep books missed containers; with ten plugins it takes a third less.
    """

    # --- life
    events_need_start: bool = True
    """An event before `start` or after `stop` is an error, and not an event without plugins.

    :Reference: An event before `Start` or after `Stop` passes, without plugins.
    :Why: A container that was created past all plugins, required ones included, is found much later.
    """

    # --- plugins
    live_socket_kept: bool = True
    """A socket on which another process listens is not taken over; the start fails by name.

    :Reference: It removes what lies at its socket path, also the socket of a runtime that is alive.
    :Here: The start fails and names the path. A dead process's socket is replaced; a file that is none stays.
    :Why: The first runtime got no more connections, and both looked healthy.
    """
    conflict_keys_escaped: bool = True
    """The key in the text of a conflict is one short line that prints.

    :Reference: The text of a conflict (`ConflictError.text`) has the key as the plugin wrote it.
    :Why: A plugin must not write lines of its own into logs.
    """
    errors_name_plugin: bool = True
    """The error of a failed event begins with the plugin that failed it.

    :Reference: The error of a failed event does not say which plugin failed it.
    :Why: People look for the plugin.
    """
    duplicates_refused: bool = True
    """A second plugin with the index and name of one that is connected is refused, by name.

    :Reference: Two plugins may have the same index and name; they share claims and conflict with each other.
    :Why: It is nearly always the same plugin started twice.
    """
    unknown_events_masked: bool = True
    """A plugin that subscribes to events which are newer than this runtime gets the others, and a warning says so.

    :Reference: A plugin that subscribes to an event which the runtime does not know is refused.
    :Why: A plugin built for a newer runtime runs on this one.
    """
    registers_once: bool = True
    """A plugin that registers again on the same connection is refused; its identity stays.

    :Reference: A plugin that registers again on its connection changes its identity.
    :Why: Ownership and policy hang on the name.
    """
    updates_need_registration: bool = True
    """Updates of a plugin that is not configured yet are refused.

    :Reference: Updates from a connection that has not registered are taken.
    :Why: Nobody knows who asks.
    """
    bad_files_skipped: bool = True
    """A file in the plugin folder with a wrong name, or that others may write, is reported and skipped.

    :Reference: One badly named file in the plugin folder ends the start of all plugins.
    :Here: It is reported and skipped. So is a file that others decide about: only root or the runtime's user may own
        and write it, its folders and links, its drop-in configuration and a script's interpreter; looked at before
        each start.
    :Why: One file must not cost the node all plugins, which run with the runtime's rights.
    """
    launched_plugins_restart: bool = True
    """A plugin that the runtime launched is started again when it dies or its configuration changes.

    :Reference: A plugin that the runtime launched and that dies is gone until the runtime restarts.
    :Why: Nobody else can start it.
    """
    wasm_events_optional: bool = True
    """A plugin in WebAssembly that lacks the functions of some events is loaded, and not asked about these.

    :Reference: A WebAssembly file without the function of one event is not loaded.
    :Here: It is, and not asked about that event; one that subscribes to it is refused, with the function's name.
    :Why: Every plugin that is older than an event was refused.
    """
    shutdown_is_sent: bool = True
    """Plugins get Shutdown when the runtime stops.

    :Reference: Plugins get no message when the runtime stops.
    :Why: The protocol documents it.
    """
    synchronize_timeout_per_message: bool = True
    """Every part of a split Synchronize has the whole request timeout.

    :Reference: All parts of a split Synchronize share one request timeout.
    :Why: Big nodes could not be synchronized in time.
    """
    lost_validators_refuse: bool = True
    """A validator that leaves while a creation is on its way fails it.

    :Reference: A validator whose connection ends while a creation is on its way is skipped.
    :Why: It was there to be asked, and has agreed to nothing.
    """
    indexed_names_exact: bool = True
    """A required plugin that is named with its index is that plugin, and not one whose own name reads like it.

    :Reference: The default validator takes a plugin `99-10-guard` (index 99, name `10-guard`) for the required
        `10-guard`.
    :Why: A plugin chooses its name.
    """
    validators_see_answerers: bool = True
    """Validators see the plugins that answered, not those that were about to be called.

    :Reference: Validators get the names of all plugins that were about to be called.
    :Why: A required plugin that timed out counted as present.
    """
    unsolicited_evictions_kept: bool = True
    """Evictions that a plugin asks for by itself reach the runtime.

    :Reference: Evictions that a plugin asks for outside of events are dropped.
    :Why: As for replies.
    """

    # --- the OCI spec
    env_adjustment_wins: bool = True
    """A variable is what the adjustment said last of it, however often the spec has it.

    :Reference: Of two entries of the spec for one variable the second wins over the adjustment; a variable that is set
        and then removed is set if the spec lacks it.
    :Why: The answer had no effect, or the opposite one.
    """
    bare_env_kept: bool = True
    """An entry of the spec's environment without "=" stays when variables are adjusted.

    :Reference: An entry without `=` goes as soon as any variable is adjusted.
    :Why: Nobody asked for its removal.
    """
    rlimits_replace: bool = True
    """A resource limit replaces the spec's one of the same type.

    :Reference: A limit is appended to one of the same type.
    :Why: OCI runtimes refuse two of one type.
    """
    removal_takes_all: bool = True
    """Removing, or replacing, a mount, device or namespace takes all entries of that name, not the first alone.

    :Reference: Removing or replacing a mount, device or namespace takes the first entry of that name.
    :Why: A removed entry was still there.
    """
    device_removal_revokes: bool = True
    """Removing a device takes away the device cgroup's rule for it, and adding one again adds no second rule.

    :Reference: The device cgroup goes on allowing a removed device, and has a second rule for one that is added again.
    :Why: The container could make the node again.
    """
    device_access_follows_mode: bool = True
    """The device cgroup allows an added device to be read and written as its file mode says.

    :Reference: Each added device may be read and written.
    :Here: It may be read if its file mode has a bit for reading, and written so; both if it has neither.
    :Why: The mode says which access is wanted.
    """
    time_namespace_known: bool = True
    """Time namespaces can be adjusted like the others.

    :Reference: `time` is not a known type of namespace.
    :Why: The OCI spec has it.
    """
    seccomp_errno_kept: bool = True
    """The default errno of a seccomp policy reaches the spec.

    :Reference: The default errno of a seccomp policy is dropped.
    :Why: The policy returned another error than it says.
    """
    unknown_values_refused: bool = True
    """A number that is no value of an enum is an error and not an empty name in the spec.

    :Reference: A number that is no value of its enum becomes an empty name in the spec.
    :Why: The OCI runtime would fail later, with a text that names nobody.
    """
    all_memory_fields_applied: bool = True
    """All memory settings reach the spec, swap by itself where it is given.

    :Reference: Of memory settings only the limit is applied, and swap is set to the same.
    :Why: The API has them, and plugins set them.
    """
    unlimited_pids_applied: bool = True
    """A process limit of -1 takes the spec's limit away.

    :Reference: A process limit of -1 leaves the spec's limit as it is.
    :Why: -1 means no limit.
    """
    propagation_per_mount: bool = True
    """A mount's propagation is its own, and asked of its source's mount only if it is bound.

    :Reference: A mount without a propagation option has that of the mount before it; sources that are no paths are
        checked too; /dat counts as above /data.
    :Why: Mounts failed for options of others.
    """
    unresolved_refused: bool = True
    """CDI devices and block-I/O and RDT classes of which a runtime knows nothing are an error.

    :Reference: CDI devices, and block-I/O and RDT classes, are ignored by a runtime that cannot resolve them.
    :Why: A container without its device fails later, with a text that names nobody.
    """


Rules.DEFAULT = Rules()
Rules.REFERENCE = Rules(**dict.fromkeys((f.name for f in fields(Rules)), False))
