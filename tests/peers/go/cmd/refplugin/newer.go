package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"nri.test/peers/internal/lines"
)

// Handlers of events that came after release 0.6.1.

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
