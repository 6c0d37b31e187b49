package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"nri.test/peers/internal/lines"
)

// run carries out one command and gives its reply.
func (r *refRuntime) run(cmd string, line []byte) (any, error) {
	switch cmd {
	case "start":
		return r.start(line)
	case "stop":
		r.stop()
		return lines.Object{}, nil
	case "set_state":
		return r.setState(line)
	case "set_callbacks":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.callbacks = callbacks{}
		return lines.Object{}, json.Unmarshal(line, &r.callbacks)
	}
	if r.nri == nil {
		return nil, fmt.Errorf("command %q before start", cmd)
	}
	switch cmd {
	case "event":
		return r.event(line)
	case "plugins":
		return r.plugins.snapshot(), nil
	case "wait_plugins":
		return r.waitPlugins(line)
	case "metrics":
		return r.metrics.snapshot(), nil
	case "block":
		if r.block != nil {
			return nil, errors.New("already blocked")
		}
		r.block = r.nri.BlockPluginSync()
		return lines.Object{}, nil
	case "unblock":
		r.block.Unblock()
		r.block = nil
		return lines.Object{}, nil
	}
	return nil, fmt.Errorf("unknown command %q", cmd)
}

// event is one event of a pod or container, as the tests describe it.
type event struct {
	Name      string          `json:"name"`
	Pod       json.RawMessage `json:"pod"`
	Container json.RawMessage `json:"container"`
	Resources json.RawMessage `json:"resources"`
	Overhead  json.RawMessage `json:"overhead"`
	TimeoutMS int             `json:"timeout_ms"` // of the runtime's own context, 0 = none
}

// request holds the parsed parts of an event.
type request struct {
	pod                 *api.PodSandbox
	container           *api.Container
	resources, overhead *api.LinuxResources
}

// events maps names to calls of the adaptation; nil replies have no content.
var events = map[string]func(context.Context, *adaptation.Adaptation, request) (proto.Message, error){
	"RunPodSandbox": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.RunPodSandbox(c, &api.RunPodSandboxRequest{Pod: q.pod})
	},
	"UpdatePodSandbox": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.UpdatePodSandbox(c, &api.UpdatePodSandboxRequest{
			Pod: q.pod, OverheadLinuxResources: q.overhead, LinuxResources: q.resources})
	},
	"PostUpdatePodSandbox": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.PostUpdatePodSandbox(c, &api.PostUpdatePodSandboxRequest{Pod: q.pod})
	},
	"StopPodSandbox": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.StopPodSandbox(c, &api.StopPodSandboxRequest{Pod: q.pod})
	},
	"RemovePodSandbox": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.RemovePodSandbox(c, &api.RemovePodSandboxRequest{Pod: q.pod})
	},
	"CreateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.CreateContainer(c, &api.CreateContainerRequest{Pod: q.pod, Container: q.container})
	},
	"PostCreateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.PostCreateContainer(c, &api.PostCreateContainerRequest{Pod: q.pod, Container: q.container})
	},
	"StartContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.StartContainer(c, &api.StartContainerRequest{Pod: q.pod, Container: q.container})
	},
	"PostStartContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.PostStartContainer(c, &api.PostStartContainerRequest{Pod: q.pod, Container: q.container})
	},
	"UpdateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.UpdateContainer(c, &api.UpdateContainerRequest{
			Pod: q.pod, Container: q.container, LinuxResources: q.resources})
	},
	"PostUpdateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.PostUpdateContainer(c, &api.PostUpdateContainerRequest{Pod: q.pod, Container: q.container})
	},
	"StopContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.StopContainer(c, &api.StopContainerRequest{Pod: q.pod, Container: q.container})
	},
	"RemoveContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, a.RemoveContainer(c, &api.RemoveContainerRequest{Pod: q.pod, Container: q.container})
	},
}

func (r *refRuntime) event(line []byte) (any, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	call, known := events[e.Name]
	if !known {
		return nil, fmt.Errorf("unknown event %q", e.Name)
	}
	request, err := e.parse()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if e.TimeoutMS != 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(e.TimeoutMS)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	reply, err := call(ctx, r.nri, request)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return lines.Object{}, nil
	}
	return lines.JSON(reply), nil
}

func (e *event) parse() (request, error) {
	pod, podErr := lines.One[api.PodSandbox](e.Pod)
	container, containerErr := lines.One[api.Container](e.Container)
	resources, resourcesErr := lines.One[api.LinuxResources](e.Resources)
	overhead, overheadErr := lines.One[api.LinuxResources](e.Overhead)
	return request{pod, container, resources, overhead},
		errors.Join(podErr, containerErr, resourcesErr, overheadErr)
}
