package filelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestAllAtOnce: readers read what a writer appends, each record once and in order, while the log is synced, trimmed and asked. Readers that are
// too slow are told what they have lost, and nothing is said to be damaged.
func TestAllAtOnce(t *testing.T) {
	const records = 3000
	l, _ := openLog(t, t.TempDir(), 2000)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others, readers sync.WaitGroup
	forever := func(f func() error) {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	forever(l.Sync)
	forever(func() error {
		start, end, err := l.Range(t.Context(), topicName, 0)
		if err != nil {
			return err
		}
		return l.Trim(topicName, 0, start+(end-start)/2)
	})
	forever(func() error {
		_, err := l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 1}, kafkaio.TopicSpec{Name: "other", Partitions: 1})
		return err
	})
	for r := range 4 {
		readers.Go(func() {
			c := kafkaio.NewCursor(l, kafkaio.CursorConfig{Topic: topicName, MaxBytes: 1 + 700*r})
			for next := int64(0); next < records; {
				b, err := c.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, s := range b.Skipped {
					if s.Reason != kafkaio.SkipLost || s.From != next {
						t.Errorf("got %+v, want only what was trimmed, from %d on", s, next)
						return
					}
					next = s.To + 1
				}
				for _, record := range b.Records {
					if want := fmt.Sprintf("value %03d", next); record.Offset != next || string(record.Value) != want {
						t.Errorf("got %q at offset %d, want %q at %d", record.Value, record.Offset, want, next)
						return
					}
					next++
				}
			}
		})
	}
	fill(t, l, 0, records)
	readers.Wait()
	stop()
	others.Wait()
}

// TestASegmentIsNotRemovedWhileItIsRead: the next Trim removes it.
func TestASegmentIsNotRemovedWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 60)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	_, p, err := l.find(topicName, 0)
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.openView(5)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Trim(topicName, 0, 40); err != nil || len(files(t, dir)) != 5 {
		t.Fatalf("got %d files, %v, want all 5", len(files(t, dir)), err)
	}
	again, err := p.openView(5)
	if err != nil {
		t.Fatal(err)
	}
	p.closeView(again)
	if _, b, err := v.find(5); err != nil || b.Base != 5 {
		t.Errorf("got %+v, %v, want the record", b, err)
	}
	p.closeView(v)
	if err := l.Trim(topicName, 0, 40); err != nil || len(files(t, dir)) != 2 {
		t.Errorf("got %d files, %v, want 2", len(files(t, dir)), err)
	}
}

// TestCloseAmidstCalls: Close waits for a Sync, and ends the others.
func TestCloseAmidstCalls(t *testing.T) {
	for range 20 {
		l, _ := openLog(t, t.TempDir(), 1<<20) // few files: one stays open until it is synced
		var calls sync.WaitGroup
		for _, call := range []func() error{
			l.Sync,
			func() error { return produce(t, l) },
			func() error { return l.Trim(topicName, 0, 10) },
			func() error {
				_, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, MaxWait: 1e12})
				return err
			},
		} {
			calls.Go(func() {
				for {
					if err := call(); errors.Is(err, kafkaio.ErrClosed) {
						return
					} else if _, trimmed := errors.AsType[*kafkaio.RangeError](err); err != nil && !trimmed {
						t.Error(err)
						return
					}
				}
			})
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
	}
}
