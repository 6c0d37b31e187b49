//go:build needs

package adaptation

// What the reference's test files import beside the reference. They are never
// in this folder, so this file, which nothing builds, is what tells `go mod
// tidy` about them.
import (
	_ "github.com/containerd/nri/pkg/plugin"
	_ "github.com/containerd/nri/pkg/stub"
	_ "github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/opencontainers/runtime-spec/specs-go"
	_ "github.com/sirupsen/logrus"
	_ "github.com/stretchr/testify/require"
	_ "google.golang.org/protobuf/testing/protocmp"
)
