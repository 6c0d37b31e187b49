// Command refplugin is a scripted plugin on the reference's stub. The script is
// JSON: given with -script TEXT or -file FILE, else read from the file that is
// called as the program with ".json" added, which is how a plugin launched by
// the runtime (no arguments, three environment variables) gets it. Everything
// that the plugin receives is one JSON line on stdout, or in the script's log
// file. On stdin it takes commands: {"cmd": "update", "id", "updates"} and
// {"cmd": "stop"}. ../../../README.md describes the script and the lines.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"sync"
	"time"

	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
	"nri.test/common/script"
)

func main() {
	nrilog.Set(&lines.Logger{})
	text := flag.String("script", "", "the script as JSON")
	file := flag.String("file", "", "a file with the script")
	flag.Parse()
	s, err := script.Load(*text, *file)
	if err != nil {
		lines.Fatal("refplugin: %v", err)
	}
	p, err := newPlugin(s)
	if err != nil {
		lines.Fatal("refplugin: %v", err)
	}
	launched := os.Getenv("NRI_PLUGIN_SOCKET") != ""
	if !launched {
		go p.commands()
	}
	if !p.run(launched) {
		os.Exit(1)
	}
}

// run connects, serves, and connects again if the script says so. A stub is
// made anew for each connection. The result is false when it never got through.
func (p *plugin) run(launched bool) bool {
	for attempt := 1; ; attempt++ {
		err := p.serve()
		line := lines.Object{"event": "closed", "attempt": attempt}
		if err != nil {
			line["error"] = err.Error()
		}
		p.out.Write(line)
		if launched || !p.script.Reconnect || p.stopping.Load() {
			return err == nil || p.stopping.Load() || p.configured.Load()
		}
		time.Sleep(time.Duration(max(p.script.ReconnectDelayMS, 1)) * time.Millisecond)
	}
}

func (p *plugin) serve() error {
	closed := make(chan struct{})
	once := sync.Once{}
	// Without a callback old releases end the process when the connection goes.
	opts := []stub.Option{stub.WithOnClose(func() { once.Do(func() { close(closed) }) })}
	if p.script.Name != "" {
		opts = append(opts, stub.WithPluginName(p.script.Name))
	}
	if p.script.Idx != "" {
		opts = append(opts, stub.WithPluginIdx(p.script.Idx))
	}
	if p.script.Socket != "" {
		opts = append(opts, stub.WithSocketPath(p.script.Socket))
	}
	opts = append(opts, extraOptions(p.script)...)
	s, err := stub.New(p, opts...)
	if err != nil {
		return err
	}
	if err := s.Start(context.Background()); err != nil {
		return err
	}
	p.mu.Lock()
	p.stub = s
	p.mu.Unlock()
	p.out.Write(started(s))
	<-closed
	return nil
}

// commands reads stdin; its end ends the program if the script says so.
func (p *plugin) commands() {
	err := lines.Read(os.Stdin, func(line []byte) {
		var command struct {
			ID      json.RawMessage   `json:"id"`
			Cmd     string            `json:"cmd"`
			Updates []json.RawMessage `json:"updates"`
		}
		if err := json.Unmarshal(line, &command); err != nil {
			p.out.Write(lines.Object{"event": "error", "error": err.Error()})
			return
		}
		switch command.Cmd {
		case "update":
			go p.update(command.ID, command.Updates)
		case "stop":
			p.stop()
		default:
			p.out.Write(lines.Object{"id": command.ID, "ok": false, "error": "unknown command " + command.Cmd})
		}
	})
	if err != nil {
		p.out.Write(lines.Object{"event": "error", "error": "stdin: " + err.Error()})
	}
	if p.script.StopAtEOF {
		p.stop()
		os.Exit(0)
	}
}

func (p *plugin) stop() {
	p.stopping.Store(true)
	p.mu.Lock()
	s := p.stub
	p.mu.Unlock()
	if s != nil {
		s.Stop()
	}
}

// update asks the runtime for unsolicited updates and reports the outcome.
func (p *plugin) update(id json.RawMessage, raws []json.RawMessage) {
	reply := lines.Object{"event": "update_result", "id": id, "ok": false}
	defer func() { p.out.Write(reply) }()
	updates, err := parseUpdates(raws)
	if err != nil {
		reply["error"] = err.Error()
		return
	}
	p.mu.Lock()
	s := p.stub
	p.mu.Unlock()
	if s == nil {
		reply["error"] = errors.New("not connected").Error()
		return
	}
	failed, err := s.UpdateContainers(updates)
	reply["failed"] = lines.JSONList(failed)
	if err != nil {
		reply["error"] = err.Error()
		return
	}
	reply["ok"] = true
}
