// Package adaptation has the API of the reference's package of the same name,
// as far as its black-box tests use it, and the adaptation of this project
// behind it: a Python process that process.go starts and talks to. Here is the
// life of an adaptation; events.go has what a runtime tells it.
package adaptation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
)

// What the tests name through this package.
type (
	ContainerUpdate = api.ContainerUpdate
	LinuxIOPriority = api.LinuxIOPriority

	// SyncFn is the runtime's: it tells its state to the callback.
	SyncFn func(context.Context, SyncCB) error
	// SyncCB is told the state of the runtime.
	SyncCB func(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error)
	// UpdateFn is the runtime's: it applies updates that plugins ask for.
	UpdateFn func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	// Option is one of the With functions below.
	Option func(*Adaptation) error
)

// The reference's defaults.
const (
	DefaultPluginRegistrationTimeout = api.DefaultPluginRegistrationTimeout
	DefaultPluginRequestTimeout      = api.DefaultPluginRequestTimeout
)

// Adaptation is one adaptation of the Python process.
type Adaptation struct {
	number   int
	options  options
	syncFn   SyncFn
	updateFn UpdateFn
}

// options are the keyword arguments of the Python class that the tests set.
type options struct {
	Name                 string  `json:"name"`
	Version              string  `json:"version"`
	PluginPath           string  `json:"plugin_path,omitempty"`
	ConfigPath           string  `json:"plugin_config_path,omitempty"`
	SocketPath           string  `json:"socket_path,omitempty"`
	DisableConnections   bool    `json:"disable_connections"`
	RegistrationTimeoutS float64 `json:"registration_timeout_s"`
	RequestTimeoutS      float64 `json:"request_timeout_s"`
	DefaultValidator     string  `json:"default_validator,omitempty"` // YAML, as an operator writes it
	Synchronize          bool    `json:"synchronize"`                 // whether the runtime has such a function
	Update               bool    `json:"update"`
}

// Timeouts are global in the reference: a change reaches all adaptations.
var (
	registry            sync.Mutex
	adaptations         = map[int]*Adaptation{}
	created             int
	registrationTimeout = DefaultPluginRegistrationTimeout
	requestTimeout      = DefaultPluginRequestTimeout
)

// SetPluginRegistrationTimeout holds for adaptations that are made from now on.
func SetPluginRegistrationTimeout(timeout time.Duration) {
	registry.Lock()
	defer registry.Unlock()
	registrationTimeout = timeout
}

// SetPluginRequestTimeout holds for all adaptations.
func SetPluginRequestTimeout(timeout time.Duration) {
	registry.Lock()
	requestTimeout = timeout
	all := make([]*Adaptation, 0, len(adaptations))
	for _, each := range adaptations {
		all = append(all, each)
	}
	registry.Unlock()
	for _, each := range all {
		each.call("set_request_timeout", &line{Seconds: timeout.Seconds()}) //nolint:errcheck // it cannot fail
	}
}

// WithPluginPath is an option of New, as all below.
func WithPluginPath(path string) Option {
	return func(a *Adaptation) error { a.options.PluginPath = path; return nil }
}

// WithPluginConfigPath says where plugins' configuration is.
func WithPluginConfigPath(path string) Option {
	return func(a *Adaptation) error { a.options.ConfigPath = path; return nil }
}

// WithSocketPath says where plugins connect.
func WithSocketPath(path string) Option {
	return func(a *Adaptation) error { a.options.SocketPath = path; return nil }
}

// WithDisabledExternalConnections has no plugins connect.
func WithDisabledExternalConnections() Option {
	return func(a *Adaptation) error { a.options.DisableConnections = true; return nil }
}

// WithDefaultValidator configures the validator that is built in.
func WithDefaultValidator(config *validator.DefaultValidatorConfig) Option {
	return func(a *Adaptation) error {
		text, err := yaml.Marshal(config)
		a.options.DefaultValidator = string(text)
		return err
	}
}

