package daemon

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
)

func TestTheCollectorsLimitFollowsLiveMemory(t *testing.T) {
	for live, want := range map[uint64]int64{
		0:         minLimit,
		360 << 20: 408 << 20,
		400 << 20: 450 << 20,
		4 << 30:   4608 << 20,
	} {
		if got := heapLimit(live, minLimit); got != want {
			t.Errorf("%d MB live: got a limit of %d MB, want %d", live>>20, got>>20, want>>20)
		}
	}
}

func TestALimitFromTheEnvironmentIsKept(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, name := range []string{"GOMEMLIMIT", "GOGC"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv("GOGC", "")
			t.Setenv(name, "100")
			debug.SetMemoryLimit(math.MaxInt64)
			if err := boundMemory(t.Context(), minLimit); err != nil {
				t.Fatal(err)
			}
			if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
				t.Errorf("got a limit of %d, want none", got)
			}
		})
	}
	t.Run("neither", func(t *testing.T) {
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv("GOGC", "")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := boundMemory(ctx, minLimit); err != nil {
			t.Fatal(err)
		}
		if got := debug.SetMemoryLimit(-1); got < minLimit || got == math.MaxInt64 {
			t.Errorf("got a limit of %d, want one", got)
		}
	})
}
