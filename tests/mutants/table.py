"""The mutants: a file, a text that stands in one line of it, what stands there instead, and the tests that must fail.

Each is a mistake that somebody could make and that would hurt; they are spread over the packages. When a line moves or
changes, update its row here: `test_rows.py` reports rows that no longer match.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake; `file` lies below src/nri, `tests` below tests: a folder, a file, or a test as pytest names it."""

    file: str
    text: str
    instead: str
    tests: str


MUTANTS = (
    # What is on the wire
    Mutant("text.py", "len(text) <= length and text.isprintable()", "len(text) <= length", "unit/test_text.py"),
    Mutant("wire.py", "if shift > 63:", "if shift > 700:", "unit/test_wire.py"),
    Mutant("stream.py", "if remaining_s <= 0:", "if False:", "unit/test_stream.py"),
    Mutant("unix.py", "not replace_live and is_live(path)", "is_live(path) and False", "unit/test_unix.py"),
    Mutant("backoff.py", "2.0 ** min(self.failures, 60)", "2.0", "unit/test_backoff.py"),
    Mutant("mux/demux.py", "if length > MAX_PAYLOAD:", "if False:", "unit/mux"),
    Mutant("ttrpc/frames.py", "if length > MAX_DATA:", "if length > 2 * MAX_DATA:", "unit/ttrpc/test_frames.py"),
    Mutant("ttrpc/outbox.py", "or self._size_bytes >= MAX_WAITING_BYTES", "", "unit/ttrpc/test_outbox.py"),
    Mutant("api/cpuset.py", "if last < first:", "if last + 1 < first:", "unit/api/test_cpuset.py"),
    # Texts of others in errors, and depth
    Mutant("errors.py", "return _plain(self.whole_text, TEXT_LENGTH)", "return _cut(self.whole_text, TEXT_LENGTH)",
           "unit/test_errors.py"),
    Mutant("errors.py", "        return _plain(self.whole_text, TEXT_LENGTH)",
           "        return _plain(self.whole_text, 1 << 40)", "fuzz/test_fuzz.py"),
    Mutant("errors.py", 'where = f"{_cut(source)}: {_cut(key)}" if', 'where = f"{source}: {key}" if',
           "unit/test_errors.py"),
    Mutant("errors.py", 'not text else f"{name}: {text}", TEXT_LENGTH)', 'not text else f"{name}: {text}", 1 << 40)',
           "unit/test_errors.py"),
    Mutant("config/syntax.py", "        raise TooDeep from None", "        raise", "unit/config/test_syntax.py"),
    Mutant("config/syntax.py", "for _ in range(DEEPEST):", "for _ in range(10_000):", "unit/config/test_syntax.py"),
    Mutant("config/syntax.py", 'raise _parser_limit_error(source, "TOML", TooDeep()) from None', "raise",
           "unit/config/test_syntax.py"),
    Mutant("config/syntax.py", "if len(path) > DEEPEST:", "if False:", "unit/config/test_syntax.py"),
    Mutant("config/syntax.py", "if parts > DEEPEST:", "if False:", "unit/config/test_syntax.py"),
    Mutant("config/yaml_text.py", "        _refuse_deep(source)", "        pass", "unit/config/test_yaml_text.py"),
    Mutant("config/yaml_text.py", "1 + max(weight for _, weight in weights)", "1", "unit/config/test_yaml_text.py"),
    Mutant("files.py", "(ValueError, OSError, RecursionError)", "(ValueError, OSError)",
           "unit/engine/state/test_store.py"),
    # Recordings and captures of others
    Mutant("trace/blocks.py", "if _is_header(head) or (last", "if True or (last", "unit/trace/test_blocks.py"),
    Mutant("trace/history.py", "and self._held_bytes <= self._allowance.held_bytes", "", "unit/trace/test_history.py"),
    Mutant("trace/history.py", "if message > blocks.MAX_MESSAGE_BYTES:", "if False:",
           "unit/trace/test_history.py"),
    Mutant("trace/blocks.py", "if header.raw > MAX_CONTENT_BYTES:", "if False:", "unit/trace/test_blocks.py"),
    Mutant("trace/blocks.py", "if length > header.raw:", "if False:", "unit/trace/test_blocks.py"),
    Mutant("trace/blocks.py", "decompressor.decompress(chunk, _PIECE_BYTES)", "decompressor.decompress(chunk)",
           "unit/trace/test_blocks.py"),
    Mutant("trace/blocks.py", "if other_fields > _MAX_OTHER_FIELDS:", "if False:", "unit/trace/test_blocks.py"),
    Mutant("trace/allowance.py", "return self._records <= _RECORDS + ", "return True or ",
           "unit/trace/test_allowance.py"),
    Mutant("trace/allowance.py", "min(_RECORD_BYTES + _RECORD_BYTES_PER_BYTE * self.read_bytes, _MAX_RECORD_BYTES)",
           "_MAX_RECORD_BYTES", "unit/trace/test_allowance.py"),
    Mutant("trace/allowance.py", "if not self.has_values(kind, data):", "if False:", "unit/trace/test_allowance.py"),
    Mutant("trace/allowance.py", "if _remaining_parts(data, _PARTS_OF_ONE + len(data) // _PART_BYTES) < 0:",
           "if False:",
           "unit/trace/test_allowance.py"),
    Mutant("trace/history.py", "len(self._recordings) < number <= allowance.recordings:", "number:",
           "unit/trace/test_history.py"),
    Mutant("trace/recorder.py", "if len(self._requests) > _MAX_OPEN_EVENTS:", "if False:",
           "unit/trace/test_recorder.py"),
    Mutant("trace/changes.py", "and len(self._created) < _MAX_CREATIONS:", ":", "unit/trace/test_changes.py"),
    Mutant("trace/changes.py", "return values <= remaining", "return True", "unit/trace/test_changes.py"),
    Mutant("trace/drift.py", "rows = unique[:MAX_VALUES]", "rows = unique", "unit/trace/test_drift.py"),
    Mutant("trace/drift.py", "[*self.changes, *changes][-MAX_CHANGES:]", "[*self.changes, *changes]",
           "unit/trace/test_drift.py"),
    Mutant("inspector/sources.py", "elif len(self._notes) < _MAX_NOTES and", "elif", "unit/inspector/test_sources.py"),
    Mutant("inspector/sources.py", 'step["plugin"] in self._sums or len(self._sums) < _MAX_PLUGINS:', "True:",
           "unit/inspector/test_sources.py"),
    Mutant("inspector/sources.py", "if looked_at and monotonic() > deadline:", "if False:",
           "unit/inspector/test_sources.py"),
    Mutant("trace/time_series.py", "if plugin not in self._plugins and len(self._plugins) >= MAX_PLUGINS:", "if False:",
           "unit/trace/test_time_series.py"),
    Mutant("adaptation/audit/explanation.py", "if remaining >= 0:", "if True:",
           "unit/adaptation/audit/test_explanation.py"),
    Mutant("testing/replay.py", "and len(self.recorded) < _MAX_PLUGINS:", ":", "unit/testing/test_replay.py"),
    Mutant("testing/replay.py", "if size > self._free_bytes:", "if False:", "unit/testing/test_replay.py"),
    Mutant("metrics/prometheus.py", "if len(self._plugins) >= _MAX_PLUGINS:", "if False:",
           "unit/metrics/test_prometheus.py"),
    Mutant("trace/catalog.py", "if depth >= _MAX_DEPTH:", "if False:", "unit/trace/test_catalog.py"),
    Mutant("trace/prediction.py", "full = self._remaining_bytes <= 0 or", "full =", "unit/trace/test_prediction.py"),
    Mutant("trace/recorder.py", "except Exception:  # noqa: BLE001 - a step", "except KeyError:  # a step",
           "unit/trace/test_recorder.py"),
    Mutant("trace/recorder.py", "_MAX_STEPS or self._held_bytes > _MAX_HELD_BYTES", "_MAX_STEPS",
           "unit/trace/test_recorder.py"),
    Mutant("config/runtimes/change.py", "if reading.failure is not None:", "if False:",
           "unit/config/runtimes/test_change.py"),
    Mutant("placement/snapshot.py", '.partition(b"\\0")[0]', "", "unit/placement/recorded/test_machines.py"),
    Mutant("placement/snapshot.py", "if remaining_bytes < 0:", "if False:", "unit/placement/recorded/test_machines.py"),
    Mutant("placement/snapshot.py", "if len(member.name) + len(member.linkname) <= _MAX_PATH_LENGTH:", "if True:",
           "unit/placement/recorded/test_machines.py"),
    Mutant("placement/checkpoint.py", "enumerate(more[:-1], 2)", "enumerate(more, 2)",
           "unit/placement/test_checkpoint.py"),
    Mutant("placement/checkpoint.py", "return (status.st_ino, status.st_size) == self._identity", "return True",
           "unit/placement/test_checkpoint.py"),
    Mutant("placement/topology_aware/policy.py", "pool.take(cpus)", "pass", "property/test_placement.py"),
    Mutant("placement/balloons/balloon_set.py", "balloon.idle &= ~removed", "pass", "property/test_placement.py"),
    Mutant("placement/topology_aware/pools.py", "pool.free_sharable |= cpus & pool.sharable", "pass",
           "property/test_placement.py"),
    Mutant("placement/topology_aware/pools.py", "pool.idlers and not pool.free_sharable", "False",
           "unit/placement/topology_aware/test_policy.py"),
    Mutant("placement/state.py", "state.restore(container)", "pass", "property/test_placement.py"),
    Mutant("placement/topology_aware/scoring.py", "return _compare_numbers(other.pool.id, one.pool.id), ",
           "return _compare_numbers(other.pool.id, one.pool.id) * (-1) ** hash(self.request.container.id), ",
           "unit/placement/topology_aware/test_scoring.py"),
    Mutant("placement/affinity.py", "if len(listed) > _MAX_PER_CONTAINER:", "if False:",
           "unit/placement/test_affinity.py"),
    Mutant("kube/document.py", "if self._paths is None:", "if True:", "unit/adaptation/test_linear.py"),
    Mutant("config/syntax.py", "if not self._is_parsed:", "if True:", "unit/adaptation/test_linear.py"),
    Mutant("kube/environment.py", "remaining -= len(expansion)", "pass", "unit/pods/test_containers.py"),
    # The adaptation
    Mutant("adaptation/merge/limits.py", "count(kind, data, max_entries) > max_entries",
           "count(kind, data, max_entries) > max_entries + 1",
           "unit/adaptation/merge/test_limits.py"),
    Mutant("adaptation/dispatch/invoker.py", "and not is_gone and not", "and not", "unit/adaptation/dispatch"),
    Mutant("adaptation/containers/answer_order.py", "self.last(field) > numbers.greatest_overridden(field)", "False",
           "property/test_answer_order.py"),
    Mutant("adaptation/dispatch/event.py", "numbers[label] = self.answer_number", 'numbers[label] = self.numbers[""]',
           "property/test_answer_order.py"),
    Mutant("adaptation/dispatch/reply.py", "numbers[RUNTIME_REQUEST] = next(ARRIVALS)", 'numbers[""] = 0',
           "unit/adaptation/dispatch/test_event_reply.py"),
    Mutant("adaptation/containers/inventory.py", "resources = order.newest(resources, numbers)", "pass",
           "unit/adaptation/containers/test_inventory.py"),
    Mutant("adaptation/peers/turns.py", "if peer.turn_s:", "if False:", "unit/adaptation/dispatch/test_order.py"),
    Mutant("adaptation/peers/turns.py", "self._index += 1",
           "self._index += 1\n        current = None if keep or current is None else current.release()",
           "property/test_pipeline_order.py"),
    Mutant("adaptation/peers/builtin.py", "tuple(map(_copy, messages))", "messages",
           "unit/adaptation/peers/test_builtin.py"),
    Mutant("adaptation/peers/breaker.py", "or now < self.retry_at", "", "unit/adaptation/peers/test_breaker.py"),
    Mutant("adaptation/peers/turns.py", "if ticket not in self.queue:", "if True:",
           "unit/adaptation/peers/test_turns.py"),
    Mutant("adaptation/registration/registry.py", "return peer.state is not State.GONE", "return True",
           "unit/adaptation/registration/test_registry.py"),
    Mutant("adaptation/registration/update_queue.py", "if len(waiting) >= MAX_QUEUED:", "if False:",
           "unit/adaptation/registration/test_update_queue.py"),
    Mutant("adaptation/registration/update_queue.py", "    if len(waiting) >= MAX_QUEUED:", "    if False:",
           "torture/test_torture.py::test_a_node_withstands_the_attack[updates]"),
    Mutant("adaptation/registration/sync_gate.py", "held_s += (priority_until", "held_s = 0 * (priority_until",
           "unit/adaptation/registration/test_sync_gate.py"),
    Mutant("adaptation/registration/sync_gate.py", "priority_until + inside_s + min(held_s, self._preference_s))",
           "priority_until + inside_s)", "torture/test_torture.py::test_a_node_withstands_the_attack[joiners]"),
    Mutant("adaptation/peers/turns.py", "or queue[at - 1].pod == ticket.pod", "",
           "unit/adaptation/peers/test_turns.py"),
    Mutant("adaptation/registration/deferred_updates.py", "if container_id not in self.waiting:", "if False:",
           "unit/adaptation/registration/test_deferred_updates.py"),
    Mutant("adaptation/launch/trusted.py", "mode & 0o022", "mode & 0o002",
           "unit/adaptation/launch/test_trusted.py"),
    Mutant("adaptation/audit/provenance.py", "or self._bytes > self._max_bytes", "",
           "unit/adaptation/audit/test_provenance_bounds.py"),
    # The plugin's side
    Mutant("stub/session/synchronize.py", "if size > MAX_STATE_BYTES:", "if False:",
           "unit/stub/session/test_synchronize.py"),
    Mutant("stub/support/runtime_handle.py", "if len(self._outstanding) >= MAX_PENDING:", "if False:",
           "unit/stub/support/test_runtime_handle.py"),
    Mutant("stub/handler/call.py", "if is_filtered and not admits(handler, pod):", "if False:",
           "unit/stub/support/test_pod_filter.py"),
    # Configuration, the machine, specs, Kubernetes
    Mutant("config/duration.py", "if not body or end != len(body):", "if not body:", "unit/config/test_duration.py"),
    Mutant("host/cgroups/units.py", "number < 0 or number >= _NO_LIMIT_V1", "number < 0",
           "unit/host/cgroups/test_units.py"),
    Mutant("host/resctrl.py", "if not self.sparse and low & (low + 1):", "if False:", "unit/host/test_resctrl.py"),
    Mutant("oci/mounts.py", "propagation not in accepted", "False", "unit/oci"),
    Mutant("cri/logs.py", "and len(text) < MAX_LINE_BYTES", "", "unit/cri/test_logs.py"),
    Mutant("kube/quantity.py", "min(max(millicpu * _SHARES_PER_CPU // 1000, _MIN_SHARES), _MAX_SHARES)",
           "max(millicpu, 2)", "unit/kube/test_quantity.py"),
    Mutant("kube/client/connection.py", "if max_bytes < 0:", "if False:", "unit/kube/client/test_connection.py"),
    Mutant("kube/client/objects.py", 'if not meta.get("name"):', "if False:", "unit/kube/client/test_objects.py"),
    Mutant("kube/client/follow.py", 'if event.type == "BOOKMARK":', "if False:", "unit/kube/client/test_follow.py"),
    Mutant("kube/lists.py", "if size <= self._max_object_bytes else", "if True else", "unit/kube/test_lists.py"),
    Mutant("kube/lists.py", "if len(self._frame) > _MAX_FRAME_BYTES:", "if False:", "unit/kube/test_lists.py"),
    Mutant("kube/decoder.py", "if size > limit:", "if False:", "unit/kube/test_decoder.py"),
    Mutant("kube/object_cache.py", "while self._total > self._max_bytes:", "while False:",
           "unit/kube/test_object_cache.py"),
    Mutant("service/http.py", "credentials(sock).uid not in (0, os.geteuid())", "False", "unit/service"),
    Mutant("trace/dissection.py", "if len(payload) < length:", "if False:", "unit/trace"),
    # Policies and the agent
    Mutant("agent/koordinator/cpu_suppress.py", "current + -(-cpus // 10)", "current + cpus",
           "unit/agent/koordinator/test_cpu_suppress.py"),
    Mutant("agent/koordinator/batch_resource.py", "if any(limit <= 0 for limit in limits)",
           "if any(limit < 0 for limit in limits)", "unit/agent/koordinator/test_batch_resource.py"),
    Mutant("agent/worker.py", "self._due = self._clock() + self.interval_s", "self._due += self.interval_s",
           "unit/agent/test_worker.py"),
    Mutant("agent/executor.py", "return sorted(processes)[:_MAX_PROCESSES]", "return sorted(processes)",
           "unit/agent/test_executor.py"),
    Mutant("agent/koordinator/evict.py", "if not why and frees", "if frees",
           "unit/agent/koordinator/test_evict.py"),
    # The engine and the proxy
    Mutant("engine/images/manifest_lists.py", "if depth > _MAX_INDEX_DEPTH:", "if False:", "unit/engine/images"),
    Mutant("engine/images/manifest_lists.py", "if requests == _MAX_LISTED:", "if False:", "unit/engine/images"),
    Mutant("engine/images/manifest.py", "if len(table) != len(pairs):", "if False:", "unit/engine/images"),
    Mutant("engine/spec/user.py", "text.isascii() and text.isdecimal()", "text.isdecimal()",
           "unit/engine/spec/test_user.py"),
    Mutant("engine/spec/sysctls.py", "== pb.NODE:", "== pb.POD:", "unit/engine/spec/test_sysctls.py"),
    Mutant("engine/state/store.py", "if record.id != name:", "if False:",
           "unit/engine/state/test_store.py"),
    Mutant("engine/network/cni.py", "first = first or error", "first = error", "unit/engine/network/test_cni.py"),
    Mutant("engine/process/exits.py", "if find_conmon(bundle, container_id) != pid:", "if False:",
           "unit/engine/process/test_exits.py"),
    Mutant("engine/lifecycle/exit_handler.py", "ContainerState.REMOVING, ContainerState.CREATING)",
           "ContainerState.REMOVING)", "unit/engine/lifecycle/test_exit_handler.py"),
    Mutant("engine/streaming/channels.py", "(ValueError, RecursionError)", "ValueError",
           "unit/engine/streaming/test_terminal_sizes.py"),
    Mutant("engine/calls/pod_removal.py", "in (PodState.STOPPED, PodState.REMOVING)", "is PodState.STOPPED",
           "unit/engine/calls/test_pod_creation.py"),
    Mutant("engine/streaming/server.py", "stream_request if expires > self._clock() else None", "stream_request",
           "unit/engine/streaming/test_tokens.py"),
    Mutant("proxy/state/store.py", "if len(matches) == 1", "if matches", "unit/proxy/state"),
    Mutant("proxy/events/exits.py", "or record.reported_step != CREATED or", "or", "unit/proxy/events/test_exits.py"),
)  # fmt: skip
"""All of them."""


def lines_with(text: str, source: str) -> list[int]:
    """The indices of the lines that contain a text."""
    return [number for number, line in enumerate(source.splitlines()) if text in line]


def mutated(mutant: Mutant, source: str) -> str:
    """The file with the mistake. Raises ValueError if the text is not in exactly one line."""
    matches = lines_with(mutant.text, source)
    if len(matches) != 1:
        raise ValueError(f"src/nri/{mutant.file}: {mutant.text!r} is in {len(matches)} lines, must be in one")
    lines = source.splitlines(keepends=True)
    line = lines[matches[0]]
    if line.count(mutant.text) != 1:
        raise ValueError(f"src/nri/{mutant.file}: {mutant.text!r} is in its line more than once")
    lines[matches[0]] = line.replace(mutant.text, mutant.instead)
    return "".join(lines)
