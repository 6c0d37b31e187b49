package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"nri.test/common/lines"
	"nri.test/common/script"
)

// byRequest does what the pod's annotation says: NAME.test/EVENT is a step, as
// in a script of refplugin. Without one it does nothing.
type byRequest struct {
	name    string
	events  api.EventMask
	unnamed bool // as koordlet: every UpdateContainer is answered with an update without an id
	seen    *record
}

// unnamedShares are what such an update asks for.
const unnamedShares = 777

// Configure subscribes.
func (p *byRequest) Configure(context.Context, string, string, string) (api.EventMask, error) {
	return p.events, nil
}

// step notes the request, and does its step for this plugin.
func (p *byRequest) step(event string, pod *api.PodSandbox, seen ...proto.Message) (script.Step, error) {
	p.seen.add(event, pod, seen)
	var step script.Step
	text, found := pod.GetAnnotations()[p.name+".test/"+event]
	if !found {
		return step, nil
	}
	if err := json.Unmarshal([]byte(text), &step); err != nil {
		return step, err
	}
	return step, step.Act()
}

func (p *byRequest) plain(event string, pod *api.PodSandbox, seen ...proto.Message) error {
	_, err := p.step(event, pod, seen...)
	return err
}

// CreateContainer answers with the step's adjustment and updates.
func (p *byRequest) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	step, err := p.step("CreateContainer", pod, container)
	if err != nil {
		return nil, nil, err
	}
	adjust, adjustErr := lines.One[api.ContainerAdjustment](step.Adjust)
	updates, updateErr := lines.List[api.ContainerUpdate](step.Update)
	return adjust, updates, errors.Join(adjustErr, updateErr)
}

// UpdateContainer answers with the step's updates, and one without an id.
func (p *byRequest) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	step, err := p.step("UpdateContainer", pod, container, resources)
	if err != nil {
		return nil, err
	}
	updates, err := lines.List[api.ContainerUpdate](step.Update)
	if p.unnamed {
		update := &api.ContainerUpdate{}
		update.SetLinuxCPUShares(unnamedShares)
		updates = append(updates, update)
	}
	return updates, err
}

// StopContainer answers with the step's updates.
func (p *byRequest) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	step, err := p.step("StopContainer", pod, container)
	if err != nil {
		return nil, err
	}
	return lines.List[api.ContainerUpdate](step.Update)
}

// ValidateContainerAdjustment rejects if the step has an error.
func (p *byRequest) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	return p.plain("ValidateContainerAdjustment", req.GetPod(), req)
}

// RunPodSandbox is an event without an answer, as all below.
func (p *byRequest) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.plain("RunPodSandbox", pod, pod)
}

// UpdatePodSandbox is an event.
func (p *byRequest) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	return p.plain("UpdatePodSandbox", pod, overhead, resources)
}

// PostUpdatePodSandbox is an event.
func (p *byRequest) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.plain("PostUpdatePodSandbox", pod, pod)
}

// StopPodSandbox is an event.
func (p *byRequest) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.plain("StopPodSandbox", pod, pod)
}

// RemovePodSandbox is an event.
func (p *byRequest) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.plain("RemovePodSandbox", pod, pod)
}

// PostCreateContainer is an event.
func (p *byRequest) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.plain("PostCreateContainer", pod, container)
}

// StartContainer is an event.
func (p *byRequest) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.plain("StartContainer", pod, container)
}

// PostStartContainer is an event.
func (p *byRequest) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.plain("PostStartContainer", pod, container)
}

// PostUpdateContainer is an event.
func (p *byRequest) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.plain("PostUpdateContainer", pod, container)
}

// RemoveContainer is an event.
func (p *byRequest) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.plain("RemoveContainer", pod, container)
}

// record is a file with a line for each request: the event, the pod's
// annotation "request.test/id", and the messages in base64.
type record struct {
	out *lines.Writer
}

func newRecord(path string) (*record, error) {
	if path == "" {
		return &record{}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &record{out: lines.NewWriter(file)}, nil
}

func (r *record) add(event string, pod *api.PodSandbox, messages []proto.Message) {
	if r.out == nil {
		return
	}
	encoded := make([][]byte, len(messages))
	for i, message := range messages {
		encoded[i], _ = proto.Marshal(message) //nolint:errcheck // it has come as bytes
	}
	r.out.Write(lines.Object{"event": event, "request": pod.GetAnnotations()["request.test/id"], "seen": encoded})
}
