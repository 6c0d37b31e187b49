//go:build nri061

package main

import (
	"github.com/containerd/nri/pkg/stub"

	"nri.test/common/lines"
	"nri.test/common/script"
)

// started is the line that says that registration and configuration are done.
func started(stub.Stub) lines.Object { return lines.Object{"event": "started"} }

// extraOptions are the stub options that release 0.6.1 does not have.
func extraOptions(*script.Script) []stub.Option { return nil }
