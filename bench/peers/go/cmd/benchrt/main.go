// Command benchrt is the benchmarks' runtime on the reference's adaptation.
// One JSON command a line on stdin, one answer a line on stdout:
//
//	start  {socket, pod, container}  the last two: files with the payload's protobuf bytes
//	state  {containers}              synchronize plugins with so many, and half as many pods
//	wait   {count, timeout_ms}       for plugins that are ready
//	round  {kind, events, callers, idle_us}  kind: psc, sc or cc
//	usage, stop
//
// A round is answered by ns (every latency), wall_ns, cpu_ns (this process).
// Each synchronization is a line {"event":"synchronized", ns, containers}.
// Every runtime of the benchmarks, in any language, speaks the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/proto"

	"nri.test/bench/internal/usage"
	"nri.test/common/lines"
)

type command struct {
	ID         json.RawMessage `json:"id"`
	Cmd        string          `json:"cmd"`
	Socket     string          `json:"socket"`
	Pod        string          `json:"pod"`
	Container  string          `json:"container"`
	Containers int             `json:"containers"`
	Count      int             `json:"count"`
	TimeoutMS  int             `json:"timeout_ms"`
	round
}

type runtime struct {
	out       *lines.Writer
	nri       *adaptation.Adaptation
	pod       *api.PodSandbox
	container *api.Container
	plugins   atomic.Int64

	mu         sync.Mutex // guards the state that plugins are synchronized with
	pods       []*api.PodSandbox
	containers []*api.Container
}

func main() {
	nrilog.Set(&lines.Logger{Quiet: true})
	r := &runtime{out: lines.NewWriter(os.Stdout)}
	err := lines.Read(os.Stdin, func(line []byte) {
		var c command
		var reply any = lines.Object{}
		err := json.Unmarshal(line, &c)
		if err == nil {
			reply, err = r.run(&c)
		}
		if err != nil {
			r.out.Write(lines.Object{"id": c.ID, "ok": false, "error": err.Error()})
			return
		}
		r.out.Write(lines.Object{"id": c.ID, "ok": true, "reply": reply})
	})
	if err != nil {
		lines.Fatal("benchrt: stdin: %v", err)
	}
}

func (r *runtime) run(c *command) (any, error) {
	switch c.Cmd {
	case "start":
		return lines.Object{}, r.start(c)
	case "usage":
		return usage.Object(), nil
	}
	if r.nri == nil {
		return nil, fmt.Errorf("command %q before start", c.Cmd)
	}
	switch c.Cmd {
	case "state":
		r.state(c.Containers)
		return lines.Object{}, nil
	case "wait":
		return lines.Object{}, r.wait(c)
	case "round":
		return r.measure(&c.round)
	case "stop":
		r.nri.Stop()
		r.nri = nil
		return lines.Object{}, nil
	}
	return nil, fmt.Errorf("unknown command %q", c.Cmd)
}

func (r *runtime) start(c *command) error {
	r.pod, r.container = &api.PodSandbox{}, &api.Container{}
	if err := errors.Join(load(c.Pod, r.pod), load(c.Container, r.container)); err != nil {
		return err
	}
	// On a busy machine ten thousand containers take the reference longer than its default of two seconds.
	adaptation.SetPluginRequestTimeout(time.Minute)
	adaptation.SetPluginRegistrationTimeout(time.Minute)
	nri, err := adaptation.New("benchrt", "v1.0.0", r.synchronize,
		func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithPluginPath("/nonexistent"), adaptation.WithPluginConfigPath("/nonexistent"),
		adaptation.WithSocketPath(c.Socket), adaptation.WithMetrics(&counter{plugins: &r.plugins}))
	if err != nil {
		return err
	}
	r.nri = nri
	return nri.Start()
}

func load(path string, message proto.Message) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, message)
}

// state makes n containers and half as many pods, all alike but for their ids.
func (r *runtime) state(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods, r.containers = nil, nil
	for i := range n / 2 {
		pod := proto.Clone(r.pod).(*api.PodSandbox)
		pod.Id = fmt.Sprintf("%064d", i)
		r.pods = append(r.pods, pod)
	}
	for i := range n {
		container := proto.Clone(r.container).(*api.Container)
		container.Id, container.PodSandboxId = fmt.Sprintf("%064d", i), fmt.Sprintf("%064d", i/2)
		r.containers = append(r.containers, container)
	}
}

func (r *runtime) synchronize(ctx context.Context, each adaptation.SyncCB) error {
	r.mu.Lock()
	pods, containers := r.pods, r.containers
	r.mu.Unlock()
	began := usage.Now()
	_, err := each(ctx, pods, containers)
	line := lines.Object{"event": "synchronized", "ns": usage.Now() - began, "containers": len(containers)}
	if err != nil {
		line["error"] = err.Error()
	}
	r.out.Write(line)
	return err
}

func (r *runtime) wait(c *command) error {
	deadline := time.Now().Add(time.Duration(c.TimeoutMS) * time.Millisecond)
	for int(r.plugins.Load()) != c.Count {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d plugins, not %d", r.plugins.Load(), c.Count)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// counter takes the number of plugins from the adaptation, and nothing else.
type counter struct{ plugins *atomic.Int64 }

func (*counter) RecordPluginInvocation(string, string, error)                               {}
func (*counter) RecordPluginLatency(string, string, time.Duration)                          {}
func (*counter) RecordPluginAdjustments(string, string, *api.ContainerAdjustment, int, int) {}
func (c *counter) UpdatePluginCount(count int)                                              { c.plugins.Store(int64(count)) }
