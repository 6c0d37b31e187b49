// Command oracle answers what the reference would answer, case by case.
//
// One case a line on stdin, in the format of the conformance data (op create,
// update or stop: the plugins' scripted answers, merged by the released
// adaptation; op spec: an adjustment applied by the released generator), one
// line {"id", "expect"} on stdout, in order. With -runs N each case runs N
// times, and "stable" says whether all answers were the same: where the
// reference walks a map in random order they are not. -check compares with the
// expectation that a case carries and prints only what differs.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"

	nrilog "github.com/containerd/nri/pkg/log"

	"nri.test/common/lines"
)

// Case is one line of input.
type Case struct {
	ID        json.RawMessage `json:"id"`
	Op        string          `json:"op"`
	Pod       json.RawMessage `json:"pod"`
	Container json.RawMessage `json:"container"`
	Resources json.RawMessage `json:"resources"`
	Plugins   []Scripted      `json:"plugins"`
	Spec      json.RawMessage `json:"spec"`
	Adjust    json.RawMessage `json:"adjust"`
	Expect    json.RawMessage `json:"expect"`
}

// Scripted is what one plugin answers.
type Scripted struct {
	Name   string            `json:"name"`
	Index  string            `json:"index"`
	Adjust json.RawMessage   `json:"adjust"`
	Update []json.RawMessage `json:"update"`
	Evict  []json.RawMessage `json:"evict"`
	Error  *string           `json:"error"`
}

func main() {
	runs := flag.Int("runs", 1, "run each case this often and say whether the answers agree")
	check := flag.Bool("check", false, "print only cases whose answer differs from their expectation")
	verbose := flag.Bool("v", false, "show the reference's log on stderr")
	flag.Parse()
	nrilog.Set(&lines.Logger{Quiet: !*verbose})

	out := lines.NewWriter(os.Stdout)
	total, differ := 0, 0
	err := lines.Read(os.Stdin, func(line []byte) {
		var c Case
		if err := json.Unmarshal(line, &c); err != nil {
			out.Write(lines.Object{"id": nil, "invalid": err.Error()})
			return
		}
		total++
		expect, stable, err := answer(&c, *runs)
		switch {
		case err != nil:
			out.Write(lines.Object{"id": c.ID, "invalid": err.Error()})
		case *check:
			if !sameJSON(expect, c.Expect, hasError(c.Expect)) {
				differ++
				out.Write(lines.Object{"id": c.ID, "expect": expect, "stable": stable})
			}
		default:
			out.Write(lines.Object{"id": c.ID, "expect": expect, "stable": stable})
		}
	})
	if err != nil {
		lines.Fatal("oracle: stdin: %v", err)
	}
	if *check {
		out.Write(lines.Object{"checked": total, "differ": differ})
	}
}

// answer runs the case; only the caller's mistakes are errors.
func answer(c *Case, runs int) (json.RawMessage, bool, error) {
	var first json.RawMessage
	for run := range max(runs, 1) {
		object, err := evaluate(c)
		if err != nil {
			return nil, false, err
		}
		data, err := json.Marshal(object)
		if err != nil {
			return nil, false, err
		}
		if run == 0 {
			first = data
		} else if !bytes.Equal(data, first) {
			return first, false, nil
		}
	}
	return first, true, nil
}

// evaluate runs the case once. A panic of the reference is its answer too.
func evaluate(c *Case) (expect lines.Object, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			expect, err = lines.Object{"panic": fmt.Sprint(reason)}, nil
		}
	}()
	switch c.Op {
	case "create", "update", "stop":
		return merge(c)
	case "spec":
		return generateSpec(c)
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

func hasError(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object["error"] != nil
}

// sameJSON compares two expectations; of a failed case only error and seen.
func sameJSON(a, b json.RawMessage, failed bool) bool {
	var left, right map[string]any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	if failed {
		for _, object := range []map[string]any{left, right} {
			for key := range object {
				if !slices.Contains([]string{"error", "seen"}, key) {
					delete(object, key)
				}
			}
		}
	}
	return reflect.DeepEqual(left, right)
}
