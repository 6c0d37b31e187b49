module nri.test/common

go 1.24.0

require google.golang.org/protobuf v1.31.0
