//go:build nri061

package main

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// How release 0.6.1 is called: most events are one StateChange message, and
// there are no pod updates, validators, metrics or synchronization blocks.

// connectedFormat is the log line that tells of a plugin that is ready.
const connectedFormat = "plugin %q connected"

// countFromLog is true: nothing else says how many plugins there are.
const countFromLog = true

// validatorTable takes no keys: this release has no default validator.
type validatorTable struct{}

func (o *options) newer(*recorder) []adaptation.Option { return nil }

func (r *refRuntime) blockSync() (func(), error) {
	return nil, errors.New("release 0.6.1 cannot block synchronization")
}

// relayed makes an event out of a call that takes a StateChange message.
func relayed(call func(*adaptation.Adaptation, context.Context, *api.StateChangeEvent) error) func(context.Context, *adaptation.Adaptation, request) (proto.Message, error) {
	return func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return nil, call(a, c, &api.StateChangeEvent{Pod: q.pod, Container: q.container})
	}
}

// events maps names to calls of the adaptation; nil replies have no content.
var events = map[string]func(context.Context, *adaptation.Adaptation, request) (proto.Message, error){
	"RunPodSandbox":       relayed((*adaptation.Adaptation).RunPodSandbox),
	"StopPodSandbox":      relayed((*adaptation.Adaptation).StopPodSandbox),
	"RemovePodSandbox":    relayed((*adaptation.Adaptation).RemovePodSandbox),
	"PostCreateContainer": relayed((*adaptation.Adaptation).PostCreateContainer),
	"StartContainer":      relayed((*adaptation.Adaptation).StartContainer),
	"PostStartContainer":  relayed((*adaptation.Adaptation).PostStartContainer),
	"PostUpdateContainer": relayed((*adaptation.Adaptation).PostUpdateContainer),
	"RemoveContainer":     relayed((*adaptation.Adaptation).RemoveContainer),
	"CreateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.CreateContainer(c, &api.CreateContainerRequest{Pod: q.pod, Container: q.container})
	},
	"UpdateContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.UpdateContainer(c, &api.UpdateContainerRequest{
			Pod: q.pod, Container: q.container, LinuxResources: q.resources})
	},
	"StopContainer": func(c context.Context, a *adaptation.Adaptation, q request) (proto.Message, error) {
		return a.StopContainer(c, &api.StopContainerRequest{Pod: q.pod, Container: q.container})
	},
}
