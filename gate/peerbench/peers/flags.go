package peers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
)

// Flag is a baseline: only a map from closed callers to the times when they reopen. New makes one in which the given
// callers are closed for an hour.
type Flag struct {
	Name string
	New  func(closed []string) Subject
}

// Flags returns all baselines.
func Flags() []Flag {
	return []Flag{
		{"copy-on-write map", newCopied},
		{"RWMutex map", newLocked},
		{"sync.Map", newSynced},
		{"xsync v4 Map", newXsync},
	}
}

// times maps callers to the Unix nanoseconds of their reopening.
func times(closed []string) map[string]int64 {
	m, until := make(map[string]int64, len(closed)), time.Now().Add(time.Hour).UnixNano()
	for _, k := range closed {
		m[k] = until
	}
	return m
}

func covers(until int64) bool { return time.Now().UnixNano() < until }

// copied is a map that a writer copies at each change.
type copied struct {
	m atomic.Pointer[map[string]int64]
}

func newCopied(closed []string) Subject {
	m := times(closed)
	s := new(copied)
	s.m.Store(&m)
	return s
}

// Ask implements Subject.
func (s *copied) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if until, ok := (*s.m.Load())[k]; ok && covers(until) {
			refused++
		}
	}
	return refused
}

// locked is a map with a lock.
type locked struct {
	mu sync.RWMutex
	m  map[string]int64 // protected by mu
}

func newLocked(closed []string) Subject { return &locked{m: times(closed)} }

// Ask implements Subject.
func (s *locked) Ask(keys []string) (refused int) {
	for _, k := range keys {
		s.mu.RLock()
		until, ok := s.m[k]
		s.mu.RUnlock()
		if ok && covers(until) {
			refused++
		}
	}
	return refused
}

// synced is a sync.Map.
type synced struct{ m sync.Map }

func newSynced(closed []string) Subject {
	s := new(synced)
	for k, until := range times(closed) {
		s.m.Store(k, until)
	}
	return s
}

// Ask implements Subject.
func (s *synced) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if v, ok := s.m.Load(k); ok {
			if until, ok := v.(int64); ok && covers(until) {
				refused++
			}
		}
	}
	return refused
}

// xsynced is an xsync.Map.
type xsynced struct{ m *xsync.Map[string, int64] }

func newXsync(closed []string) Subject {
	s := &xsynced{xsync.NewMap[string, int64](xsync.WithPresize(len(closed)))}
	for k, until := range times(closed) {
		s.m.Store(k, until)
	}
	return s
}

// Ask implements Subject.
func (s *xsynced) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if until, ok := s.m.Load(k); ok && covers(until) {
			refused++
		}
	}
	return refused
}
