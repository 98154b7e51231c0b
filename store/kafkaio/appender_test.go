package kafkaio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// sequence returns a fault for each produce, in order, and then none.
func sequence(faults ...kafkaiotest.Fault) func(kafkaiotest.Call) kafkaiotest.Fault {
	return func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op != kafkaiotest.OpProduce || len(faults) == 0 {
			return kafkaiotest.Fault{}
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}
}

// TestAppendGoesOnUntilItIsDone: a fault before the append leaves one copy, a lost answer leaves two.
func TestAppendGoesOnUntilItIsDone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults []kafkaiotest.Fault
		copies int
	}{
		{"no fault", nil, 1},
		{"away for a while", []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.Down(), kafkaiotest.Silent()}, 1},
		{"another leader", []kafkaiotest.Fault{kafkaiotest.NotLeader()}, 1},
		{"request lost", []kafkaiotest.Fault{kafkaiotest.LostRequest()}, 1},
		{"answer lost", []kafkaiotest.Fault{kafkaiotest.LostAnswer()}, 2},
		{"two answers lost", []kafkaiotest.Fault{kafkaiotest.LostAnswer(), kafkaiotest.Down(), kafkaiotest.LostAnswer()}, 3},
		{"disk full for a while", []kafkaiotest.Fault{kafkaiotest.NoSpace(), kafkaiotest.NoSpace()}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(0)
				k.SetFault(sequence(tc.faults...))
				failed := 0
				a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t", Retry: func(err error) bool { failed++; return kafkaio.Temporary(err) }})
				base, err := a.Append(t.Context(), kafkaio.Message{Time: 5e6, Value: []byte("a")}, kafkaio.Message{Time: 7e6, Value: []byte("b")})
				records := k.Records("t", 0)
				if err != nil || base != int64(2*tc.copies-2) || len(records) != 2*tc.copies || failed != len(tc.faults) {
					t.Fatalf("got offset %d, %v, %d records, %d failures; want %d copies, the last acknowledged", base, err, len(records), failed, tc.copies)
				}
				for i, r := range records {
					if want := []string{"a 5000000", "b 7000000"}[i%2]; fmt.Sprintf("%s %d", r.Value, r.Time) != want {
						t.Errorf("offset %d: got %s of time %d, want %s: each copy is the same", i, r.Value, r.Time, want)
					}
				}
			})
		})
	}
}

// TestOutcomeOfAllAttempts: the last attempt may say that it was not sent, and the first may be in the log all the same.
func TestOutcomeOfAllAttempts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults []kafkaiotest.Fault
		want   kafkaio.Outcome
	}{
		{"never sent", []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.Down(), kafkaiotest.Down()}, kafkaio.Unsent},
		{"refused", []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.Down(), kafkaiotest.NotLeader()}, kafkaio.Refused},
		{"lost at last", []kafkaiotest.Fault{kafkaiotest.Down(), kafkaiotest.Down(), kafkaiotest.LostAnswer()}, kafkaio.Unknown},
		{"lost at first", []kafkaiotest.Fault{kafkaiotest.LostAnswer(), kafkaiotest.Down(), kafkaiotest.Down()}, kafkaio.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(0)
				k.SetFault(sequence(tc.faults...))
				tries := 0
				a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t", Retry: func(error) bool { tries++; return tries < 3 }})
				_, err := a.Append(t.Context(), messages("a")...)
				if kafkaio.OutcomeOf(err) != tc.want || !errors.Is(err, tc.faults[2].Err) {
					t.Errorf("got %v, outcome %v, want the last error and %v", err, kafkaio.OutcomeOf(err), tc.want)
				}
			})
		})
	}
}

