// Package script says what a scripted plugin does at each event. It knows JSON
// and time only, so that plugins of every release of the reference share it.
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Script is a plugin's whole behaviour.
type Script struct {
	Name             string           `json:"name"`
	Idx              string           `json:"idx"`
	Socket           string           `json:"socket"`
	Events           []string         `json:"events"` // subscribed events; empty: all that the stub handles
	Full             bool             `json:"full"`   // print whole messages, not only ids
	Log              string           `json:"log"`    // write lines to this file, not to stdout
	Reconnect        bool             `json:"reconnect"`
	ReconnectDelayMS int              `json:"reconnect_delay_ms"`
	StopAtEOF        bool             `json:"stop_at_eof"` // the end of stdin ends the program
	FailurePolicy    *FailurePolicy   `json:"failure_policy"`
	On               map[string]Steps `json:"on"` // by event name

	mu    sync.Mutex
	calls map[string]int
}

// FailurePolicy is declared to the runtime by releases that know it.
type FailurePolicy struct {
	FailRequest   bool `json:"fail_request"`
	KeepConnected bool `json:"keep_connected"`
}

// Step is what happens at one call.
type Step struct {
	Adjust  json.RawMessage   `json:"adjust"`
	Update  []json.RawMessage `json:"update"`
	Error   string            `json:"error"`
	DelayMS int               `json:"delay_ms"`
	Exit    *int              `json:"exit"`    // end the process with this code, without an answer
	Updates []json.RawMessage `json:"updates"` // unsolicited updates, awaited inside the handler
	After   []json.RawMessage `json:"after"`   // unsolicited updates, not awaited
}

// Steps are the steps of one event: the n-th call takes the n-th, and the last
// repeats. One step may stand without the list.
type Steps []Step

// UnmarshalJSON takes a list of steps or one step.
func (s *Steps) UnmarshalJSON(data []byte) error {
	var list []Step
	if json.Unmarshal(data, &list) == nil {
		*s = list
		return nil
	}
	var step Step
	err := json.Unmarshal(data, &step)
	*s = Steps{step}
	return err
}

// Load reads the script from text, else file, else the file beside the program.
func Load(text, file string) (*Script, error) {
	data := []byte(text)
	if text == "" {
		if file == "" {
			file = os.Args[0] + ".json"
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("no script: %w", err)
		}
	}
	s := &Script{calls: map[string]int{}}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return s, nil
}

// Next is the step of the event's next call.
func (s *Script) Next(event string) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[event]
	s.calls[event]++
	steps := s.On[event]
	if len(steps) == 0 {
		return Step{}
	}
	return steps[min(n, len(steps)-1)]
}

// Act waits, exits or fails as the step says.
func (s Step) Act() error {
	time.Sleep(time.Duration(s.DelayMS) * time.Millisecond)
	if s.Exit != nil {
		os.Exit(*s.Exit)
	}
	if s.Error != "" {
		return errors.New(s.Error)
	}
	return nil
}

// Out is where lines go.
func (s *Script) Out() (*os.File, error) {
	if s.Log == "" {
		return os.Stdout, nil
	}
	return os.OpenFile(s.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}