// WithTestNRIVersion is a hook of the reference's own tests: it changes the
// version that the package says it has. Ours has no such hook.
func WithTestNRIVersion(string) Option {
	return func(*Adaptation) error { return nil }
}

// New makes an adaptation.
func New(name, version string, syncFn SyncFn, updateFn UpdateFn, opts ...Option) (*Adaptation, error) {
	registry.Lock()
	created++
	a := &Adaptation{number: created, syncFn: syncFn, updateFn: updateFn}
	a.options = options{
		Name: name, Version: version, Synchronize: syncFn != nil, Update: updateFn != nil,
		RegistrationTimeoutS: registrationTimeout.Seconds(), RequestTimeoutS: requestTimeout.Seconds(),
	}
	adaptations[a.number] = a
	registry.Unlock()
	for _, option := range opts {
		if err := option(a); err != nil {
			return nil, err
		}
	}
	encoded, err := json.Marshal(a.options)
	if err != nil {
		return nil, err
	}
	if _, err := a.call("new", &line{Options: encoded}); err != nil {
		a.forget()
		return nil, err
	}
	return a, nil
}

func (a *Adaptation) forget() {
	registry.Lock()
	defer registry.Unlock()
	delete(adaptations, a.number)
}

// Start starts it.
func (a *Adaptation) Start() error {
	_, err := a.call("start", &line{})
	return err
}

// Stop ends it.
func (a *Adaptation) Stop() {
	a.call("stop", &line{}) //nolint:errcheck // there is nobody to tell
	a.forget()
}

// PluginClosed gives a function that says whether a plugin is gone. In the
// reference it is a hook of the tests; here the health of plugins says it.
func (a *Adaptation) PluginClosed(name string) func() bool {
	return func() bool {
		answer, err := a.call("gone", &line{Name: name})
		return err == nil && answer.Gone
	}
}

// PluginSyncBlock keeps plugins from joining.
type PluginSyncBlock struct {
	a      *Adaptation
	number int
}

// BlockPluginSync waits for a plugin that joins, and then keeps others away.
func (a *Adaptation) BlockPluginSync() *PluginSyncBlock {
	answer, err := a.call("block", &line{})
	if err != nil {
		panic(fmt.Sprintf("block: %v", err))
	}
	return &PluginSyncBlock{a: a, number: answer.Block}
}

// Unblock lets plugins join.
func (b *PluginSyncBlock) Unblock() {
	if b == nil || b.a == nil {
		return
	}
	b.a.call("unblock", &line{Block: b.number}) //nolint:errcheck // it cannot fail
	b.a = nil
}

// asked answers what the Python side asks of the runtime.
func (a *Adaptation) asked(question *line) *line {
	switch question.Ask {
	case "synchronize":
		return a.synchronize()
	case "update":
		updates, err := decode[api.ContainerUpdate](question.Updates)
		if err != nil {
			return failed(err)
		}
		refused, err := a.updateFn(context.Background(), updates)
		if err != nil {
			return failed(err)
		}
		return &line{Updates: encode(refused)}
	}
	return failed(fmt.Errorf("unknown question %q", question.Ask))
}

// synchronize gets the state that the runtime would tell to a plugin. What the
// plugin wants updated in return goes the way of all updates, to UpdateFn.
func (a *Adaptation) synchronize() *line {
	state := &line{}
	tell := func(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
		state.Pods, state.Containers = encode(pods), encode(containers)
		return nil, nil
	}
	if err := a.syncFn(context.Background(), tell); err != nil {
		return failed(err)
	}
	return state
}

func failed(err error) *line {
	return &line{Error: &failure{Text: err.Error()}}
}

func encode[M proto.Message](messages []M) [][]byte {
	list := make([][]byte, len(messages))
	for i, message := range messages {
		list[i] = encodeOne(message)
	}
	return list
}

func encodeOne(message proto.Message) []byte {
	data, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return data
}

func decode[T any, P interface {
	*T
	proto.Message
}](list [][]byte) ([]P, error) {
	var messages []P
	for _, data := range list {
		message := P(new(T))
		if err := proto.Unmarshal(data, message); err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, nil
}
