package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
)

// What the allocator writes beside each set of CPUs, so that a runtime can tell
// which of two that it was told of at once is the later one, whose the CPUs are
// ("exclusive" or "shared"), and what it asks for in a request of its own.
const (
	decisionKey = "test.decision"
	ownerKey    = "test.owner"
	unaskedKey  = "test.unasked"
)

// allocator hands out CPUs as the field's resource policies do: the pod's
// annotation cpus.test/exclusive asks for so many that nobody else may use;
// everybody else has all CPUs that nobody has. Whenever that changes, it tells
// everybody anew, in the reply to the event that it is handling: containers that
// other threads are just creating, and those whose creation somebody behind it
// refused, as it hears of neither. Only the pod's end tells it of the latter. A
// runtime may tell it of an update that was refused behind it, by PostUpdateContainer.
type allocator struct {
	mu         sync.Mutex
	containers map[string]*grant
	cpus       int
	keep       int  // so many CPUs are never given away
	tell       bool // what everybody has by a line of output, and not by marks beside the CPUs
	believe    bool // what the runtime says of a container after its update
	decisions  int
	stub       stub.Stub // to ask for updates with; nil: it never does
	out        *lines.Writer
}

// grant is what one container has; no CPUs of its own: the shared ones.
type grant struct {
	pod string
	own []int
}

func newAllocator(cpus, keep int, tell, believe bool, out *lines.Writer) *allocator {
	return &allocator{cpus: cpus, keep: keep, tell: tell, believe: believe, containers: map[string]*grant{}, out: out}
}

// Configure subscribes to what the field's policies do.
func (a *allocator) Configure(context.Context, string, string, string) (api.EventMask, error) {
	events := "StopPodSandbox,RemovePodSandbox,CreateContainer,UpdateContainer,StopContainer,RemoveContainer"
	if a.believe {
		events += ",PostUpdateContainer"
	}
	return api.MustParseEventMask(events), nil
}

// CreateContainer gives the container its CPUs, and others what is left.
func (a *allocator) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.says()
	a.containers[container.GetId()] = &grant{pod: pod.GetId()}
	changed := a.resize(container.GetId(), pod.GetAnnotations()["cpus.test/exclusive"])
	adjust := &api.ContainerAdjustment{}
	a.write(adjust, container.GetId())
	return adjust, a.others(container.GetId(), changed), nil
}

// UpdateContainer gives the container more or fewer, if the pod asks for it now.
func (a *allocator) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.says()
	wish, later := pod.GetAnnotations()["cpus.test/at-update"]
	if !later {
		wish = pod.GetAnnotations()["cpus.test/exclusive"]
	}
	if a.containers[container.GetId()] == nil || !a.resize(container.GetId(), wish) {
		return nil, nil
	}
	return append(a.others(container.GetId(), true), a.update(container.GetId())), nil
}

// PostUpdateContainer takes back what it gave in an update that came to nothing:
// the container has other CPUs than it was given. Others are told by a request.
func (a *allocator) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	grant := a.containers[container.GetId()]
	if grant == nil || len(grant.own) == 0 {
		return nil
	}
	if cpus, _ := a.has(container.GetId()); cpus == container.GetLinux().GetResources().GetCpu().GetCpus() {
		return nil
	}
	grant.own = nil
	a.decisions++
	a.says()
	a.out.Write(lines.Object{"event": "took_back"})
	a.giveBack(true)
	return nil
}

// StopContainer takes the CPUs back, and gives them to others.
func (a *allocator) StopContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.says()
	return a.others(container.GetId(), a.release(container.GetId())), nil
}

// RemoveContainer does so for a container that was not stopped. The event has no
// answer: others are told by a request of the plugin's own.
func (a *allocator) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.says()
	a.giveBack(a.release(container.GetId()))
	return nil
}

// StopPodSandbox changes nothing: containers of the pod may still run.
func (a *allocator) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

