package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"nri.test/common/lines"
)

// refRuntime is the runtime: the reference's adaptation and a pretended state.
type refRuntime struct {
	out     *lines.Writer
	nri     *adaptation.Adaptation
	metrics *recorder
	unblock func() // set while plugin synchronization is blocked
	plugins roster

	mu         sync.Mutex // guards what follows
	pods       []*api.PodSandbox
	containers []*api.Container
	callbacks  callbacks
}

// callbacks script how the runtime behaves towards the adaptation.
type callbacks struct {
	SyncError     string   `json:"sync_error"`      // synchronization is refused with this text
	UpdateError   string   `json:"update_error"`    // unsolicited updates are refused with this text
	UpdateFailIDs []string `json:"update_fail_ids"` // updates of these containers are reported as failed
	UpdateDelayMS int      `json:"update_delay_ms"` // the update callback takes this long
}

// options of the command "start"; times in milliseconds, 0 = the default.
type options struct {
	Name                  string          `json:"name"`
	Version               string          `json:"version"`
	Socket                string          `json:"socket"`
	PluginPath            string          `json:"plugin_path"`
	ConfigPath            string          `json:"config_path"`
	DisableConnections    bool            `json:"disable_connections"`
	RegistrationTimeoutMS int             `json:"registration_timeout_ms"`
	RequestTimeoutMS      int             `json:"request_timeout_ms"`
	Validator             *validatorTable `json:"validator"` // releases that have one
	callbacks
}

func (r *refRuntime) start(line []byte) (any, error) {
	if r.nri != nil {
		return nil, errors.New("already started")
	}
	opts := options{Name: "refruntime", Version: "v1.0.0"}
	if err := json.Unmarshal(line, &opts); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.callbacks = opts.callbacks
	r.mu.Unlock()
	if opts.RegistrationTimeoutMS != 0 {
		adaptation.SetPluginRegistrationTimeout(time.Duration(opts.RegistrationTimeoutMS) * time.Millisecond)
	}
	if opts.RequestTimeoutMS != 0 {
		adaptation.SetPluginRequestTimeout(time.Duration(opts.RequestTimeoutMS) * time.Millisecond)
	}
	r.metrics = &recorder{changed: r.pluginCount}
	nri, err := adaptation.New(opts.Name, opts.Version, r.synchronize, r.update, append(opts.paths(), opts.newer(r.metrics)...)...)
	if err != nil {
		return nil, err
	}
	r.nri = nri
	if err := nri.Start(); err != nil {
		r.nri = nil
		return nil, err
	}
	return lines.Object{"socket": opts.Socket}, nil
}

// paths are the options that every release has. Never this machine's own
// plugins: a path that is not given is a path that is not there.
func (o *options) paths() []adaptation.Option {
	for _, path := range []*string{&o.PluginPath, &o.ConfigPath} {
		if *path == "" {
			*path = "/nonexistent"
		}
	}
	connections := adaptation.WithSocketPath(o.Socket)
	if o.DisableConnections || o.Socket == "" {
		connections = adaptation.WithDisabledExternalConnections()
	}
	return []adaptation.Option{connections,
		adaptation.WithPluginPath(o.PluginPath), adaptation.WithPluginConfigPath(o.ConfigPath)}
}

func (r *refRuntime) stop() {
	if r.unblock != nil {
		r.unblock()
		r.unblock = nil
	}
	if r.nri != nil {
		r.nri.Stop()
		r.nri = nil
	}
}

// synchronize is the adaptation's sync callback.
func (r *refRuntime) synchronize(ctx context.Context, each adaptation.SyncCB) error {
	r.mu.Lock()
	pods, containers, failure := r.pods, r.containers, r.callbacks.SyncError
	r.mu.Unlock()
	if failure != "" {
		return errors.New(failure)
	}
	began := time.Now()
	updates, err := each(ctx, pods, containers)
	line := lines.Object{"event": "synchronized", "pods": len(pods), "containers": len(containers),
		"updates": lines.JSONList(updates), "ns": time.Since(began).Nanoseconds()}
	if err != nil {
		line["error"] = err.Error()
	}
	r.out.Write(line)
	return err
}

// update is the adaptation's callback for updates that a plugin asks for.
func (r *refRuntime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	script := r.callbacks
	r.mu.Unlock()
	time.Sleep(time.Duration(script.UpdateDelayMS) * time.Millisecond)
	r.out.Write(lines.Object{"event": "updates", "updates": lines.JSONList(updates)})
	if script.UpdateError != "" {
		return nil, errors.New(script.UpdateError)
	}
	var failed []*api.ContainerUpdate
	for _, update := range updates {
		for _, id := range script.UpdateFailIDs {
			if update.GetContainerId() == id {
				failed = append(failed, update)
			}
		}
	}
	return failed, nil
}

// setState replaces what plugins are synchronized with.
func (r *refRuntime) setState(line []byte) (any, error) {
	var state struct {
		Pods       []json.RawMessage `json:"pods"`
		Containers []json.RawMessage `json:"containers"`
		Generate   *struct {
			Pods       int `json:"pods"`
			Containers int `json:"containers"`
			Bytes      int `json:"bytes"` // of padding in each container
		} `json:"generate"`
	}
	if err := json.Unmarshal(line, &state); err != nil {
		return nil, err
	}
	pods, podErr := lines.List[api.PodSandbox](state.Pods)
	containers, containerErr := lines.List[api.Container](state.Containers)
	if err := errors.Join(podErr, containerErr); err != nil {
		return nil, err
	}
	if g := state.Generate; g != nil {
		morePods, more := generate(g.Pods, g.Containers, g.Bytes)
		pods, containers = append(pods, morePods...), append(containers, more...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods, r.containers = pods, containers
	return lines.Object{"pods": len(pods), "containers": len(containers)}, nil
}

// generate makes a state: pods pod0..., containers ctr0... spread over them.
func generate(pods, containers, size int) ([]*api.PodSandbox, []*api.Container) {
	var podList []*api.PodSandbox
	for i := range pods {
		podList = append(podList, &api.PodSandbox{
			Id: fmt.Sprintf("pod%d", i), Name: fmt.Sprintf("pod-%d", i), Uid: fmt.Sprintf("uid-%d", i), Namespace: "default"})
	}
	padding := make([]byte, size)
	for i := range padding {
		padding[i] = 'a' + byte(i%26)
	}
	var list []*api.Container
	for i := range containers {
		list = append(list, &api.Container{
			Id: fmt.Sprintf("ctr%d", i), Name: fmt.Sprintf("container-%d", i), PodSandboxId: fmt.Sprintf("pod%d", i%max(pods, 1)),
			State: api.ContainerState_CONTAINER_RUNNING, Args: []string{"sleep", "inf"},
			Annotations: map[string]string{"padding": string(padding)}})
	}
	return podList, list
}
