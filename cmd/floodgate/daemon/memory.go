package daemon

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of the collector's soft limit. An analyzer's rows live long, its stores' buffers do not. If the collector waited
// until the heap has doubled, a million rows would take most of a gigabyte.
const (
	minLimit    = 400 << 20 // of an analyzer: below this the limit is not lowered, to save the collector's time
	hostLimit   = 64 << 20  // of a host and of a sidecar, which stand beside servers that need the memory
	heapRoom    = 8         // room for garbage is an eighth of the live memory, …
	minRoom     = 48 << 20  // … and at least this, or the collector would run all the time
	memoryEvery = time.Second
)

// boundMemory keeps the soft limit of the garbage collector a little above the live memory, and not below least, until ctx ends. If
// GOMEMLIMIT or GOGC is set, it does nothing.
func boundMemory(ctx context.Context, least uint64) error {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return nil
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 {
			debug.SetMemoryLimit(heapLimit(live[0].Value.Uint64(), least))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// heapLimit returns the soft limit for this many bytes of live memory.
func heapLimit(live, least uint64) int64 {
	return int64(max(least, live+max(minRoom, live/heapRoom))) // a process's memory
}
