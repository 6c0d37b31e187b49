package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"

	"nri.test/common/lines"
)

// observed is what one run of a case shows besides the merged reply.
type observed struct {
	seen   []json.RawMessage
	owners *api.OwningPlugins
}

// merge runs a create, update or stop case on a fresh adaptation whose plugins
// are all built in: nothing but the merge is between question and answer.
func merge(c *Case) (lines.Object, error) {
	pod, container, resources, err := subjects(c)
	if err != nil {
		return nil, err
	}
	observed := &observed{}
	plugins, err := builtins(c, observed)
	if err != nil {
		return nil, err
	}
	runtime, err := adaptation.New("oracle", "v1", noSync, noUpdate,
		adaptation.WithPluginPath("/nonexistent"),
		adaptation.WithPluginConfigPath("/nonexistent"),
		adaptation.WithDisabledExternalConnections(),
		adaptation.WithBuiltinPlugins(plugins...))
	if err != nil {
		return nil, err
	}
	if err := runtime.Start(); err != nil {
		return nil, err
	}
	defer runtime.Stop()

	ctx, expect := context.Background(), lines.Object{}
	switch c.Op {
	case "create":
		reply, err := runtime.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
		outcome(expect, err, reply.GetUpdate())
		if err == nil {
			expect["adjust"] = lines.JSON(reply.GetAdjust())
			expect["owners"] = lines.JSON(observed.owners)
		}
	case "update":
		reply, err := runtime.UpdateContainer(ctx,
			&api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: resources})
		outcome(expect, err, reply.GetUpdate())
	case "stop":
		reply, err := runtime.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container})
		outcome(expect, err, reply.GetUpdate())
	}
	if len(observed.seen) != 0 {
		expect["seen"] = observed.seen
	}
	return expect, nil
}

func outcome(expect lines.Object, err error, updates []*api.ContainerUpdate) {
	if err != nil {
		expect["error"] = err.Error()
	} else if len(updates) != 0 {
		expect["update"] = lines.JSONList(updates)
	}
}

func subjects(c *Case) (*api.PodSandbox, *api.Container, *api.LinuxResources, error) {
	pod, podErr := lines.One[api.PodSandbox](c.Pod)
	container, containerErr := lines.One[api.Container](c.Container)
	resources, resourcesErr := lines.One[api.LinuxResources](c.Resources)
	return pod, container, resources, errors.Join(podErr, containerErr, resourcesErr)
}

// builtins are the case's plugins, and for create a validator after them that
// answers nothing and notes who owns what.
func builtins(c *Case, observed *observed) ([]*builtin.BuiltinPlugin, error) {
	var plugins []*builtin.BuiltinPlugin
	for i, script := range c.Plugins {
		adjust, adjustErr := lines.One[api.ContainerAdjustment](script.Adjust)
		update, updateErr := lines.List[api.ContainerUpdate](script.Update)
		evict, evictErr := lines.List[api.ContainerEviction](script.Evict)
		if err := errors.Join(adjustErr, updateErr, evictErr); err != nil {
			return nil, fmt.Errorf("plugin %d: %w", i, err)
		}
		var failure error
		if script.Error != nil {
			failure = errors.New(*script.Error)
		}
		handlers := builtin.BuiltinHandlers{}
		switch c.Op {
		case "create":
			handlers.CreateContainer = func(_ context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
				observed.seen = append(observed.seen, lines.JSON(req.GetContainer()))
				return &api.CreateContainerResponse{Adjust: adjust, Update: update, Evict: evict}, failure
			}
		case "update":
			handlers.UpdateContainer = func(_ context.Context, req *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
				observed.seen = append(observed.seen, lines.JSON(req.GetLinuxResources()))
				return &api.UpdateContainerResponse{Update: update, Evict: evict}, failure
			}
		case "stop":
			handlers.StopContainer = func(context.Context, *api.StopContainerRequest) (*api.StopContainerResponse, error) {
				return &api.StopContainerResponse{Update: update}, failure
			}
		}
		plugins = append(plugins, &builtin.BuiltinPlugin{Base: script.Name, Index: script.Index, Handlers: handlers})
	}
	if c.Op == "create" {
		plugins = append(plugins, &builtin.BuiltinPlugin{Base: "owners", Index: "99", Handlers: builtin.BuiltinHandlers{
			ValidateContainerAdjustment: func(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
				observed.owners = req.GetOwners()
				return nil
			},
		}})
	}
	return plugins, nil
}

func noSync(ctx context.Context, synchronize adaptation.SyncCB) error {
	_, err := synchronize(ctx, nil, nil)
	return err
}

func noUpdate(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, nil
}
