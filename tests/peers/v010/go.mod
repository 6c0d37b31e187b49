module nri.test/v010

go 1.24.0

require github.com/containerd/nri v0.12.5
