package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"nri.test/bench/internal/usage"
	"nri.test/common/lines"
)

// round is one measurement: events of one kind, spread over callers.
type round struct {
	Kind    string `json:"kind"`
	Events  int    `json:"events"`
	Callers int    `json:"callers"`
	IdleUS  int    `json:"idle_us"` // pause of each caller before each event
}

// call sends one event; container is the caller's own and may be changed.
type call func(ctx context.Context, nri *adaptation.Adaptation, pod *api.PodSandbox, container *api.Container) error

var kinds = map[string]call{
	"psc": func(ctx context.Context, nri *adaptation.Adaptation, pod *api.PodSandbox, container *api.Container) error {
		return nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: container})
	},
	"sc": func(ctx context.Context, nri *adaptation.Adaptation, pod *api.PodSandbox, container *api.Container) error {
		return nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: container})
	},
	"cc": func(ctx context.Context, nri *adaptation.Adaptation, pod *api.PodSandbox, container *api.Container) error {
		_, err := nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
		return err
	},
}

func (r *runtime) measure(m *round) (any, error) {
	send, known := kinds[m.Kind]
	if !known || m.Events < 1 {
		return nil, fmt.Errorf("no round of %d events of kind %q", m.Events, m.Kind)
	}
	callers := max(m.Callers, 1)
	perCaller := (m.Events + callers - 1) / callers
	containers := r.copies(m.Kind, callers*perCaller)
	samples := make([]int64, callers*perCaller)
	errs := make([]error, callers)

	var done sync.WaitGroup
	cpu, wall := usage.CPU(), usage.Now()
	for caller := range callers {
		done.Add(1)
		go func() {
			defer done.Done()
			for i := caller * perCaller; i < (caller+1)*perCaller; i++ {
				if m.IdleUS > 0 {
					time.Sleep(time.Duration(m.IdleUS) * time.Microsecond)
				}
				began := time.Now()
				err := send(context.Background(), r.nri, r.pod, containers[i])
				samples[i] = time.Since(began).Nanoseconds()
				if err != nil {
					errs[caller] = err
					return
				}
			}
		}()
	}
	done.Wait()
	wall, cpu = usage.Now()-wall, usage.CPU()-cpu
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return lines.Object{"ns": samples, "wall_ns": wall, "cpu_ns": cpu}, nil
}

// copies are the containers of a round. CreateContainer changes its container,
// so each event has its own, made before the clock starts.
func (r *runtime) copies(kind string, n int) []*api.Container {
	list := make([]*api.Container, n)
	for i := range list {
		list[i] = r.container
		if kind == "cc" {
			list[i] = proto.Clone(r.container).(*api.Container)
		}
	}
	return list
}
