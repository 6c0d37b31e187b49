package adaptation

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// event relays one event; reply is filled if the event has one.
func (a *Adaptation) event(ctx context.Context, name string, message *line, reply proto.Message) error {
	message.Name = name
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline).Seconds()
		message.TimeoutS = &left
	}
	type outcome struct {
		answer *line
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := a.call("event", message)
		done <- outcome{answer, err}
	}()
	select {
	case got := <-done:
		if got.err != nil || reply == nil {
			return got.err
		}
		return proto.Unmarshal(got.answer.Reply, reply)
	case <-cancelled(ctx):
		// A runtime in Python bounds its requests with a deadline and cannot
		// take one back: all that a cancelled caller can do is go.
		return ctx.Err()
	}
}

// cancelled is closed when the context ends without a deadline of its own: one
// that has a deadline is passed on with it, and the other side says so.
func cancelled(ctx context.Context) <-chan struct{} {
	if _, ok := ctx.Deadline(); ok {
		return nil
	}
	return ctx.Done()
}

func subject(pod *api.PodSandbox, container *api.Container) *line {
	message := &line{Pod: encodeOne(pod)}
	if container != nil {
		message.Container = encodeOne(container)
	}
	return message
}

// RunPodSandbox is an event, as all below.
func (a *Adaptation) RunPodSandbox(ctx context.Context, req *api.RunPodSandboxRequest) error {
	return a.event(ctx, "run_pod_sandbox", subject(req.Pod, nil), nil)
}

// UpdatePodSandbox is an event.
func (a *Adaptation) UpdatePodSandbox(ctx context.Context, req *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	message := subject(req.Pod, nil)
	message.Overhead, message.Resources = encodeOne(req.OverheadLinuxResources), encodeOne(req.LinuxResources)
	if err := a.event(ctx, "update_pod_sandbox", message, nil); err != nil {
		return nil, err
	}
	return &api.UpdatePodSandboxResponse{}, nil
}

// PostUpdatePodSandbox is an event.
func (a *Adaptation) PostUpdatePodSandbox(ctx context.Context, req *api.PostUpdatePodSandboxRequest) error {
	return a.event(ctx, "post_update_pod_sandbox", subject(req.Pod, nil), nil)
}

// StopPodSandbox is an event.
func (a *Adaptation) StopPodSandbox(ctx context.Context, req *api.StopPodSandboxRequest) error {
	return a.event(ctx, "stop_pod_sandbox", subject(req.Pod, nil), nil)
}

// RemovePodSandbox is an event.
func (a *Adaptation) RemovePodSandbox(ctx context.Context, req *api.RemovePodSandboxRequest) error {
	return a.event(ctx, "remove_pod_sandbox", subject(req.Pod, nil), nil)
}

// CreateContainer is an event.
func (a *Adaptation) CreateContainer(ctx context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	reply := &api.CreateContainerResponse{}
	if err := a.event(ctx, "create_container", subject(req.Pod, req.Container), reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// PostCreateContainer is an event.
func (a *Adaptation) PostCreateContainer(ctx context.Context, req *api.PostCreateContainerRequest) error {
	return a.event(ctx, "post_create_container", subject(req.Pod, req.Container), nil)
}

// StartContainer is an event.
func (a *Adaptation) StartContainer(ctx context.Context, req *api.StartContainerRequest) error {
	return a.event(ctx, "start_container", subject(req.Pod, req.Container), nil)
}

// PostStartContainer is an event.
func (a *Adaptation) PostStartContainer(ctx context.Context, req *api.PostStartContainerRequest) error {
	return a.event(ctx, "post_start_container", subject(req.Pod, req.Container), nil)
}

// UpdateContainer is an event.
func (a *Adaptation) UpdateContainer(ctx context.Context, req *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	message, reply := subject(req.Pod, req.Container), &api.UpdateContainerResponse{}
	message.Resources = encodeOne(req.LinuxResources)
	if err := a.event(ctx, "update_container", message, reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// PostUpdateContainer is an event.
func (a *Adaptation) PostUpdateContainer(ctx context.Context, req *api.PostUpdateContainerRequest) error {
	return a.event(ctx, "post_update_container", subject(req.Pod, req.Container), nil)
}

// StopContainer is an event.
func (a *Adaptation) StopContainer(ctx context.Context, req *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	reply := &api.StopContainerResponse{}
	if err := a.event(ctx, "stop_container", subject(req.Pod, req.Container), reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// RemoveContainer is an event.
func (a *Adaptation) RemoveContainer(ctx context.Context, req *api.RemoveContainerRequest) error {
	return a.event(ctx, "remove_container", subject(req.Pod, req.Container), nil)
}
