// Command hookserver is a hook server of Koordinator's protocol on Koordinator's own
// released API: it registers itself as koordlet does, answers each call with what it was
// asked, changed as a file says, and prints one line of JSON for each call.
//
//	hookserver -socket S -register FILE -policy Ignore -answers ANSWERS.json
//
// ANSWERS.json has by stage {"response": {...}, "error": "...", "delay": "1s"}. Maps and
// values of "response" come over the request's; "whole" leaves the request's out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	hooks "github.com/koordinator-sh/koordinator/apis/runtime/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// registration has the keys that Koordinator's proxy reads.
type registration struct {
	RemoteEndpoint string   `json:"remote-endpoint,omitempty"`
	FailurePolicy  string   `json:"failure-policy,omitempty"`
	RuntimeHooks   []string `json:"runtime-hooks,omitempty"`
}

type answer struct {
	Response json.RawMessage `json:"response"`
	Whole    bool            `json:"whole"`
	Error    string          `json:"error"`
	Delay    string          `json:"delay"`
}

type server struct {
	hooks.UnimplementedRuntimeHookServiceServer
	path   string
	output sync.Mutex
}

// say prints a call, and reads what is to be answered to it now.
func (s *server) say(stage string, request proto.Message) (answer, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(request)
	if err != nil {
		return answer{}, err
	}
	s.output.Lock()
	fmt.Printf("{\"stage\": %q, \"request\": %s}\n", stage, text)
	s.output.Unlock()
	all := map[string]answer{}
	if s.path != "" {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			return answer{}, err
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			return answer{}, err
		}
	}
	found := all[stage]
	if found.Delay != "" {
		wait, err := time.ParseDuration(found.Delay)
		if err != nil {
			return answer{}, err
		}
		time.Sleep(wait)
	}
	if found.Error != "" {
		return answer{}, errors.New(found.Error)
	}
	return found, nil
}

func (s *server) pod(stage string, request *hooks.PodSandboxHookRequest) (*hooks.PodSandboxHookResponse, error) {
	found, err := s.say(stage, request)
	if err != nil {
		return nil, err
	}
	response := &hooks.PodSandboxHookResponse{}
	if !found.Whole {
		response.Labels, response.Annotations = request.GetLabels(), request.GetAnnotations()
		response.CgroupParent, response.Resources = request.GetCgroupParent(), request.GetResources()
	}
	return response, over(response, found.Response)
}

func (s *server) container(stage string, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	found, err := s.say(stage, request)
	if err != nil {
		return nil, err
	}
	response := &hooks.ContainerResourceHookResponse{}
	if !found.Whole {
		response.ContainerAnnotations, response.ContainerResources = request.GetContainerAnnotations(), request.GetContainerResources()
		response.PodCgroupParent, response.ContainerEnvs = request.GetPodCgroupParent(), request.GetContainerEnvs()
	}
	return response, over(response, found.Response)
}

// over merges what the file says into a response.
func over(response proto.Message, text json.RawMessage) error {
	if text == nil {
		return nil
	}
	more := response.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(text, more); err != nil {
		return err
	}
	proto.Merge(response, more)
	return nil
}

func (s *server) PreRunPodSandboxHook(_ context.Context, request *hooks.PodSandboxHookRequest) (*hooks.PodSandboxHookResponse, error) {
	return s.pod("PreRunPodSandbox", request)
}

func (s *server) PostStopPodSandboxHook(_ context.Context, request *hooks.PodSandboxHookRequest) (*hooks.PodSandboxHookResponse, error) {
	return s.pod("PostStopPodSandbox", request)
}

func (s *server) PreCreateContainerHook(_ context.Context, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	return s.container("PreCreateContainer", request)
}

func (s *server) PreStartContainerHook(_ context.Context, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	return s.container("PreStartContainer", request)
}

func (s *server) PostStartContainerHook(_ context.Context, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	return s.container("PostStartContainer", request)
}

func (s *server) PostStopContainerHook(_ context.Context, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	return s.container("PostStopContainer", request)
}

func (s *server) PreUpdateContainerResourcesHook(_ context.Context, request *hooks.ContainerResourceHookRequest) (*hooks.ContainerResourceHookResponse, error) {
	return s.container("PreUpdateContainerResources", request)
}

func main() {
	socket := flag.String("socket", "", "where to listen")
	register := flag.String("register", "", "the registration file to write")
	policy := flag.String("policy", "Ignore", "its failure-policy")
	answers := flag.String("answers", "", "a file of answers by stage, read at each call")
	flag.Parse()
	if err := serve(*socket, *register, *policy, *answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(socket, register, policy, answers string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if register != "" {
		stages := []string{}
		for _, method := range hooks.RuntimeHookService_ServiceDesc.Methods {
			stages = append(stages, method.MethodName[:len(method.MethodName)-len("Hook")])
		}
		text, err := json.MarshalIndent(registration{socket, policy, stages}, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(register, text, 0o644); err != nil {
			return err
		}
	}
	go func() { // the end of stdin is the end of the program
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	made := grpc.NewServer()
	hooks.RegisterRuntimeHookServiceServer(made, &server{path: answers})
	fmt.Println("{\"stage\": \"ready\"}")
	return made.Serve(listener)
}