func TestAnAppenderThatIsStopped(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault kafkaiotest.Fault
		after time.Duration
		want  kafkaio.Outcome
	}{
		{"before it began", kafkaiotest.Fault{}, 0, kafkaio.Unsent},
		{"while the cluster is away", kafkaiotest.Down(), 10 * time.Second, kafkaio.Unsent},
		{"while it waits for an answer", kafkaiotest.Silent(), time.Second, kafkaio.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := numbered(0)
				k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return tc.fault })
				ctx, cancel := context.WithTimeout(t.Context(), tc.after)
				defer cancel()
				began := time.Now()
				_, err := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t", Retry: kafkaio.Always}).Append(ctx, messages("a")...)
				if !errors.Is(err, context.DeadlineExceeded) || kafkaio.OutcomeOf(err) != tc.want || time.Since(began) != tc.after {
					t.Errorf("got %v, outcome %v, after %v; want %v after %v", err, kafkaio.OutcomeOf(err), time.Since(began), tc.want, tc.after)
				}
				if n := len(k.Records("t", 0)); n != 0 {
					t.Errorf("got %d records, want none", n)
				}
			})
		})
	}
}

// TestWithoutALeaseNothingIsSent, however long that is, and what waits is sent soon after the lease is back.
func TestWithoutALeaseNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		k := numbered(0)
		leased := time.Now().Add(time.Hour)
		a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{
			Topic: "t", Lease: func(now time.Time) bool { return !now.Before(leased) }, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		})
		if _, err := a.Append(t.Context(), messages("a")...); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(leased); late < 0 || late > 100*time.Millisecond || k.Calls()[kafkaiotest.OpProduce] != 1 {
			t.Errorf("sent %v after the lease was back, in %d calls; want one, within 100 ms", late, k.Calls()[kafkaiotest.OpProduce])
		}
		if n := strings.Count(logs.String(), "trying again"); n != 1 {
			t.Errorf("got %d lines about a lease of an hour, want one", n)
		}
		leased = time.Now().Add(time.Hour)
		stops := 0
		a = kafkaio.NewAppender(k, kafkaio.AppenderConfig{
			Topic: "t", Lease: func(now time.Time) bool { return !now.Before(leased) },
			Retry: func(err error) bool { stops++; return errors.Is(err, kafkaio.ErrNoLease) && stops < 3 },
		})
		if _, err := a.Append(t.Context(), messages("b")...); !errors.Is(err, kafkaio.ErrNoLease) || kafkaio.OutcomeOf(err) != kafkaio.Unsent || stops != 3 {
			t.Errorf("got %v after %d attempts, want ErrNoLease after 3, and that nothing was sent", err, stops)
		}
	})
}

// TestALeaseThatEndsBetweenAttempts: what was lost under the lease is not sent again without it.
func TestALeaseThatEndsBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(0)
		k.SetFault(sequence(kafkaiotest.LostAnswer()))
		leases := 0
		a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t", Lease: func(time.Time) bool { leases++; return leases == 1 }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := a.Append(ctx, messages("a")...)
		if n := len(k.Records("t", 0)); n != 1 || kafkaio.OutcomeOf(err) != kafkaio.Unknown {
			t.Errorf("got %d records and %v, outcome %v; want the one that was sent, unknown", n, err, kafkaio.OutcomeOf(err))
		}
	})
}

// TestStampIsTheTimeOfTheAttempt, so that a message that waited for an hour does not bear the time before it.
func TestStampIsTheTimeOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(0)
		back := time.Now().Add(time.Hour)
		k.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault {
			if time.Now().Before(back) {
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		})
		a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t", Stamp: func() int64 { return time.Now().UnixNano() }})
		if _, err := a.Append(t.Context(), messages("a", "b")...); err != nil {
			t.Fatal(err)
		}
		for _, r := range k.Records("t", 0) {
			if r.Time < back.UnixNano() {
				t.Errorf("got time %d, want %d or later", r.Time, back.UnixNano())
			}
		}
	})
}

// TestWhatATopicNeverTakes ends the call.
func TestWhatATopicNeverTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := numbered(0)
		_, err := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "t"}).Append(t.Context(), kafkaio.Message{Value: make([]byte, 2<<20)})
		if !errors.Is(err, kafkaio.ErrTooLarge) || kafkaio.OutcomeOf(err) != kafkaio.Refused {
			t.Errorf("got %v, want ErrTooLarge, refused", err)
		}
	})
}
