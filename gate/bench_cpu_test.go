//go:build unix

package gate

import (
	"syscall"
	"testing"
	"time"
)

// cpu runs f b.N times and reports the processor time of the whole process for each: on a machine with other work the
// wall clock says little.
func cpu(b *testing.B, f func(n int)) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	f(b.N)
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
