package kafkaio_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	for name, b := range map[string]kafkaio.Backoff{
		"zero value": {}, "its own bounds": {Min: time.Millisecond, Max: 3 * time.Millisecond}, "first beyond the longest": {Min: time.Hour, Max: time.Second},
		"shortest of all": {Min: 1, Max: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, longest := b.Min, b.Max
				if first == 0 {
					first, longest = kafkaio.DefaultMinPause, kafkaio.DefaultMaxPause
				}
				for range 2 {
					for want := min(first, longest); want < longest; want = min(2*want, longest) {
						checkPause(t, &b, want)
					}
					for range 3 {
						checkPause(t, &b, longest)
					}
					b.Reset()
				}
			})
		})
	}
}

// checkPause checks that the next pause takes between half of what it may take and all of it.
func checkPause(t *testing.T, b *kafkaio.Backoff, want time.Duration) {
	t.Helper()
	began := time.Now()
	if err := b.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < want/2 || took > want {
		t.Errorf("got a pause of %v, want %v to %v", took, want/2, want)
	}
}

// TestAThousandServersDoNotKnockAtOnce: the pauses of many differ.
func TestAThousandServersDoNotKnockAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ends := make(chan time.Duration, 1000)
		for range cap(ends) {
			go func() {
				b := kafkaio.Backoff{Min: time.Second}
				_ = b.Pause(t.Context())
				ends <- time.Since(began)
			}()
		}
		byMilli := make(map[int64]int)
		for range cap(ends) {
			byMilli[(<-ends).Milliseconds()]++
		}
		for at, n := range byMilli {
			if n > 30 {
				t.Errorf("got %d of 1000 pauses that end at %d ms, want them spread over 500 ms", n, at)
			}
		}
	})
}

func TestASleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := kafkaio.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want the context's end after 1 s", err, time.Since(began))
		}
		b := kafkaio.Backoff{Min: time.Hour}
		if err := b.Pause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's end", err)
		}
		if err := kafkaio.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Second+time.Minute {
			t.Errorf("got %v after %v, want nil after a minute more", err, time.Since(began))
		}
	})
}
