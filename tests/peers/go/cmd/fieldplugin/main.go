// Command fieldplugin is a plugin on the reference's stub that behaves like one
// of the field's own, small and without a machine: -kind says which.
//
//	allocator  hands out exclusive CPUs and rebalances everybody else (allocator.go)
//	agent      answers every UpdateContainer with an update that names no container
//	refuser, slow, logger
//	           do what the request says, to every event (request.go)
//	validator  likewise, to ValidateContainerAdjustment
//
// All but the allocator answer by the request alone, so that their answers are
// the same in whatever order requests come. ../../../README.md has annotations
// and lines. The end of stdin ends the program.
package main

import (
	"context"
	"flag"
	"io"
	"os"
	"sync"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
)

// allEvents are those of pods and containers, validation apart.
const allEvents = api.ValidEvents &^ (1 << (api.Event_VALIDATE_CONTAINER_ADJUSTMENT - 1))

func main() {
	nrilog.Set(&lines.Logger{})
	kind := flag.String("kind", "", "allocator, agent, refuser, slow, logger or validator")
	name := flag.String("name", "", "the plugin's name; default: its kind")
	idx := flag.String("idx", "10", "the plugin's index")
	socket := flag.String("socket", "", "the runtime's socket")
	log := flag.String("log", "", "write what is seen to this file")
	keep := flag.Bool("keep", false, "declare that a late answer costs the event, and not the plugin")
	cpus := flag.Int("cpus", 16, "of the allocator: how many there are")
	shared := flag.Int("shared", 2, "of the allocator: how many of them are never given away")
	tell := flag.Bool("tell", false, "of the allocator: write who has what, and leave the marks beside the CPUs out")
	unsolicited := flag.Bool("unsolicited", false, "of the allocator: give back what events without an answer freed")
	believe := flag.Bool("believe", false, "of the allocator: take back what a container has not got after its update")
	flag.Parse()
	if *name == "" {
		*name = *kind
	}

	out := lines.NewWriter(os.Stdout)
	seen, err := newRecord(*log)
	if err != nil {
		lines.Fatal("fieldplugin: %v", err)
	}
	var p any
	var allocator *allocator
	byRequest := &byRequest{name: *name, seen: seen, events: allEvents}
	switch *kind {
	case "allocator":
		allocator = newAllocator(*cpus, *shared, *tell, *believe, out)
		p = allocator
	case "agent":
		byRequest.unnamed = true
		p = byRequest
	case "refuser", "slow", "logger":
		p = byRequest
	case "validator":
		byRequest.events = 1 << (api.Event_VALIDATE_CONTAINER_ADJUSTMENT - 1)
		p = byRequest
	default:
		lines.Fatal("fieldplugin: no kind %q", *kind)
	}

	closed := make(chan struct{})
	once := sync.Once{}
	opts := []stub.Option{
		stub.WithPluginName(*name), stub.WithPluginIdx(*idx), stub.WithSocketPath(*socket),
		stub.WithOnClose(func() { once.Do(func() { close(closed) }) }),
	}
	if *keep {
		opts = append(opts, stub.WithFailurePolicy(&api.FailurePolicy{KeepConnected: true}))
	}
	s, err := stub.New(p, opts...)
	if allocator != nil && *unsolicited {
		allocator.stub = s
	}
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		lines.Fatal("fieldplugin: %v", err)
	}
	out.Write(lines.Object{"event": "started"})
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		once.Do(func() { close(closed) })
	}()
	<-closed
	out.Write(lines.Object{"event": "closed"})
}
