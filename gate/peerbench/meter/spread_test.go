package meter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// named returns work that says on log when it is measured.
func named(log *strings.Builder, name string) Work {
	return func(int) int {
		if !strings.HasSuffix(log.String(), name) {
			log.WriteString(name)
		}
		return 1
	}
}

func TestTrialsTakeTurns(t *testing.T) {
	var log strings.Builder
	p := Plan{Rounds: 3, Round: time.Millisecond}
	all, err := p.Spread(t.Context(), 1, named(&log, "a"), nil, named(&log, "b"), named(&log, "c"))
	if err != nil {
		t.Fatal(err)
	}
	// The second round begins with the trial that is left out, the third with b; where a round begins as the last one
	// ended, the log has it once.
	if got, want := log.String(), "abc"+"bca"+"bca"; got != want {
		t.Errorf("got order %q, want %q", got, want)
	}
	for i, want := range []int{3, 0, 3, 3} {
		if len(all[i]) != want {
			t.Errorf("trial %d: got %d samples, want %d", i, len(all[i]), want)
		}
	}
}

func TestSpreadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := Plan{Rounds: 1000, Round: time.Millisecond}.Spread(ctx, 1, func(int) int {
		if calls++; calls == 10 {
			cancel()
		}
		return 1
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}
