package kafkaio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// numbered returns a cluster whose topic "t" holds n records, each with its offset as its value.
func numbered(n int) *kafkaiotest.Kafka {
	k := kafkaiotest.New()
	k.Create(1, "t")
	for i := range n {
		k.Append("t", 0, kafkaio.Message{Value: fmt.Append(nil, i)})
	}
	return k
}

// read calls Next until the cursor is at end, and returns the values and the holes.
func read(t *testing.T, c *kafkaio.Cursor, end int64) (values []string, skipped []string) {
	t.Helper()
	for c.Offset() < end {
		b, err := c.Next(t.Context())
		if err != nil {
			t.Fatalf("at %d: %v", c.Offset(), err)
		}
		values = append(values, valuesOf(b.Records)...)
		for _, s := range b.Skipped {
			skipped = append(skipped, fmt.Sprintf("%d-%d %s", s.From, s.To, s.Reason))
		}
	}
	return values, skipped
}

// TestHoles: whatever a partition does not give, the cursor passes over, once, and says which offsets, and why.
func TestHoles(t *testing.T) {
	for _, tc := range []struct {
		name    string
		harm    func(k *kafkaiotest.Kafka)
		offset  int64
		values  string
		skipped []string
	}{
		{"nothing is wrong", func(*kafkaiotest.Kafka) {}, 0, "01234567", nil},
		{"retention was faster", func(k *kafkaiotest.Kafka) { k.Trim("t", 0, 5) }, 2, "567", []string{"2-4 lost"}},
		{"retention, and nobody was here before", func(k *kafkaiotest.Kafka) { k.Trim("t", 0, 5) }, kafkaio.Earliest, "567", nil},
		{"retention left nothing", func(k *kafkaiotest.Kafka) { k.Trim("t", 0, 8) }, 6, "", []string{"6-7 lost"}},
		{"a flip on the way", func(k *kafkaiotest.Kafka) { k.Corrupt("t", 0, kafkaiotest.Corruption{From: 2, To: 4, Fetches: 2}) }, 0, "01234567", nil},
		{"a corrupt batch", func(k *kafkaiotest.Kafka) { k.Corrupt("t", 0, kafkaiotest.Corruption{From: 2, To: 4}) }, 0, "01567", []string{"2-4 corrupt"}},
		{"from inside a corrupt batch", func(k *kafkaiotest.Kafka) { k.Corrupt("t", 0, kafkaiotest.Corruption{From: 2, To: 4}) }, 3, "567", []string{"3-4 corrupt"}},
		{"a corrupt batch that claims to be empty", func(k *kafkaiotest.Kafka) {
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 2, To: 3, HeaderTo: -7})
		}, 0, "014567", []string{"2-2 corrupt", "3-3 corrupt"}},
		{"a corrupt batch that claims to reach beyond the end", func(k *kafkaiotest.Kafka) {
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 6, To: 7, HeaderTo: 1 << 40})
		}, 0, "012345", []string{"6-7 corrupt"}},
		{"two corrupt batches", func(k *kafkaiotest.Kafka) {
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 0, To: 0})
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 1, To: 1})
		}, 0, "234567", []string{"0-0 corrupt", "1-1 corrupt"}},
		{"a gap", func(k *kafkaiotest.Kafka) {
			k.Edit("t", 0, func(r []kafkaio.Record) []kafkaio.Record { return slices.Delete(r, 3, 5) })
		}, 0, "012567", []string{"3-4 gap"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(8)
				tc.harm(k)
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Offset: tc.offset})
				values, skipped := read(t, c, 8)
				if got := strings.Join(values, ""); got != tc.values || !slices.Equal(skipped, tc.skipped) || c.Offset() != 8 {
					t.Errorf("got %q, skipped %v, at %d; want %q, skipped %v, at 8", got, skipped, c.Offset(), tc.values, tc.skipped)
				}
			})
		})
	}
}

// TestACorruptBatchThatClaimsTheWholeLog costs MaxCorrupt offsets at most.
func TestACorruptBatchThatClaimsTheWholeLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(kafkaio.MaxCorrupt + 50)
		k.Corrupt("t", 0, kafkaiotest.Corruption{From: 10, To: 12, HeaderTo: 1 << 40})
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
		values, skipped := read(t, c, kafkaio.MaxCorrupt+50)
		if want := fmt.Sprintf("10-%d corrupt", 10+kafkaio.MaxCorrupt-1); len(values) != 50 || !slices.Equal(skipped, []string{want}) {
			t.Errorf("got %d values, skipped %v; want 50, skipped %s", len(values), skipped, want)
		}
	})
}

