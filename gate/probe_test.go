package gate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// Among many callers that were never applied, chosen to look like those that were, none is ever closed. A long run:
//
//	FLOODGATE_PROBES=1000000000 go test -v -run NoOtherCaller -timeout 1h ./gate
func TestNoOtherCallerIsEverClosed(t *testing.T) {
	probes := 100_000
	if s := os.Getenv("FLOODGATE_PROBES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("FLOODGATE_PROBES: %v", err)
		}
		probes = n
	}
	const closed = 20_000
	s := New(exact())
	applied := make(map[string]bool, closed)
	now := time.Now()
	ds := make([]schemas.Decision, closed)
	victims := make([]string, closed)
	for i := range ds {
		id := victim(i)
		victims[i] = id
		applied[id] = true
		ds[i] = schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(24 * time.Hour).UnixNano(),
		}
	}
	s.ApplyAt(now, ds)
	keys, users := s.Gate("key"), s.Gate("user")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			var buf []byte
			for range probes / workers / 2 {
				id := victims[r.IntN(closed)]
				if users.Closed(id) {
					t.Errorf("user:%q is closed; only keys were", id)
				}
				buf = appendLookalike(buf[:0], r, id)
				if like := unsafe.String(unsafe.SliceData(buf), len(buf)); keys.Closed(like) && !applied[like] {
					t.Errorf("key:%q is closed; it was never applied", like)
				}
			}
		})
	}
	wg.Wait()
	for id := range applied {
		if !keys.Closed(id) {
			t.Fatalf("key:%q is open; it was applied", id)
		}
	}
}

// victim returns an id of 1 to 14 bytes and more; many are prefixes of others.
func victim(i int) string {
	id := fmt.Sprintf("%x-caller-%d", i%17, i)
	return id[:max(1, len(id)-i%14)]
}

// appendLookalike appends an id that is changed a little. It is called a thousand million times.
func appendLookalike(b []byte, r *rand.Rand, id string) []byte {
	b = append(b, id...)
	i := r.IntN(len(b))
	switch r.IntN(6) {
	case 0:
		b[i] ^= 1 << r.IntN(8)
	case 1:
		b = append(b, byte(r.Uint32()))
	case 2:
		b = b[:i]
	case 3:
		b = append(b, 0)
	case 4:
		b[i], b[0] = b[0], b[i]
	default:
		b = append(b, b...)
	}
	return b
}
