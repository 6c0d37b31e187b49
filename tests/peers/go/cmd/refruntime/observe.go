package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"

	"nri.test/common/lines"
)

// roster is what is known of the plugins. The adaptation has no call that lists
// them, but it counts them in its metrics and logs their order.
type roster struct {
	mu    sync.Mutex
	count int
	order []string // as last logged: index-name, by rising index
}

func (p *roster) snapshot() lines.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := append([]string{}, p.order...)
	return lines.Object{"count": p.count, "order": order}
}

// watchLog picks the plugins' order and their coming out of the log.
func (r *refRuntime) watchLog(format string, args []any) {
	switch format {
	case "plugin invocation order":
		r.plugins.mu.Lock()
		r.plugins.order = nil
		r.plugins.mu.Unlock()
	case "  #%d: %q (%s)":
		r.plugins.mu.Lock()
		r.plugins.order = append(r.plugins.order, fmt.Sprint(args[1]))
		r.plugins.mu.Unlock()
	case connectedFormat:
		r.out.Write(lines.Object{"event": "plugin", "name": fmt.Sprint(args[0])})
		r.countLogged()
	case "connection to plugin %q closed":
		name := fmt.Sprint(args[0])
		r.plugins.mu.Lock()
		r.plugins.order = slices.DeleteFunc(r.plugins.order, func(other string) bool { return other == name })
		r.plugins.mu.Unlock()
		r.out.Write(lines.Object{"event": "plugin_closed", "name": name})
		r.countLogged()
	}
}

// countLogged counts the plugins in the log where nothing else counts them.
func (r *refRuntime) countLogged() {
	if countFromLog {
		r.plugins.mu.Lock()
		count := len(r.plugins.order)
		r.plugins.mu.Unlock()
		r.pluginCount(count)
	}
}

// pluginCount notes the number of plugins, and says so when it changed.
func (r *refRuntime) pluginCount(count int) {
	r.plugins.mu.Lock()
	changed := r.plugins.count != count
	r.plugins.count = count
	r.plugins.mu.Unlock()
	if changed {
		r.out.Write(lines.Object{"event": "plugin_count", "count": count})
	}
}

// waitPlugins answers once there are at least, or exactly, so many plugins.
func (r *refRuntime) waitPlugins(line []byte) (any, error) {
	var wait struct {
		Count     int  `json:"count"`
		Exactly   bool `json:"exactly"`
		TimeoutMS int  `json:"timeout_ms"`
	}
	if err := json.Unmarshal(line, &wait); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(time.Duration(max(wait.TimeoutMS, 1)) * time.Millisecond)
	for {
		r.plugins.mu.Lock()
		count, named := r.plugins.count, len(r.plugins.order)
		r.plugins.mu.Unlock()
		// The names come line by line out of the log, the number from elsewhere: an answer has both.
		if named == count && (count == wait.Count || (count > wait.Count && !wait.Exactly)) {
			return r.plugins.snapshot(), nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d plugins after %d ms, wanted %d", count, wait.TimeoutMS, wait.Count)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// recorder keeps the calls of the reference's metrics interface.
type recorder struct {
	changed func(count int)
	mu      sync.Mutex
	calls   []lines.Object
}

// maxCalls bounds the record; tests ask long before.
const maxCalls = 100_000

func (m *recorder) add(call lines.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.calls) < maxCalls {
		m.calls = append(m.calls, call)
	}
}

func (m *recorder) snapshot() []lines.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := append([]lines.Object{}, m.calls...)
	m.calls = nil
	return calls
}

// RecordPluginInvocation is part of the reference's metrics interface.
func (m *recorder) RecordPluginInvocation(plugin, operation string, err error) {
	call := lines.Object{"call": "invocation", "plugin": plugin, "operation": operation, "error": nil}
	if err != nil {
		call["error"] = err.Error()
	}
	m.add(call)
}

// RecordPluginLatency is part of the reference's metrics interface.
func (m *recorder) RecordPluginLatency(plugin, operation string, latency time.Duration) {
	m.add(lines.Object{"call": "latency", "plugin": plugin, "operation": operation, "ns": latency.Nanoseconds()})
}

// RecordPluginAdjustments is part of the reference's metrics interface.
func (m *recorder) RecordPluginAdjustments(plugin, operation string, adjust *adaptation.ContainerAdjustment, updates, evicts int) {
	m.add(lines.Object{"call": "adjustments", "plugin": plugin, "operation": operation,
		"adjust": json.RawMessage(lines.JSON(adjust)), "updates": updates, "evicts": evicts})
}

// UpdatePluginCount is part of the reference's metrics interface.
func (m *recorder) UpdatePluginCount(count int) {
	m.add(lines.Object{"call": "count", "count": count})
	m.changed(count)
}