func TestCorruptTries(t *testing.T) {
	for tries, want := range map[int]int{0: kafkaio.DefaultCorruptTries, 1: 1, 20: 20} {
		synctest.Test(t, func(t *testing.T) {
			k := numbered(1)
			k.Corrupt("t", 0, kafkaiotest.Corruption{From: 0, To: 0})
			asked := 0
			c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", CorruptTries: tries, Retry: func(error) bool { asked++; return false }})
			b, err := c.Next(t.Context())
			if got := k.Calls()[kafkaiotest.OpFetch]; err != nil || got != want || asked != 0 || len(b.Skipped) != 1 || !errors.Is(b.Skipped[0].Err, kafkaio.ErrCorrupt) {
				t.Errorf("%d tries: got %d fetches, Retry asked %d times, %+v and %v; want %d fetches, and Retry not asked", tries, got, asked, b, err, want)
			}
		})
	}
}

// TestTheRangeIsAwayWhenABatchIsCorrupt: the cursor passes over nothing before it knows where the partition ends.
func TestTheRangeIsAwayWhenABatchIsCorrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(3)
		k.Corrupt("t", 0, kafkaiotest.Corruption{From: 0, To: 0, HeaderTo: 99})
		ranges := 0
		k.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpRange {
				if ranges++; ranges < 4 {
					return kafkaiotest.Down()
				}
			}
			return kafkaiotest.Fault{}
		})
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
		b, err := c.Next(t.Context())
		if err != nil || len(b.Skipped) != 1 || b.Next != 3 || ranges != 4 {
			t.Errorf("got %+v and %v after %d ranges, want offsets 0 to 2 skipped after 4", b, err, ranges)
		}
	})
}

// TestALogThatBecameShorter: a new leader lacks the newest records.
func TestALogThatBecameShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(8)
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Retry: kafkaio.Always})
		read(t, c, 8)
		k.Cut("t", 0, 6)
		for range 2 {
			if _, err := c.Next(t.Context()); !errors.Is(err, kafkaio.ErrTruncated) || !errors.Is(err, kafkaio.ErrOffsetOutOfRange) {
				t.Errorf("got %v, want ErrTruncated", err)
			}
		}
		c.MoveTo(5)
		if values, _ := read(t, c, 6); !slices.Equal(values, []string{"5"}) {
			t.Errorf("after MoveTo: got %v, want 5", values)
		}
		if err := c.Scan(t.Context(), 8, func(*kafkaio.Batch) error { return nil }); !errors.Is(err, kafkaio.ErrTruncated) {
			t.Errorf("a scan to the old end: got %v, want ErrTruncated: it must not wait for records that nobody writes", err)
		}
	})
}

// TestScanCutsAtItsEnd: what lies across the end is read by the next scan, records and holes.
func TestScanCutsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(4)
		k.Skip("t", 0, 4, kafkaio.SkipMalformed)
		k.Append("t", 0, kafkaio.Message{Value: []byte("8")})
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
		var got []string
		for _, end := range []int64{3, 4, 6, 9} {
			if err := c.Scan(t.Context(), end, func(b *kafkaio.Batch) error {
				got = append(got, valuesOf(b.Records)...)
				for _, s := range b.Skipped {
					got = append(got, fmt.Sprintf("%d-%d", s.From, s.To))
				}
				if b.Next > end {
					t.Errorf("got next %d in a scan to %d", b.Next, end)
				}
				return nil
			}); err != nil || c.Offset() != end {
				t.Errorf("got %v at %d, want the end %d", err, c.Offset(), end)
			}
		}
		if want := []string{"0", "1", "2", "3", "4-5", "8", "6-7"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestACursorWaitsForItsCluster through every short fault, and says so once and not each time.
func TestACursorWaitsForItsCluster(t *testing.T) {
	for name, fault := range map[string]kafkaiotest.Fault{
		"down": kafkaiotest.Down(), "request lost": kafkaiotest.LostRequest(), "answer lost": kafkaiotest.LostAnswer(),
		"silent": kafkaiotest.Silent(), "not leader": kafkaiotest.NotLeader(), "no space": kafkaiotest.NoSpace(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				k := numbered(2)
				healed := time.Now().Add(time.Minute)
				k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault {
					if time.Now().Before(healed) {
						return fault
					}
					return kafkaiotest.Fault{}
				})
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{
					Topic: "t", Offset: kafkaio.Earliest, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
				})
				values, _ := read(t, c, 2)
				calls := k.Calls()[kafkaiotest.OpFetch] + k.Calls()[kafkaiotest.OpRange]
				if late := time.Since(healed); len(values) != 2 || late > kafkaio.DefaultMaxPause+kafkaio.DefaultTimeout || calls > 130 {
					t.Errorf("got %v, %v after it was mended, with %d calls", values, late, calls)
				}
				if n := strings.Count(logs.String(), "cannot read, trying again"); n < 1 || n > 14 || !strings.Contains(logs.String(), "can read again") {
					t.Errorf("got %d lines in\n%s", n, &logs)
				}
			})
		})
	}
}

