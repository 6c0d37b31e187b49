//go:build tools

// Package tools names the commands that are built from other modules, so that go.sum has what they need.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
