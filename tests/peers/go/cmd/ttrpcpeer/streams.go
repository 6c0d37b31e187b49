package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nri.test/common/lines"
	"nri.test/peers/internal/streams"
)

// streamsService is the name under which the service with streams is called.
const streamsService = "nri.test.Streams"

// streaming is the service with streams: one method for each way.
func streaming() *ttrpc.ServiceDesc {
	return &ttrpc.ServiceDesc{
		Methods: map[string]ttrpc.Method{
			"Look": func(_ context.Context, unmarshal func(any) error) (any, error) {
				item := &streams.Item{}
				if err := unmarshal(item); err != nil {
					return nil, err
				}
				return item, failure(item)
			},
		},
		Streams: map[string]ttrpc.Stream{
			"List":    {Handler: list, StreamingServer: true},
			"Collect": {Handler: collect, StreamingClient: true},
			"Relay":   {Handler: relay, StreamingClient: true, StreamingServer: true},
		},
	}
}

func failure(item *streams.Item) error {
	if item.Code != 0 {
		return status.Error(codes.Code(item.Code), item.Message)
	}
	return nil
}

func list(_ context.Context, stream ttrpc.StreamServer) (any, error) {
	request := &streams.ListRequest{}
	if err := stream.RecvMsg(request); err != nil {
		return nil, err
	}
	for number := range request.Count {
		time.Sleep(time.Duration(request.DelayMs) * time.Millisecond)
		item := &streams.Item{Number: number, Payload: pattern(int(request.Size))}
		if err := stream.SendMsg(item); err != nil {
			return nil, err
		}
	}
	if request.Code != 0 {
		return nil, status.Error(codes.Code(request.Code), request.Message)
	}
	return nil, nil
}

func collect(_ context.Context, stream ttrpc.StreamServer) (any, error) {
	summary := &streams.Summary{Ordered: true}
	for {
		item := &streams.Item{}
		err := stream.RecvMsg(item)
		if errors.Is(err, io.EOF) {
			return summary, nil
		}
		if err == nil {
			err = failure(item)
		}
		if err != nil {
			return nil, err
		}
		summary.Ordered = summary.Ordered && item.Number == summary.Count
		summary.Count++
		summary.Bytes += uint64(len(item.Payload))
	}
}

func relay(_ context.Context, stream ttrpc.StreamServer) (any, error) {
	for {
		item := &streams.Item{}
		err := stream.RecvMsg(item)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil {
			err = failure(item)
		}
		if err == nil {
			err = stream.SendMsg(item)
		}
		if err != nil {
			return nil, err
		}
	}
}

// stream calls a method of the service with streams.
func (c *command) stream(client *ttrpc.Client) lines.Object {
	ctx := context.Background()
	if c.TimeoutMS != 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMS)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	answer := lines.Object{"id": c.ID}
	var err error
	switch c.Stream {
	case "List":
		err = c.list(ctx, client, answer)
	case "Collect":
		err = c.collect(ctx, client, answer)
	default:
		err = c.relay(ctx, client, answer)
	}
	answer["ok"] = err == nil
	if err != nil {
		answer["error"], answer["code"] = err.Error(), nil
		if s, ok := status.FromError(err); ok {
			answer["code"], answer["message"] = int(s.Code()), s.Message()
		}
	}
	return answer
}

func (c *command) list(ctx context.Context, client *ttrpc.Client, answer lines.Object) error {
	request := &streams.ListRequest{Count: c.Count, Size: uint32(c.PayloadSize), Code: c.Code, Message: c.Message}
	stream, err := client.NewStream(ctx, &ttrpc.StreamDesc{StreamingServer: true}, streamsService, "List", request)
	if err != nil {
		return err
	}
	return c.receive(stream, answer)
}

func (c *command) collect(ctx context.Context, client *ttrpc.Client, answer lines.Object) error {
	stream, err := client.NewStream(ctx, &ttrpc.StreamDesc{StreamingClient: true}, streamsService, "Collect", nil)
	if err != nil {
		return err
	}
	if err := c.send(stream); err != nil {
		return err
	}
	summary := &streams.Summary{}
	err = stream.RecvMsg(summary)
	answer["count"], answer["bytes"], answer["ordered"] = summary.Count, summary.Bytes, summary.Ordered
	return err
}

func (c *command) relay(ctx context.Context, client *ttrpc.Client, answer lines.Object) error {
	both := &ttrpc.StreamDesc{StreamingClient: true, StreamingServer: true}
	stream, err := client.NewStream(ctx, both, streamsService, "Relay", nil)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- c.send(stream) }()
	if err := c.receive(stream, answer); err != nil {
		return err
	}
	return <-sent
}

// send sends the items, with one that fails the stream at the end if there is a code, and closes our half.
func (c *command) send(stream ttrpc.ClientStream) error {
	for number := range c.Count {
		if err := stream.SendMsg(&streams.Item{Number: number, Payload: pattern(c.PayloadSize)}); err != nil {
			return err
		}
	}
	if c.Code != 0 { // the server ends the stream then, and data for it would be too late
		return stream.SendMsg(&streams.Item{Number: c.Count, Code: c.Code, Message: c.Message})
	}
	return stream.CloseSend()
}

// receive receives items up to the end, and waits before each if it is to be slow.
func (c *command) receive(stream ttrpc.ClientStream, answer lines.Object) error {
	var count uint32
	ordered, intact := true, true
	wanted := pattern(c.PayloadSize)
	for {
		time.Sleep(time.Duration(c.DelayMS) * time.Millisecond)
		item := &streams.Item{}
		err := stream.RecvMsg(item)
		answer["count"], answer["ordered"], answer["intact"] = count, ordered, intact
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ordered = ordered && item.Number == count
		intact = intact && bytes.Equal(item.Payload, wanted)
		count++
	}
}
