package main

import (
	"encoding/json"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	nrigen "github.com/containerd/nri/pkg/runtime-tools/generate"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"nri.test/common/lines"
)

// generateSpec applies the case's adjustment to its OCI spec, without resolvers:
// block-I/O and RDT classes and CDI devices are the runtime's business.
func generateSpec(c *Case) (lines.Object, error) {
	spec := &rspec.Spec{}
	if err := json.Unmarshal(c.Spec, spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	adjust, err := lines.One[api.ContainerAdjustment](c.Adjust)
	if err != nil {
		return nil, err
	}
	underlying := generate.NewFromSpec(spec)
	if err := nrigen.SpecGenerator(&underlying).Adjust(adjust); err != nil {
		return lines.Object{"error": err.Error()}, nil
	}
	return lines.Object{"spec": spec}, nil
}
