// Command benchpl is the benchmarks' plugin on the reference's stub: the
// payload's replies and nothing more. Options: -socket, -name, -idx.
//
// It prints {"event":"configured","ns"} and {"event":"synchronized","ns"},
// times on the machine's monotonic clock, and answers on stdin
// {"cmd":"usage"} with cpu_ns, rss_kb, peak_kb and events. The end of stdin
// ends it. Every plugin of the benchmarks, in any language, speaks the same.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/bench/internal/usage"
	"nri.test/common/lines"
)

// delay is how long each handler takes, from the environment: for the case of
// slow plugins.
var delay time.Duration

type plugin struct {
	out    *lines.Writer
	idx    string
	events atomic.Int64
}

func main() {
	socket := flag.String("socket", "", "the runtime's socket")
	name := flag.String("name", "bench", "plugin name")
	idx := flag.String("idx", "00", "plugin index")
	flag.Parse()
	nrilog.Set(&lines.Logger{Quiet: true})

	if ms, err := strconv.Atoi(os.Getenv("BENCH_DELAY_MS")); err == nil {
		delay = time.Duration(ms) * time.Millisecond
	}
	p := &plugin{out: lines.NewWriter(os.Stdout), idx: *idx}
	s, err := stub.New(p, stub.WithPluginName(*name), stub.WithPluginIdx(*idx), stub.WithSocketPath(*socket),
		stub.WithOnClose(func() { os.Exit(0) }))
	if err != nil {
		lines.Fatal("benchpl: %v", err)
	}
	if err := s.Start(context.Background()); err != nil {
		lines.Fatal("benchpl: %v", err)
	}
	err = lines.Read(os.Stdin, func(line []byte) {
		var command struct {
			ID json.RawMessage `json:"id"`
		}
		json.Unmarshal(line, &command) //nolint:errcheck // there is one command
		reply := usage.Object()
		reply["events"] = p.events.Load()
		p.out.Write(lines.Object{"id": command.ID, "ok": true, "reply": reply})
	})
	if err != nil {
		lines.Fatal("benchpl: stdin: %v", err)
	}
}

// seen is what every handler does with the container: it reads one field.
func (p *plugin) seen(container *api.Container) error {
	if delay > 0 {
		time.Sleep(delay)
	}
	if container.GetName() == "" {
		lines.Fatal("benchpl: a container without a name")
	}
	p.events.Add(1)
	return nil
}

func (p *plugin) Configure(context.Context, string, string, string) (api.EventMask, error) {
	p.out.Write(lines.Object{"event": "configured", "ns": usage.Now()})
	return 0, nil
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.out.Write(lines.Object{"event": "synchronized", "ns": usage.Now(), "pods": len(pods), "containers": len(containers)})
	return nil, nil
}

func (p *plugin) StartContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	return p.seen(container)
}

func (p *plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	return p.seen(container)
}

// CreateContainer adjusts: plugin 00 what many plugins adjust, the others two
// keys of their own each, so that they never conflict.
func (p *plugin) CreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if err := p.seen(container); err != nil {
		return nil, nil, err
	}
	adjust := &api.ContainerAdjustment{}
	if p.idx != "00" {
		adjust.AddLinuxUnified("bench."+p.idx+".first", "1000000")
		adjust.AddLinuxUnified("bench."+p.idx+".second", "2000000")
		return adjust, nil, nil
	}
	adjust.AddEnv("BENCH_FIRST", "the first value that the plugin adds")
	adjust.AddEnv("BENCH_SECOND", "the second value that the plugin adds")
	adjust.AddMount(&api.Mount{Destination: "/bench/mount", Source: "/var/lib/bench/source", Type: "bind",
		Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	adjust.AddAnnotation("bench.example.com/annotation", "the annotation's value")
	adjust.SetLinuxCPUShares(512)
	adjust.SetLinuxMemoryLimit(512 << 20)
	return adjust, nil, nil
}
