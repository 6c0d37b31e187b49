package adaptation

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/ttrpc"
)

// commandVariable holds the command of the Python process, as a JSON list.
const commandVariable = "NRI_TEST_ADAPTATION"

// line is one line of JSON, either way; messages in it are protobuf in base64.
// Our calls have a number of ours in ID, their questions one of theirs in Asked.
type line struct {
	ID         int             `json:"id,omitempty"`
	Asked      int             `json:"asked,omitempty"`
	On         int             `json:"on,omitempty"` // number of the adaptation
	Do         string          `json:"do,omitempty"`
	Ask        string          `json:"ask,omitempty"`
	Options    json.RawMessage `json:"options,omitempty"`
	Name       string          `json:"name,omitempty"` // of an event or a plugin
	Pod        []byte          `json:"pod,omitempty"`
	Container  []byte          `json:"container,omitempty"`
	Resources  []byte          `json:"resources,omitempty"`
	Overhead   []byte          `json:"overhead,omitempty"`
	TimeoutS   *float64        `json:"timeout_s,omitempty"`
	Seconds    float64         `json:"seconds,omitempty"`
	Block      int             `json:"block,omitempty"`
	Pods       [][]byte        `json:"pods,omitempty"`
	Containers [][]byte        `json:"containers,omitempty"`
	Updates    [][]byte        `json:"updates,omitempty"`
	Reply      []byte          `json:"reply,omitempty"`
	Gone       bool            `json:"gone,omitempty"`
	Error      *failure        `json:"error,omitempty"`
}

// failure is an exception: its text, and the names of its classes and of those
// of its causes.
type failure struct {
	Text  string   `json:"text"`
	Kinds []string `json:"kinds,omitempty"`
}

func (f *failure) Error() string { return f.Text }

// Unwrap gives what a runtime in Go would test for.
func (f *failure) Unwrap() []error {
	var causes []error
	if slices.Contains(f.Kinds, "DeadlineExceeded") || slices.Contains(f.Kinds, "PluginTimeout") {
		causes = append(causes, context.DeadlineExceeded)
	}
	if slices.Contains(f.Kinds, "ConnectionClosed") || slices.Contains(f.Kinds, "PluginClosed") {
		causes = append(causes, ttrpc.ErrClosed)
	}
	return causes
}

// process is the Python process; there is one, started by the first call.
type process struct {
	writing sync.Mutex
	in      io.Writer

	mu      sync.Mutex
	calls   int
	waiting map[int]chan *line
	ended   error
}

var start = sync.OnceValues(func() (*process, error) {
	var argv []string
	if err := json.Unmarshal([]byte(os.Getenv(commandVariable)), &argv); err != nil || len(argv) == 0 {
		return nil, fmt.Errorf("%s is no command", commandVariable)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{in: in, waiting: map[int]chan *line{}}
	go p.read(bufio.NewReader(out), strings.Join(argv, " "))
	return p, nil
})

// call has something done and waits for it.
func (a *Adaptation) call(do string, message *line) (*line, error) {
	p, err := start()
	if err != nil {
		return nil, err
	}
	answered := make(chan *line, 1)
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return nil, p.ended
	}
	p.calls++
	message.ID, message.On, message.Do = p.calls, a.number, do
	p.waiting[message.ID] = answered
	p.mu.Unlock()
	if err := p.write(message); err != nil {
		return nil, err
	}
	answer, ok := <-answered
	switch {
	case !ok:
		return nil, p.ended
	case answer.Error != nil:
		return nil, answer.Error
	}
	return answer, nil
}

func (p *process) write(message *line) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.in.Write(append(data, '\n'))
	return err
}

// read takes answers to those who wait, and has questions answered.
func (p *process) read(out *bufio.Reader, command string) {
	for {
		data, err := out.ReadBytes('\n')
		message := &line{}
		if err == nil {
			err = json.Unmarshal(data, message)
		}
		if err != nil {
			p.end(fmt.Errorf("%s ended or said nonsense: %w", command, err))
			return
		}
		if message.Ask != "" {
			go p.answer(message)
			continue
		}
		p.mu.Lock()
		answered := p.waiting[message.ID]
		delete(p.waiting, message.ID)
		p.mu.Unlock()
		if answered != nil {
			answered <- message
		}
	}
}

func (p *process) answer(question *line) {
	registry.Lock()
	a := adaptations[question.On]
	registry.Unlock()
	answer := failed(errors.New("the adaptation has been stopped"))
	if a != nil {
		answer = a.asked(question)
	}
	answer.Asked = question.Asked
	p.write(answer) //nolint:errcheck // its end is noticed by who reads
}

func (p *process) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = why
	for _, each := range p.waiting {
		close(each)
	}
	p.waiting = map[int]chan *line{}
}
