// Command nrtzones plays sequences of containers through the resource policies of nri-plugins, and writes the zones
// that they would export in a NodeResourceTopology. It also loads configuration files as the plugins do.
//
//	nrtzones zones < case.json     one case; the zones after the start and after each step, as JSON
//	nrtzones load ROOT FILE...     "ok" or the error of each BalloonsPolicy or TopologyAwarePolicy
//
// The policies keep state in package variables, so that a process plays one case only.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"sigs.k8s.io/yaml"

	balloons "github.com/containers/nri-plugins/cmd/plugins/balloons/policy"
	topologyaware "github.com/containers/nri-plugins/cmd/plugins/topology-aware/policy"
	cfgapi "github.com/containers/nri-plugins/pkg/apis/config/v1alpha1"
	"github.com/containers/nri-plugins/pkg/irq"
	"github.com/containers/nri-plugins/pkg/kubernetes"
	"github.com/containers/nri-plugins/pkg/resmgr/cache"
	"github.com/containers/nri-plugins/pkg/resmgr/policy"
	"github.com/containers/nri-plugins/pkg/sysfs"
)

// container is one container of a step, with the values that a kubelet gives to a runtime.
type container struct {
	Name        string `json:"name"`
	Shares      uint64 `json:"shares"`
	Quota       int64  `json:"quota"`
	MemoryLimit int64  `json:"memory_limit"`
	OomScoreAdj int64  `json:"oom_score_adj"`
}

// step creates a pod with its containers, or releases the containers of a pod.
type step struct {
	Op          string            `json:"op"`
	Pod         string            `json:"pod"`
	Namespace   string            `json:"namespace"`
	Parent      string            `json:"cgroup_parent"`
	Annotations map[string]string `json:"annotations"`
	Containers  []container       `json:"containers"`
}

// testCase is one sequence. Root is the folder that has the machine's sys.
type testCase struct {
	Policy      string          `json:"policy"`
	Root        string          `json:"root"`
	MemoryBytes int64           `json:"memory_bytes"`
	Spec        json.RawMessage `json:"spec"`
	Steps       []step          `json:"steps"`
}

