//go:build !nri061

package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
	"nri.test/common/script"
)

// What this release's stub has beyond 0.6.1.

// started is the line that says that registration and configuration are done.
func started(s stub.Stub) lines.Object {
	return lines.Object{"event": "started", "runtime_nri_version": s.RuntimeNRIVersion(),
		"plugin_nri_version":      s.PluginNRIVersion(),
		"registration_timeout_ms": s.RegistrationTimeout().Milliseconds(),
		"request_timeout_ms":      s.RequestTimeout().Milliseconds()}
}

// extraOptions are the stub options that old releases do not have.
func extraOptions(s *script.Script) []stub.Option {
	if s.FailurePolicy == nil {
		return nil
	}
	return []stub.Option{stub.WithFailurePolicy(&api.FailurePolicy{
		FailRequest: s.FailurePolicy.FailRequest, KeepConnected: s.FailurePolicy.KeepConnected})}
}

// UpdatePodSandbox is an event.
func (p *plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	fields := p.subject(pod, nil)
	fields["overhead"], fields["resources"] = lines.JSON(overhead), lines.JSON(resources)
	_, err := p.received("UpdatePodSandbox", fields)
	return err
}

// PostUpdatePodSandbox is an event.
func (p *plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.seen("PostUpdatePodSandbox", pod, nil)
}

// ValidateContainerAdjustment rejects if the script has an error for it.
func (p *plugin) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	fields := p.subject(req.GetPod(), req.GetContainer())
	fields["owners"], fields["adjust"] = lines.JSON(req.GetOwners()), lines.JSON(req.GetAdjust())
	fields["update"], fields["plugins"] = lines.JSONList(req.GetUpdate()), lines.JSONList(req.GetPlugins())
	_, err := p.received("ValidateContainerAdjustment", fields)
	return err
}
