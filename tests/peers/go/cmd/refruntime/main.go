// Command refruntime is a small runtime on the reference's adaptation package,
// driven by the tests: one JSON command a line on stdin, one JSON answer a line
// on stdout under the command's id. Commands of kind "event" run concurrently;
// all others run in the order in which they arrive. Lines without an id are
// things that happened: updates asked for by plugins, plugins that came or
// went. ../../../README.md lists commands and lines.
package main

import (
	"encoding/json"
	"os"

	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/grpc/status"

	"nri.test/common/lines"
)

func main() {
	runtime := &refRuntime{out: lines.NewWriter(os.Stdout)}
	nrilog.Set(&lines.Logger{Watch: runtime.watchLog})
	err := lines.Read(os.Stdin, func(line []byte) { runtime.handle(line) })
	runtime.stop()
	if err != nil {
		lines.Fatal("refruntime: stdin: %v", err)
	}
}

// handle answers one line of input.
func (r *refRuntime) handle(line []byte) {
	var head struct {
		ID  json.RawMessage `json:"id"`
		Cmd string          `json:"cmd"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		r.out.Write(lines.Object{"event": "error", "error": "not a command: " + err.Error()})
		return
	}
	answer := func() {
		reply, err := r.run(head.Cmd, line)
		if err != nil {
			object := lines.Object{"id": head.ID, "ok": false, "error": err.Error()}
			if s, ok := status.FromError(err); ok {
				object["code"] = int(s.Code())
			}
			r.out.Write(object)
			return
		}
		r.out.Write(lines.Object{"id": head.ID, "ok": true, "reply": reply})
	}
	if head.Cmd == "event" || head.Cmd == "wait_plugins" {
		go answer()
	} else {
		answer()
	}
}