// TestRetryDecides which errors end a call; it is asked about each attempt that failed.
func TestRetryDecides(t *testing.T) {
	unauthorized := kafkaiotest.Unauthorized()
	for _, tc := range []struct {
		name  string
		retry kafkaio.Retry
		fault kafkaiotest.Fault
		calls int // 0: until the context ends
	}{
		{"temporary by default", nil, kafkaiotest.Down(), 0},
		{"lasting by default", nil, unauthorized, 1},
		{"always", kafkaio.Always, unauthorized, 0},
		{"always, but closed", kafkaio.Always, kafkaiotest.Returns(kafkaio.ErrClosed), 1},
		{"never", kafkaio.Never, kafkaiotest.Down(), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(1)
				k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return tc.fault })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Retry: tc.retry})
				for op, call := range map[kafkaiotest.Op]func() error{
					kafkaiotest.OpFetch: func() error { _, err := c.Next(ctx); return err },
					kafkaiotest.OpRange: func() error { _, _, err := c.Range(ctx); return err },
				} {
					err := call()
					if tc.calls == 0 && !errors.Is(err, context.DeadlineExceeded) || tc.calls > 0 && (!errors.Is(err, tc.fault.Err) || k.Calls()[op] != tc.calls) {
						t.Errorf("%s: got %v after %d calls, want %d", op, err, k.Calls()[op], tc.calls)
					}
				}
			})
		})
	}
}

// TestRunEndsWithWhatEndedIt, behind everything that was read before.
func TestRunEndsWithWhatEndedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(3)
		c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Retry: kafkaio.Always})
		batches, done := make(chan kafkaio.Batch, 1), make(chan error, 1)
		go func() { done <- c.Run(t.Context(), batches) }()
		time.Sleep(time.Second)
		k.Cut("t", 0, 1)
		time.Sleep(time.Second)
		var values []string
		for b := range batches {
			values = append(values, valuesOf(b.Records)...)
		}
		if err := <-done; !errors.Is(err, kafkaio.ErrTruncated) || !errors.Is(c.Err(), kafkaio.ErrTruncated) || len(values) != 3 {
			t.Errorf("got %v, %v and %v; want ErrTruncated behind three records", values, err, c.Err())
		}
	})
}

// TestAStoppedCursorStops wherever it waits.
func TestAStoppedCursorStops(t *testing.T) {
	for name, fault := range map[string]kafkaiotest.Fault{"in a pause": kafkaiotest.Down(), "in a call": kafkaiotest.Silent(), "in a poll": {}} {
		synctest.Test(t, func(t *testing.T) {
			k := numbered(0)
			k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return fault })
			c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", MaxWait: time.Hour, Retry: kafkaio.Always})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Second, cancel)
			began := time.Now()
			if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) || time.Since(began) != 10*time.Second {
				t.Errorf("%s: got %v after %v, want it canceled after 10 s", name, err, time.Since(began))
			}
		})
	}
}

