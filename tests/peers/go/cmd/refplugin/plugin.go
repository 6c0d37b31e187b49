package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
	"nri.test/common/script"
)

// plugin implements every handler of the reference's stub; what it subscribes
// to, and what it does, is the script's.
type plugin struct {
	script     *script.Script
	out        *lines.Writer
	events     api.EventMask
	began      time.Time
	stopping   atomic.Bool
	configured atomic.Bool

	mu   sync.Mutex
	stub stub.Stub
}

func newPlugin(s *script.Script) (*plugin, error) {
	file, err := s.Out()
	if err != nil {
		return nil, err
	}
	p := &plugin{script: s, out: lines.NewWriter(file), began: time.Now()}
	for _, name := range s.Events {
		mask, err := api.ParseEventMask(name)
		if err != nil {
			return nil, err
		}
		p.events |= mask
	}
	return p, nil
}

// received prints one event and does what its step says. Fields are pairs of a
// key and a message; a pod and a container are cut to their names and ids
// unless the script wants them in full.
func (p *plugin) received(event string, fields lines.Object) (script.Step, error) {
	step := p.script.Next(event)
	line := lines.Object{"event": event, "ns": time.Since(p.began).Nanoseconds()}
	for key, value := range fields {
		line[key] = value
	}
	p.out.Write(line)
	if len(step.After) != 0 {
		go p.update(nil, step.After)
	}
	if len(step.Updates) != 0 {
		p.update(nil, step.Updates)
	}
	return step, step.Act()
}

// subject is the pod and container part of a line.
func (p *plugin) subject(pod *api.PodSandbox, container *api.Container) lines.Object {
	object := lines.Object{}
	if pod != nil {
		object["pod"] = lines.Object{"id": pod.GetId(), "name": pod.GetName()}
		if p.script.Full {
			object["pod"] = lines.JSON(pod)
		}
	}
	if container != nil {
		object["container"] = lines.Object{"id": container.GetId(), "name": container.GetName()}
		if p.script.Full {
			object["container"] = lines.JSON(container)
		}
	}
	return object
}

// seen is the whole of most handlers.
func (p *plugin) seen(event string, pod *api.PodSandbox, container *api.Container) error {
	_, err := p.received(event, p.subject(pod, container))
	return err
}

func parseUpdates(raws []json.RawMessage) ([]*api.ContainerUpdate, error) {
	return lines.List[api.ContainerUpdate](raws)
}

// Configure subscribes to the script's events.
func (p *plugin) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	_, err := p.received("Configure", lines.Object{"config": config, "runtime": runtime, "version": version})
	if err == nil {
		p.configured.Store(true)
	}
	return p.events, err
}

// Synchronize prints how much came, and everything if the script wants it.
func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	fields := lines.Object{"pods": len(pods), "containers": len(containers)}
	if p.script.Full {
		fields["pods"], fields["containers"] = lines.JSONList(pods), lines.JSONList(containers)
	}
	step, err := p.received("Synchronize", fields)
	if err != nil {
		return nil, err
	}
	return parseUpdates(step.Update)
}

// Shutdown is announced by the runtime.
func (p *plugin) Shutdown(context.Context) {
	p.received("Shutdown", nil) //nolint:errcheck // there is nobody to tell
}

// CreateContainer answers with the script's adjustment and updates.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	step, err := p.received("CreateContainer", p.subject(pod, container))
	if err != nil {
		return nil, nil, err
	}
	adjust, adjustErr := lines.One[api.ContainerAdjustment](step.Adjust)
	update, updateErr := parseUpdates(step.Update)
	return adjust, update, errors.Join(adjustErr, updateErr)
}

// UpdateContainer answers with the script's updates.
func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	fields := p.subject(pod, container)
	fields["resources"] = lines.JSON(resources)
	step, err := p.received("UpdateContainer", fields)
	if err != nil {
		return nil, err
	}
	return parseUpdates(step.Update)
}

// StopContainer answers with the script's updates.
func (p *plugin) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	step, err := p.received("StopContainer", p.subject(pod, container))
	if err != nil {
		return nil, err
	}
	return parseUpdates(step.Update)
}

// RunPodSandbox and the handlers below only have an error to answer with.
func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.seen("RunPodSandbox", pod, nil)
}

// StopPodSandbox is an event.
func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.seen("StopPodSandbox", pod, nil)
}

// RemovePodSandbox is an event.
func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.seen("RemovePodSandbox", pod, nil)
}

// PostCreateContainer is an event.
func (p *plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.seen("PostCreateContainer", pod, container)
}

// StartContainer is an event.
func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.seen("StartContainer", pod, container)
}

// PostStartContainer is an event.
func (p *plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.seen("PostStartContainer", pod, container)
}

// PostUpdateContainer is an event.
func (p *plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.seen("PostUpdateContainer", pod, container)
}

// RemoveContainer is an event.
func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.seen("RemoveContainer", pod, container)
}
