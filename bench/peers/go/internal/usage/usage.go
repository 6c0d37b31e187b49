// Package usage reads what a process has cost so far.
package usage

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"nri.test/common/lines"
)

// CPU is the processor time of this process in nanoseconds, user and system.
func CPU() int64 { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// Now is the monotonic clock that other processes of the machine read too.
func Now() int64 { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		lines.Fatal("clock %d: %v", id, err)
	}
	return t.Nano()
}

// Object is CPU time and memory, present and peak, as one line for the tests.
func Object() lines.Object {
	return lines.Object{"cpu_ns": CPU(), "rss_kb": status("VmRSS:"), "peak_kb": status("VmHWM:")}
}

func status(key string) int {
	data, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(data, []byte(key))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	value, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return value
}
