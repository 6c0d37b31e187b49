//go:build wasip1

// A plugin in WebAssembly on the reference's SDK. The pod's annotation "do" says what CreateContainer does; every
// call is told to the host.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
)

type plugin struct {
	calls  int
	config string
	kept   [][]byte
}

func init() { api.RegisterPlugin(&plugin{}) }

func main() {}

func say(ctx context.Context, level api.LogRequest_Level, format string, args ...any) {
	if _, err := api.NewHostFunctions().Log(ctx, &api.LogRequest{Msg: fmt.Sprintf(format, args...), Level: level}); err != nil {
		fmt.Fprintln(os.Stderr, "the host does not log:", err)
	}
}

func (p *plugin) told(ctx context.Context, call string) {
	p.calls++
	say(ctx, api.LogRequest_LEVEL_INFO, "call %d: %s", p.calls, call)
}

func (p *plugin) Configure(ctx context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	p.config = r.Config
	say(ctx, api.LogRequest_LEVEL_WARN, "configured by %s %s with %q", r.RuntimeName, r.RuntimeVersion, r.Config)
	if r.Config == "bad" {
		return nil, errors.New("a bad configuration")
	}
	response := &api.ConfigureResponse{}
	if r.Config == "no validator" {
		response.Events = 1<<13 - 1
	}
	return response, nil
}

func (p *plugin) Synchronize(ctx context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	p.told(ctx, fmt.Sprintf("Synchronize %d pods %d containers", len(r.Pods), len(r.Containers)))
	return &api.SynchronizeResponse{}, nil
}

func (p *plugin) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	p.told(ctx, "CreateContainer")
	switch r.Pod.Annotations["do"] {
	case "refuse":
		return nil, errors.New("this one is refused")
	case "panic":
		var nothing *api.PodSandbox
		nothing.Name = "nobody's"
	case "exit":
		os.Exit(3)
	case "sleep":
		time.Sleep(time.Hour)
	case "nap":
		time.Sleep(50 * time.Millisecond)
	case "loop":
		for {
			p.calls++
		}
	case "eat":
		for {
			p.kept = append(p.kept, make([]byte, 16<<20))
		}
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("POD", r.Pod.Name)
	adjust.AddEnv("CONFIG", p.config)
	adjust.AddMount(&api.Mount{Source: "/", Destination: "/host", Type: "bind", Options: []string{"ro"}})
	adjust.SetLinuxCPUShares(1234)
	return &api.CreateContainerResponse{Adjust: adjust}, nil
}

func (p *plugin) UpdateContainer(ctx context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	p.told(ctx, "UpdateContainer")
	update := &api.ContainerUpdate{}
	update.SetContainerId(r.Container.Id)
	update.SetLinuxCPUShares(4321)
	return &api.UpdateContainerResponse{Update: []*api.ContainerUpdate{update}}, nil
}

func (p *plugin) ValidateContainerAdjustment(ctx context.Context, r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	p.told(ctx, "ValidateContainerAdjustment")
	if r.Pod.Annotations["do"] == "reject" {
		return &api.ValidateContainerAdjustmentResponse{Reject: true, Reason: "nothing may be adjusted here"}, nil
	}
	return &api.ValidateContainerAdjustmentResponse{}, nil
}

func (p *plugin) Shutdown(ctx context.Context, _ *api.Empty) (*api.Empty, error) {
	p.told(ctx, "Shutdown")
	return &api.Empty{}, nil
}

func (p *plugin) RunPodSandbox(ctx context.Context, _ *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	p.told(ctx, "RunPodSandbox")
	return &api.RunPodSandboxResponse{}, nil
}

func (p *plugin) UpdatePodSandbox(ctx context.Context, _ *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	p.told(ctx, "UpdatePodSandbox")
	return &api.UpdatePodSandboxResponse{}, nil
}

func (p *plugin) PostUpdatePodSandbox(ctx context.Context, _ *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	p.told(ctx, "PostUpdatePodSandbox")
	return &api.PostUpdatePodSandboxResponse{}, nil
}

func (p *plugin) StopPodSandbox(ctx context.Context, _ *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	p.told(ctx, "StopPodSandbox")
	return &api.StopPodSandboxResponse{}, nil
}

func (p *plugin) RemovePodSandbox(ctx context.Context, _ *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	p.told(ctx, "RemovePodSandbox")
	return &api.RemovePodSandboxResponse{}, nil
}

func (p *plugin) PostCreateContainer(ctx context.Context, _ *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	p.told(ctx, "PostCreateContainer")
	return &api.PostCreateContainerResponse{}, nil
}

func (p *plugin) StartContainer(ctx context.Context, _ *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	p.told(ctx, "StartContainer")
	return &api.StartContainerResponse{}, nil
}

func (p *plugin) PostStartContainer(ctx context.Context, _ *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	p.told(ctx, "PostStartContainer")
	return &api.PostStartContainerResponse{}, nil
}

func (p *plugin) PostUpdateContainer(ctx context.Context, _ *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	p.told(ctx, "PostUpdateContainer")
	return &api.PostUpdateContainerResponse{}, nil
}

func (p *plugin) StopContainer(ctx context.Context, _ *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	p.told(ctx, "StopContainer")
	return &api.StopContainerResponse{}, nil
}

func (p *plugin) RemoveContainer(ctx context.Context, _ *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	p.told(ctx, "RemoveContainer")
	return &api.RemoveContainerResponse{}, nil
}

func (p *plugin) StateChange(ctx context.Context, _ *api.StateChangeEvent) (*api.Empty, error) {
	p.told(ctx, "StateChange")
	return &api.Empty{}, nil
}