// RemovePodSandbox takes back what containers had that were never created.
func (a *allocator) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.says()
	changed := false
	for id, grant := range maps.Clone(a.containers) {
		if grant.pod == pod.GetId() {
			changed = a.release(id) || changed
		}
	}
	a.giveBack(changed)
	return nil
}

// resize gives a container so many CPUs of its own, or none if there are not
// enough; whether that changes what others have.
func (a *allocator) resize(id, wish string) bool {
	count, _ := strconv.Atoi(wish)
	had := a.containers[id].own
	a.containers[id].own = nil
	free := a.shared()
	if len(free)-count < a.keep {
		count = 0
	}
	// What it has it keeps, as far as it may.
	kept := had[:min(count, len(had))]
	free = slices.DeleteFunc(free, func(cpu int) bool { return slices.Contains(kept, cpu) })
	own := append(slices.Clone(kept), free[:count-len(kept)]...)
	a.containers[id].own = own
	changed := !slices.Equal(had, own)
	if changed {
		a.decisions++
	}
	return changed
}

func (a *allocator) release(id string) bool {
	grant := a.containers[id]
	delete(a.containers, id)
	if grant == nil || len(grant.own) == 0 {
		return false
	}
	a.decisions++
	return true
}

// shared are the CPUs that nobody has.
func (a *allocator) shared() []int {
	taken := map[int]bool{}
	for _, grant := range a.containers {
		for _, cpu := range grant.own {
			taken[cpu] = true
		}
	}
	var free []int
	for cpu := range a.cpus {
		if !taken[cpu] {
			free = append(free, cpu)
		}
	}
	return free
}

// has is what a container may use, and whose that is.
func (a *allocator) has(id string) (string, string) {
	cpus, owner := a.containers[id].own, "exclusive"
	if len(cpus) == 0 {
		cpus, owner = a.shared(), "shared"
	}
	texts := make([]string, len(cpus))
	for i, cpu := range cpus {
		texts[i] = strconv.Itoa(cpu)
	}
	return strings.Join(texts, ","), owner
}

// says writes a line with what everybody has and whose that is, if it was asked to tell.
func (a *allocator) says() {
	if !a.tell {
		return
	}
	all := lines.Object{}
	for id := range a.containers {
		cpus, owner := a.has(id)
		all[id] = []string{cpus, owner}
	}
	a.out.Write(lines.Object{"event": "has", "containers": all})
}

// setter is an adjustment or an update.
type setter interface {
	SetLinuxCPUSetCPUs(string)
	AddLinuxUnified(key, value string)
}

func (a *allocator) write(to setter, id string) {
	cpus, owner := a.has(id)
	to.SetLinuxCPUSetCPUs(cpus)
	if a.tell {
		return
	}
	to.AddLinuxUnified(decisionKey, strconv.Itoa(a.decisions))
	to.AddLinuxUnified(ownerKey, owner)
}

func (a *allocator) update(id string) *api.ContainerUpdate {
	update := &api.ContainerUpdate{}
	update.SetContainerId(id)
	a.write(update, id)
	return update
}

// others are the updates of all containers but one, by id; none if nothing has
// changed.
func (a *allocator) others(but string, changed bool) []*api.ContainerUpdate {
	if !changed {
		return nil
	}
	var updates []*api.ContainerUpdate
	for _, id := range slices.Sorted(maps.Keys(a.containers)) {
		if id != but {
			updates = append(updates, a.update(id))
		}
	}
	return updates
}

// giveBack tells everybody what an event without an answer has freed, before the
// event ends and the next decision is made: so what is told is told in order.
func (a *allocator) giveBack(changed bool) {
	updates := a.others("", changed)
	if a.stub == nil || len(updates) == 0 {
		return
	}
	for _, update := range updates {
		if !a.tell {
			update.AddLinuxUnified(unaskedKey, "yes")
		}
	}
	failed, err := a.stub.UpdateContainers(updates)
	line := lines.Object{"event": "gave_back", "updates": len(updates), "failed": len(failed)}
	if err != nil {
		line["error"] = err.Error()
	}
	a.out.Write(line)
}
