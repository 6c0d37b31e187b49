package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"

	"nri.test/common/lines"
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
		if r.unblock != nil {
			return nil, errors.New("already blocked")
		}
		unblock, err := r.blockSync()
		r.unblock = unblock
		return lines.Object{}, err
	case "unblock":
		if r.unblock == nil {
			return nil, errors.New("not blocked")
		}
		r.unblock()
		r.unblock = nil
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
