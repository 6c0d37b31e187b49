// A plugin of the protocol 0.1.0 on the reference's skeleton. Its configuration says what it does; its metadata tells
// what it was asked, and what the plugins before it have told.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/skel"
	types "github.com/containerd/nri/types/v1"
)

type plugin struct{}

type conf struct {
	Refuse string `json:"refuse"`
	Write  string `json:"write"`
	Text   string `json:"text"`
	Sleep  string `json:"sleep"`
	Panic  bool   `json:"panic"`
}

func (plugin) Type() string { return "v010plugin" }

func (p plugin) Invoke(_ context.Context, r *types.Request) (*types.Result, error) {
	var c conf
	if len(r.Conf) != 0 {
		if err := json.Unmarshal(r.Conf, &c); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Panic:
		panic("as it was told")
	case c.Sleep != "":
		d, err := time.ParseDuration(c.Sleep)
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
	case c.Refuse != "":
		return nil, errors.New(c.Refuse)
	case c.Write != "":
		path := strings.ReplaceAll(c.Write, "CGROUP", r.Spec.CgroupsPath)
		if err := os.WriteFile(path, []byte(c.Text), 0o644); err != nil {
			return nil, err
		}
	}
	result := r.NewResult(p.Type())
	result.Metadata["state"] = string(r.State)
	result.Metadata["id"] = r.ID
	result.Metadata["sandbox"] = fmt.Sprint(r.IsSandbox())
	result.Metadata["pid"] = fmt.Sprint(r.Pid)
	result.Metadata["cgroup"] = r.Spec.CgroupsPath
	result.Metadata["resources"] = string(r.Spec.Resources)
	result.Metadata["before"] = fmt.Sprint(len(r.Results))
	for _, before := range r.Results {
		for key, value := range before.Metadata {
			result.Metadata[before.Plugin+"."+key] = value
		}
	}
	return result, nil
}

func main() {
	if err := skel.Run(context.Background(), plugin{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