// zone is a policy.TopologyZone. A resource is its capacity, its allocatable and its available amount.
type zone struct {
	Name       string               `json:"name"`
	Parent     string               `json:"parent"`
	Type       string               `json:"type"`
	Resources  map[string][3]string `json:"resources"`
	Attributes map[string]string    `json:"attributes"`
}

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "zones":
		err = zones()
	case len(os.Args) == 4 && os.Args[1] == "load":
		err = load(os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("usage: nrtzones zones < CASE | nrtzones load ROOT FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newBackend sets a policy up for a machine. It returns the cache that the policy reads containers from.
func newBackend(name, root string, document []byte) (policy.Backend, cache.Cache, error) {
	sysfs.SetSysRoot(root)
	irq.SetProcRoot(root)
	var (
		backend policy.Backend
		config  any
	)
	switch name {
	case "balloons", "BalloonsPolicy":
		parsed := &cfgapi.BalloonsPolicy{}
		if err := yaml.UnmarshalStrict(document, parsed); err != nil {
			return nil, nil, fmt.Errorf("unmarshal: %w", err)
		}
		if err := parsed.Validate(); err != nil {
			return nil, nil, fmt.Errorf("validate: %w", err)
		}
		backend, config = balloons.New(), parsed.PolicyConfig()
	case "topology-aware", "TopologyAwarePolicy":
		parsed := &cfgapi.TopologyAwarePolicy{}
		if err := yaml.UnmarshalStrict(document, parsed); err != nil {
			return nil, nil, fmt.Errorf("unmarshal: %w", err)
		}
		if err := parsed.Validate(); err != nil {
			return nil, nil, fmt.Errorf("validate: %w", err)
		}
		backend, config = topologyaware.New(), parsed.PolicyConfig()
	default:
		return nil, nil, fmt.Errorf("unknown policy %q", name)
	}
	folder, err := os.MkdirTemp("", "nrtzones-")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(folder, 0o710); err != nil {
		return nil, nil, err
	}
	store, err := cache.NewCache(cache.Options{CacheDir: folder})
	if err != nil {
		return nil, nil, err
	}
	system, err := sysfs.DiscoverSystem()
	if err != nil {
		return nil, nil, err
	}
	options := &policy.BackendOptions{
		System: system, Cache: store, Config: config, SendEvent: func(any) error { return nil },
	}
	if err := backend.Setup(options); err != nil {
		return nil, nil, fmt.Errorf("setup: %w", err)
	}
	return backend, store, backend.Start()
}

func load(root, file string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	kind := struct {
		Kind string `json:"kind"`
	}{}
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	if _, _, err := newBackend(kind.Kind, root, document); err != nil {
		return err
	}
	fmt.Println("ok")
	return nil
}

func zones() error {
	var one testCase
	if err := json.NewDecoder(os.Stdin).Decode(&one); err != nil {
		return err
	}
	document, err := json.Marshal(map[string]json.RawMessage{"spec": one.Spec})
	if err != nil {
		return err
	}
	kubernetes.SetMemoryCapacity(one.MemoryBytes)
	backend, store, err := newBackend(one.Policy, one.Root, document)
	if err != nil {
		return err
	}
	states := [][]zone{exported(backend)}
	for _, each := range one.Steps {
		if err := play(backend, store, each); err != nil {
			return err
		}
		states = append(states, exported(backend))
	}
	return json.NewEncoder(os.Stdout).Encode(states)
}

func play(backend policy.Backend, store cache.Cache, one step) error {
	if one.Op == "delete" {
		pod, ok := store.LookupPod(one.Pod)
		if !ok {
			return fmt.Errorf("there is no pod %s", one.Pod)
		}
		for _, each := range pod.GetContainers() {
			if err := backend.ReleaseResources(each); err != nil {
				return err
			}
			store.DeleteContainer(each.GetID())
		}
		store.DeletePod(one.Pod)
		return nil
	}
	store.InsertPod(&api.PodSandbox{
		Id: one.Pod, Name: one.Pod, Uid: one.Pod, Namespace: one.Namespace, Annotations: one.Annotations,
		Linux: &api.LinuxPodSandbox{CgroupParent: one.Parent},
	}, nil)
	for _, each := range one.Containers {
		inserted, err := store.InsertContainer(&api.Container{
			Id: each.Name, Name: each.Name, PodSandboxId: one.Pod,
			Linux: &api.LinuxContainer{
				OomScoreAdj: &api.OptionalInt{Value: each.OomScoreAdj},
				Resources: &api.LinuxResources{
					Cpu: &api.LinuxCPU{
						Shares: &api.OptionalUInt64{Value: each.Shares},
						Quota:  &api.OptionalInt64{Value: each.Quota},
						Period: &api.OptionalUInt64{Value: 100000},
					},
					Memory: &api.LinuxMemory{Limit: &api.OptionalInt64{Value: each.MemoryLimit}},
				},
			},
		}, cache.WithContainerState(cache.ContainerStateCreating))
		if err != nil {
			return err
		}
		if err := backend.AllocateResources(inserted); err != nil {
			return fmt.Errorf("%s: %w", each.Name, err)
		}
		inserted.UpdateState(cache.ContainerStateRunning)
	}
	return nil
}

func exported(backend policy.Backend) []zone {
	made := []zone{}
	for _, each := range backend.GetTopologyZones() {
		one := zone{each.Name, each.Parent, each.Type, map[string][3]string{}, map[string]string{}}
		for _, amount := range each.Resources {
			one.Resources[amount.Name] = [3]string{
				amount.Capacity.String(), amount.Allocatable.String(), amount.Available.String(),
			}
		}
		for _, attribute := range each.Attributes {
			one.Attributes[attribute.Name] = attribute.Value
		}
		made = append(made, one)
	}
	return made
}
