package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/status"

	"nri.test/common/lines"
	"nri.test/peers/internal/echo"
)

// command is one call of the echo service, or one stream.
type command struct {
	ID          json.RawMessage     `json:"id"`
	Service     string              `json:"service"` // default: the echo service
	Method      string              `json:"method"`  // default: Echo
	PayloadSize int                 `json:"payload_size"`
	DelayMS     uint32              `json:"delay_ms"`
	Code        int32               `json:"code"`
	Message     string              `json:"message"`
	ReplySize   uint32              `json:"reply_size"`
	TimeoutMS   int                 `json:"timeout_ms"`
	Metadata    map[string][]string `json:"metadata"`
	Stream      string              `json:"stream"` // List, Collect or Relay of the service with streams
	Count       uint32              `json:"count"`  // items
}

// call answers every command of stdin, all of them concurrently.
func call(socket string) error {
	out := lines.NewWriter(os.Stdout)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	client := ttrpc.NewClient(conn, ttrpc.WithOnClose(func() { out.Write(lines.Object{"event": "closed"}) }))
	out.Write(lines.Object{"event": "connected"})
	var calls sync.WaitGroup
	err = lines.Read(os.Stdin, func(line []byte) {
		calls.Add(1)
		go func() {
			defer calls.Done()
			c := command{Service: service, Method: "Echo"}
			if err := json.Unmarshal(line, &c); err != nil {
				out.Write(lines.Object{"event": "error", "error": err.Error()})
				return
			}
			if c.Stream != "" {
				out.Write(c.stream(client))
				return
			}
			out.Write(c.run(client))
		}()
	})
	calls.Wait()
	client.Close()
	return err
}

func (c *command) run(client *ttrpc.Client) lines.Object {
	ctx := context.Background()
	if c.TimeoutMS != 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMS)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	if len(c.Metadata) != 0 {
		ctx = ttrpc.WithMetadata(ctx, ttrpc.MD(c.Metadata))
	}
	request := &echo.EchoRequest{Payload: pattern(c.PayloadSize), DelayMs: c.DelayMS,
		Code: c.Code, Message: c.Message, ReplySize: c.ReplySize}
	reply := &echo.EchoReply{}
	began := time.Now()
	err := client.Call(ctx, c.Service, c.Method, request, reply)
	answer := lines.Object{"id": c.ID, "ok": err == nil, "ns": time.Since(began).Nanoseconds()}
	if err != nil {
		answer["error"], answer["code"] = err.Error(), nil
		if s, ok := status.FromError(err); ok {
			answer["code"], answer["message"] = int(s.Code()), s.Message()
		}
		answer["deadline"] = errors.Is(err, context.DeadlineExceeded)
		answer["closed"] = errors.Is(err, ttrpc.ErrClosed)
		return answer
	}
	wanted := c.PayloadSize
	if c.ReplySize != 0 {
		wanted = int(c.ReplySize)
	}
	answer["size"] = len(reply.Payload)
	answer["intact"] = bytes.Equal(reply.Payload, pattern(wanted))
	answer["timeout_ns"] = reply.TimeoutNano
	metadata := map[string][]string{}
	for _, pair := range reply.Metadata {
		metadata[pair.Key] = append(metadata[pair.Key], pair.Value)
	}
	answer["metadata"] = metadata
	return answer
}
