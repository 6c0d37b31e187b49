package main

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nri.test/common/lines"
	"nri.test/peers/internal/echo"
)

// service is the name under which the echo service is called.
const service = "nri.test.Echo"

func serve(socket string) error {
	out := lines.NewWriter(os.Stdout)
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	server.RegisterService(service, &ttrpc.ServiceDesc{Methods: map[string]ttrpc.Method{
		"Echo": func(ctx context.Context, unmarshal func(any) error) (any, error) {
			request := &echo.EchoRequest{}
			if err := unmarshal(request); err != nil {
				return nil, err
			}
			return reply(ctx, out, request)
		},
	}})
	server.RegisterService(streamsService, streaming())
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	out.Write(lines.Object{"event": "listening", "socket": socket})
	return server.Serve(context.Background(), listener)
}

func reply(ctx context.Context, out *lines.Writer, request *echo.EchoRequest) (*echo.EchoReply, error) {
	reply := &echo.EchoReply{Payload: request.Payload, Metadata: received(ctx)}
	if deadline, ok := ctx.Deadline(); ok {
		reply.TimeoutNano = int64(time.Until(deadline))
	}
	out.Write(lines.Object{"event": "request", "size": len(request.Payload),
		"timeout_ns": reply.TimeoutNano, "metadata": len(reply.Metadata)})
	time.Sleep(time.Duration(request.DelayMs) * time.Millisecond)
	if request.Code != 0 {
		return nil, status.Error(codes.Code(request.Code), request.Message)
	}
	if request.ReplySize != 0 {
		reply.Payload = pattern(int(request.ReplySize))
	}
	return reply, nil
}

// received are the request's metadata pairs, sorted by key.
func received(ctx context.Context) []*echo.Metadata {
	metadata, _ := ttrpc.GetMetadata(ctx)
	var pairs []*echo.Metadata
	for key, values := range metadata {
		for _, value := range values {
			pairs = append(pairs, &echo.Metadata{Key: key, Value: value})
		}
	}
	slices.SortStableFunc(pairs, func(a, b *echo.Metadata) int { return strings.Compare(a.Key, b.Key) })
	return pairs
}

// pattern is size bytes that both sides can make: byte i is i modulo 251.
func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i % 251)
	}
	return data
}
