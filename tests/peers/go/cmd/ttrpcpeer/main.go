// Command ttrpcpeer is the released Go ttRPC library as client or server of
// the tests' echo service (proto/echo.proto) and of their service with streams
// (proto/streams.proto), so that other implementations can be held against it.
//
//	ttrpcpeer server -socket PATH    prints {"event":"listening"}, then one line per request
//	ttrpcpeer client -socket PATH    one JSON call a line on stdin, one answer a line on stdout
//
// ../../../README.md lists the fields of calls, answers and requests.
package main

import (
	"flag"
	"os"

	"nri.test/common/lines"
)

func main() {
	if len(os.Args) < 2 {
		lines.Fatal("usage: ttrpcpeer server|client -socket PATH")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	socket := flags.String("socket", "", "path of the unix socket")
	flags.Parse(os.Args[2:]) //nolint:errcheck // it exits
	var err error
	switch os.Args[1] {
	case "server":
		err = serve(*socket)
	case "client":
		err = call(*socket)
	default:
		lines.Fatal("ttrpcpeer: neither server nor client: %q", os.Args[1])
	}
	if err != nil {
		lines.Fatal("ttrpcpeer %s: %v", os.Args[1], err)
	}
}
