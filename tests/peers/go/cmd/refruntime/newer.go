//go:build !nri061

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"
	"google.golang.org/protobuf/proto"
)

// What this release's adaptation has beyond 0.6.1, and how its events are called.

// connectedFormat is the log line that tells of a plugin that is ready.
const connectedFormat = "plugin %q connected and synchronized"

// countFromLog is false: the metrics say how many plugins there are.
const countFromLog = false

// validatorTable is the default validator's configuration, keys as in its YAML.
type validatorTable struct {
	Enable                    bool     `json:"enable"`
	RejectOCIHooks            bool     `json:"rejectOCIHookAdjustment"`
	RejectRuntimeDefault      bool     `json:"rejectRuntimeDefaultSeccompAdjustment"`
	RejectUnconfined          bool     `json:"rejectUnconfinedSeccompAdjustment"`
	RejectCustom              bool     `json:"rejectCustomSeccompAdjustment"`
	RejectNamespaces          bool     `json:"rejectNamespaceAdjustment"`
	RejectSysctl              bool     `json:"rejectSysctlAdjustment"`
	RequiredPlugins           []string `json:"requiredPlugins"`
	TolerateMissingAnnotation string   `json:"tolerateMissingPluginsAnnotation"`
}

// newer are the options that old releases do not have.
func (o *options) newer(metrics *recorder) []adaptation.Option {
	list := []adaptation.Option{adaptation.WithMetrics(metrics)}
	if v := o.Validator; v != nil {
		list = append(list, adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{
			Enable:                                v.Enable,
			RejectOCIHookAdjustment:               v.RejectOCIHooks,
			RejectRuntimeDefaultSeccompAdjustment: v.RejectRuntimeDefault,
			RejectUnconfinedSeccompAdjustment:     v.RejectUnconfined,
			RejectCustomSeccompAdjustment:         v.RejectCustom,
			RejectNamespaceAdjustment:             v.RejectNamespaces,
			RejectSysctlAdjustment:                v.RejectSysctl,
			RequiredPlugins:                       v.RequiredPlugins,
			TolerateMissingAnnotation:             v.TolerateMissingAnnotation,
		}))
	}
	return list
}

// blockSync holds synchronization until the result is called.
func (r *refRuntime) blockSync() (func(), error) {
	return r.nri.BlockPluginSync().Unblock, nil
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
