// Command podresources answers what Kubernetes makes of the resources of pods.
//
// One pod of the core API a line on stdin, as JSON, and one answer a line on stdout, in order: requests and limits of
// the whole pod (PodRequests and PodLimits), the same without overhead, the limits of the pod's own cgroup as the
// kubelet finds out whether there are some, its QoS class, and the OOM score of each container on a node with
// -memory bytes, those that initialize the pod first. Amounts are exact decimals.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/qos"
)

type amounts map[v1.ResourceName]string

type answer struct {
	Requests      amounts `json:"requests"`
	Limits        amounts `json:"limits"`
	RequestsAlone amounts `json:"requests_without_overhead"`
	LimitsAlone   amounts `json:"limits_without_overhead"`
	CgroupLimits  amounts `json:"cgroup_limits"`
	Class         string  `json:"class"`
	Scores        []int   `json:"oom_scores"`
}

func exact(list v1.ResourceList) amounts {
	found := amounts{}
	for name, quantity := range list {
		found[name] = quantity.AsDec().String()
	}
	return found
}

func cgroupLimits(pod *v1.Pod) amounts {
	declared := map[v1.ResourceName]bool{v1.ResourceCPU: true, v1.ResourceMemory: true}
	limits := resource.PodLimits(pod.DeepCopy(), resource.PodResourcesOptions{
		ContainerFn: func(list v1.ResourceList, _ resource.ContainerType) {
			for name := range declared {
				if value := list[name]; value.IsZero() {
					declared[name] = false
				}
			}
		},
	})
	found := amounts{}
	for name, all := range declared {
		if resource.IsPodLevelResourcesSet(pod) {
			if value := pod.Spec.Resources.Limits[name]; !value.IsZero() {
				all = true
			}
		}
		if value, ok := limits[name]; ok && all {
			found[name] = value.AsDec().String()
		}
	}
	return found
}

func main() {
	memory := flag.Int64("memory", 64<<30, "bytes of memory of the node")
	flag.Parse()
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var pod v1.Pod
		if err := json.Unmarshal(in.Bytes(), &pod); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		// Each function gets a copy: PodRequests adds to a large quantity of the pod itself in place.
		alone := resource.PodResourcesOptions{ExcludeOverhead: true}
		made := answer{
			Requests:      exact(resource.PodRequests(pod.DeepCopy(), resource.PodResourcesOptions{})),
			Limits:        exact(resource.PodLimits(pod.DeepCopy(), resource.PodResourcesOptions{})),
			RequestsAlone: exact(resource.PodRequests(pod.DeepCopy(), alone)),
			LimitsAlone:   exact(resource.PodLimits(pod.DeepCopy(), alone)),
			CgroupLimits:  cgroupLimits(pod.DeepCopy()),
			Class:         string(v1qos.ComputePodQOS(&pod)),
		}
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				made.Scores = append(made.Scores, qos.GetContainerOOMScoreAdjust(&pod, &list[i], *memory))
			}
		}
		if err := out.Encode(made); err != nil {
			os.Exit(1)
		}
	}
}
