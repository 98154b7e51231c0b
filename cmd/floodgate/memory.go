package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of the collector's soft limit. An analyzer's rows live long and its stores' buffers do not: collecting only when
// the heap has doubled would let a million rows take most of a gigabyte.
const (
	leastHeap   = 400 << 20 // below this, memory is not worth the collector's time
	heapRoom    = 8         // an eighth of what lives is room for garbage, …
	heapLeast   = 48 << 20  // … and never less than this, or the collector would do nothing else
	memoryEvery = time.Second
)

// boundMemory keeps the soft limit of the garbage collector a little above what lives, until ctx ends. Who sets GOMEMLIMIT
// or GOGC knows better.
func boundMemory(ctx context.Context) error {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return nil
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 {
			debug.SetMemoryLimit(heapLimit(live[0].Value.Uint64()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// heapLimit returns the soft limit for so many bytes that live.
func heapLimit(live uint64) int64 {
	return int64(max(leastHeap, live+max(heapLeast, live/heapRoom))) // a process's memory
}
