// Package lines is the one way the peers talk to the tests: one JSON object a
// line, in on stdin, out on stdout. Protobuf messages are written as protobuf
// JSON with the field names of the .proto, so that every language reads them.
package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Object is one line.
type Object = map[string]any

// MaxLine bounds one line; a state of many containers fits.
const MaxLine = 256 << 20

// Writer writes whole lines; callers may be concurrent.
type Writer struct {
	mu  sync.Mutex
	out *bufio.Writer
}

// NewWriter writes lines to out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(out, 64<<10)}
}

// Write writes one line and flushes it.
func (w *Writer) Write(object any) {
	data, err := json.Marshal(object)
	if err != nil {
		data, _ = json.Marshal(Object{"event": "error", "error": "encode: " + err.Error()})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Write(data)
	w.out.WriteByte('\n')
	w.out.Flush()
}

// Read calls each for every line of in until it ends.
func Read(in io.Reader, each func(line []byte)) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), MaxLine)
	for scanner.Scan() {
		if line := bytes.TrimSpace(scanner.Bytes()); len(line) != 0 {
			each(bytes.Clone(line))
		}
	}
	return scanner.Err()
}

// JSON is one message as a JSON value; nil gives null.
func JSON(message proto.Message) json.RawMessage {
	if message == nil || reflect.ValueOf(message).IsNil() {
		return json.RawMessage("null")
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		data, _ = json.Marshal("unencodable: " + err.Error())
	}
	return data
}

// JSONList is a list of messages as a JSON value.
func JSONList[M proto.Message](messages []M) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, message := range messages {
		list[i] = JSON(message)
	}
	return list
}

// Parse fills message from raw; absent or null leaves it empty and says false.
func Parse(raw json.RawMessage, message proto.Message) (bool, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return false, nil
	}
	if err := protojson.Unmarshal(raw, message); err != nil {
		return false, fmt.Errorf("%s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	return true, nil
}

// One parses one optional message; absent gives nil.
func One[T any, P interface {
	*T
	proto.Message
}](raw json.RawMessage) (P, error) {
	message := P(new(T))
	present, err := Parse(raw, message)
	if err != nil || !present {
		return nil, err
	}
	return message, nil
}

// List parses a list of messages.
func List[T any, P interface {
	*T
	proto.Message
}](raws []json.RawMessage) ([]P, error) {
	var list []P
	for _, raw := range raws {
		message, err := One[T, P](raw)
		if err != nil {
			return nil, err
		}
		list = append(list, message)
	}
	return list, nil
}

// Fatal reports why the program cannot go on, and ends it.
func Fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
