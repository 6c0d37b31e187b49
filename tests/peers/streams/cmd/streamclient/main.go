// Streamclient is kubectl's side of exec, attach and port forward: client-go's
// own executors and forwarder, driven by JSON lines. See tests/peers/README.md.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"nri.test/common/lines"
)

// command is one line of stdin; the README says what it means.
type command struct {
	ID       int      `json:"id"`
	Cmd      string   `json:"cmd"`
	Of       string   `json:"of"`
	URL      string   `json:"url"`
	Over     string   `json:"over"`
	Stdin    bool     `json:"stdin"`
	Stdout   bool     `json:"stdout"`
	Stderr   bool     `json:"stderr"`
	TTY      bool     `json:"tty"`
	Text     string   `json:"text"`
	Repeat   int      `json:"repeat"`
	Width    uint16   `json:"width"`
	Height   uint16   `json:"height"`
	Ports    []string `json:"ports"`
	Protocol []string `json:"protocols"`
}

// session is one exec, attach or port forward that runs.
type session struct {
	typed  *io.PipeWriter
	sizes  chan remotecommand.TerminalSize
	cancel context.CancelFunc
}

// Next is how client-go asks for the terminal's size.
func (s *session) Next() *remotecommand.TerminalSize {
	size, ok := <-s.sizes
	if !ok {
		return nil
	}
	return &size
}

// output tells what comes as lines, and its length and sum at the end.
type output struct {
	out    *lines.Writer
	of     string
	stream string
	quiet  bool
	size   int
	sum    interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func (o *output) Write(data []byte) (int, error) {
	o.size += len(data)
	o.sum.Write(data)
	if o.size <= 65536 {
		o.out.Write(lines.Object{"event": "output", "of": o.of, "stream": o.stream, "text": string(data)})
	}
	return len(data), nil
}

func (o *output) total() lines.Object {
	return lines.Object{"size": o.size, "sha256": hex.EncodeToString(o.sum.Sum(nil))}
}

type client struct {
	out      *lines.Writer
	mu       sync.Mutex
	sessions map[string]*session
}

func main() {
	c := &client{out: lines.NewWriter(os.Stdout), sessions: map[string]*session{}}
	err := lines.Read(os.Stdin, func(line []byte) {
		var cmd command
		if err := json.Unmarshal(line, &cmd); err != nil {
			c.out.Write(lines.Object{"event": "error", "error": err.Error()})
			return
		}
		c.do(cmd)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c *client) do(cmd command) {
	c.mu.Lock()
	s := c.sessions[cmd.Of]
	c.mu.Unlock()
	switch cmd.Cmd {
	case "run", "forward":
		ctx, cancel := context.WithCancel(context.Background())
		s = &session{sizes: make(chan remotecommand.TerminalSize, 16), cancel: cancel}
		c.mu.Lock()
		c.sessions[cmd.Of] = s
		c.mu.Unlock()
		if cmd.Cmd == "run" {
			c.startRun(ctx, s, cmd)
		} else {
			go c.forward(ctx, cmd)
		}
		return
	case "type":
		data := []byte(cmd.Text)
		for i := 0; i < max(cmd.Repeat, 1); i++ {
			if _, err := s.typed.Write(data); err != nil {
				break
			}
		}
	case "end_input":
		s.typed.Close()
	case "resize":
		s.sizes <- remotecommand.TerminalSize{Width: cmd.Width, Height: cmd.Height}
	case "leave":
		s.cancel()
	}
	c.out.Write(lines.Object{"id": cmd.ID, "ok": true})
}

func executor(cmd command) (remotecommand.Executor, error) {
	config := &rest.Config{Host: cmd.URL}
	target, err := url.Parse(cmd.URL)
	if err != nil {
		return nil, err
	}
	if cmd.Over == "websocket" {
		if len(cmd.Protocol) != 0 {
			return remotecommand.NewWebSocketExecutorForProtocols(config, "GET", cmd.URL, cmd.Protocol...)
		}
		return remotecommand.NewWebSocketExecutor(config, "GET", cmd.URL)
	}
	if len(cmd.Protocol) != 0 {
		transport, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			return nil, err
		}
		return remotecommand.NewSPDYExecutorForProtocols(transport, upgrader, "POST", target, cmd.Protocol...)
	}
	return remotecommand.NewSPDYExecutor(config, "POST", target)
}

func (c *client) startRun(ctx context.Context, s *session, cmd command) {
	executor, err := executor(cmd)
	if err != nil {
		c.out.Write(lines.Object{"id": cmd.ID, "ok": false, "error": err.Error()})
		return
	}
	options := remotecommand.StreamOptions{Tty: cmd.TTY}
	stdout := &output{out: c.out, of: cmd.Of, stream: "stdout", sum: sha256.New()}
	stderr := &output{out: c.out, of: cmd.Of, stream: "stderr", sum: sha256.New()}
	typed, typing := io.Pipe()
	s.typed = typing
	if cmd.Stdin {
		options.Stdin = typed
	}
	if cmd.Stdout {
		options.Stdout = stdout
	}
	if cmd.Stderr {
		options.Stderr = stderr
	}
	if cmd.TTY {
		options.TerminalSizeQueue = s
	}
	go func() {
		err := executor.StreamWithContext(ctx, options)
		typed.Close() // client-go reads no more once the server has ended the stream: who types would wait for ever
		answer := lines.Object{"id": cmd.ID, "ok": err == nil, "stdout": stdout.total(), "stderr": stderr.total(), "code": 0}
		var ended exec.CodeExitError
		if errors.As(err, &ended) {
			answer["code"] = ended.Code
		}
		if err != nil {
			answer["error"] = err.Error()
		}
		c.out.Write(answer)
	}()
}

func (c *client) forward(ctx context.Context, cmd command) {
	err := c.forwardPorts(ctx, cmd)
	answer := lines.Object{"id": cmd.ID, "ok": err == nil}
	if err != nil {
		answer["error"] = err.Error()
	}
	c.out.Write(answer)
}

func (c *client) forwardPorts(ctx context.Context, cmd command) error {
	config := &rest.Config{Host: cmd.URL, Timeout: 20 * time.Second}
	target, err := url.Parse(cmd.URL)
	if err != nil {
		return err
	}
	var dialer httpstream.Dialer
	if cmd.Over == "websocket" {
		dialer, err = portforward.NewSPDYOverWebsocketDialer(target, config)
		if err != nil {
			return err
		}
	} else {
		transport, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			return err
		}
		dialer = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", target)
	}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(
		dialer, []string{"127.0.0.1"}, cmd.Ports, ctx.Done(), ready, io.Discard, os.Stderr)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-ready:
		case <-ctx.Done():
			return
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			c.out.Write(lines.Object{"event": "error", "error": err.Error()})
			return
		}
		local := []uint16{}
		for _, port := range ports {
			local = append(local, port.Local)
		}
		c.out.Write(lines.Object{"event": "forwarding", "of": cmd.Of, "local": local})
	}()
	return forwarder.ForwardPorts()
}