// TestAnyPathReadsTheSame: whatever faults come, a cursor returns each record once and in order, and each offset that it does
// not return is in a hole.
func TestAnyPathReadsTheSame(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			k := numbered(0)
			k.SetMaxRecords(1 + rnd.IntN(5))
			for n := 0; n < 200; n = int(last(k)) {
				switch rnd.IntN(4) {
				case 0:
					k.Skip("t", 0, 1+rnd.Int64N(4), kafkaio.SkipCodec)
				case 1:
					at := last(k)
					k.Append("t", 0, messages("x", "y", "z")...)
					k.Corrupt("t", 0, kafkaiotest.Corruption{From: at, To: at + 2, Fetches: rnd.IntN(6)})
				default:
					k.Append("t", 0, messages(fmt.Sprint(n))...)
				}
			}
			faults := []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.Silent(), kafkaiotest.LostAnswer(), kafkaiotest.Slow(time.Second)}
			k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault {
				if rnd.IntN(3) > 0 {
					return kafkaiotest.Fault{}
				}
				return faults[rnd.IntN(len(faults))]
			})
			c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"})
			seen := make(map[int64]string)
			for next, end := int64(0), last(k); next < end; next = c.Offset() {
				b, err := c.Next(t.Context())
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, r := range b.Records {
					seen[r.Offset] += "record "
				}
				for _, s := range b.Skipped {
					for o := s.From; o <= s.To; o++ {
						seen[o] += "hole "
					}
				}
			}
			for o := range last(k) {
				if seen[o] != "record " && seen[o] != "hole " {
					t.Errorf("seed %d: offset %d: got %q, want one record or one hole", seed, o, seen[o])
				}
			}
			for _, r := range k.Records("t", 0) {
				if !strings.ContainsAny(string(r.Value), "xyz") && seen[r.Offset] != "record " {
					t.Errorf("seed %d: offset %d holds a good record, and it was %q", seed, r.Offset, seen[r.Offset])
				}
			}
		})
	}
}

func last(k *kafkaiotest.Kafka) int64 { _, end := k.Ends("t", 0); return end }

// TestLeadingRecords: they are those that the partition still begins with, up to one that is not wanted or cannot be read.
func TestLeadingRecords(t *testing.T) {
	for _, tc := range []struct {
		name   string
		harm   func(k *kafkaiotest.Kafka)
		accept string
		want   string
	}{
		{"some", func(*kafkaiotest.Kafka) {}, "012", "2"},
		{"the first of a batch is another", func(*kafkaiotest.Kafka) {}, "0124567", "2"},
		{"all, in several batches", func(*kafkaiotest.Kafka) {}, "01234567", "7"},
		{"the first is another", func(*kafkaiotest.Kafka) {}, "1234567", ""},
		{"retention has deleted some", func(k *kafkaiotest.Kafka) { k.Trim("t", 0, 5) }, "56", "6"},
		{"retention has deleted all", func(k *kafkaiotest.Kafka) { k.Trim("t", 0, 8) }, "01234567", ""},
		{"a new topic", func(k *kafkaiotest.Kafka) { k.Recreate("t") }, "01234567", ""},
		{"the first is corrupt", func(k *kafkaiotest.Kafka) { k.Corrupt("t", 0, kafkaiotest.Corruption{From: 0, To: 1}) }, "01234567", ""},
		{"a later one is missing", func(k *kafkaiotest.Kafka) {
			k.Edit("t", 0, func(r []kafkaio.Record) []kafkaio.Record { return slices.Delete(r, 2, 3) })
		}, "01234567", "1"},
		{"a later one is corrupt", func(k *kafkaiotest.Kafka) { k.Corrupt("t", 0, kafkaiotest.Corruption{From: 3, To: 4}) }, "01234567", "2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(8)
				k.SetMaxRecords(3)
				tc.harm(k)
				c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t", Offset: 6})
				last, ok, err := c.Leading(t.Context(), func(r *kafkaio.Record) bool { return strings.Contains(tc.accept, string(r.Value)) })
				if err != nil || string(last.Value) != tc.want || ok != (tc.want != "") {
					t.Errorf("got %q, %v, %v, want %q", last.Value, ok, err, tc.want)
				}
			})
		})
	}
	k := numbered(1)
	k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Unauthorized() })
	_, ok, err := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "t"}).Leading(t.Context(), func(*kafkaio.Record) bool { return true })
	if ok || !errors.Is(err, kafkaio.ErrUnauthorized) {
		t.Errorf("got %v, %v, want %v", ok, err, kafkaio.ErrUnauthorized)
	}
}
