package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

const topicName = "t"

// openLog opens a log of one partition, and returns what it says.
func openLog(t *testing.T, dir string, segment int64) (*Log, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	l, err := Open(dir, Options{SegmentBytes: segment, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if _, err := l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	return l, &said
}

// fill appends records from to to-1, each of a batch of its own, whose values are their offsets.
func fill(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if base, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: fmt.Appendf(nil, "value %03d", i)}); err != nil || base != int64(i) {
			t.Fatalf("got offset %d, %v, want %d", base, err, i)
		}
	}
}

// writeLog makes a log of count records, of which the first are synced, and closes it.
func writeLog(t *testing.T, dir string, segment int64, synced, count int) {
	t.Helper()
	l, _ := openLog(t, dir, segment)
	fill(t, l, 0, synced)
	err := l.Sync()
	fill(t, l, synced, count)
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
}

// contents returns what a Cursor reads from an offset on, as "0-99 !100-120 121-200", where ! was passed over.
func contents(t *testing.T, l kafkaio.Fetcher, from int64) string {
	t.Helper()
	c := kafkaio.NewCursor(l, kafkaio.CursorConfig{Topic: topicName, Offset: from, MaxWait: -1, MaxBytes: 700, CorruptTries: 1})
	var parts []string
	first, last := int64(-1), int64(-1)
	end := func() {
		if first >= 0 {
			parts = append(parts, fmt.Sprintf("%d-%d", first, last))
		}
		first = -1
	}
	for {
		b, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Records)+len(b.Skipped) == 0 {
			end()
			return strings.Join(parts, " ")
		}
		for _, s := range b.Skipped {
			end()
			parts = append(parts, fmt.Sprintf("!%d-%d", s.From, s.To))
		}
		for _, r := range b.Records {
			if want := fmt.Sprintf("value %03d", r.Offset); string(r.Value) != want {
				t.Fatalf("got %q at offset %d, want %q", r.Value, r.Offset, want)
			}
			if first < 0 {
				first = r.Offset
			}
			last = r.Offset
		}
	}
}

// files returns the segments of the partition, the oldest first.
func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, topicName+"-0", "*.log"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	return found
}

func edit(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWhatWasNeverSyncedIsCutOff: a batch that is only partly there ends the log, and the offset is used again.
func TestWhatWasNeverSyncedIsCutOff(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func([]byte) []byte
	}{
		{"half a batch", func(b []byte) []byte { return b[:len(b)-5] }},
		{"half a header", func(b []byte) []byte { return b[:len(b)-75] }},
		{"zeros", func(b []byte) []byte { clear(b[len(b)-40:]); return b }},
		{"zeros behind it", func(b []byte) []byte { clear(b[len(b)-40:]); return append(b, make([]byte, 5000)...) }},
		{"a hole before it", func(b []byte) []byte { // the page before the last batch did not reach the disk
			clear(b[len(b)-100 : len(b)-80])
			return b
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 1<<20, 50, 100)
			edit(t, files(t, dir)[0], test.edit)
			l, said := openLog(t, dir, 1<<20)
			_, end, err := l.Range(t.Context(), topicName, 0)
			if err != nil || end < 98 || end > 99 {
				t.Fatalf("got end %d, %v, want 98 or 99", end, err)
			}
			if !strings.Contains(said.String(), "cut off the end of the log") {
				t.Errorf("got %q, want it said", said)
			}
			fill(t, l, int(end), 120)
			if got := contents(t, l, 0); got != "0-119" {
				t.Errorf("got %s, want all", got)
			}
		})
	}
}

// TestASegmentCountsOnlyBehindAWholeOne: power was lost while two segments were not synced, and only the newer one reached the disk whole.
func TestASegmentCountsOnlyBehindAWholeOne(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1000, 5, 40)
	segments := files(t, dir)
	edit(t, segments[1], func(b []byte) []byte { return b[:len(b)/2] })
	l, said := openLog(t, dir, 1000)
	_, end, err := l.Range(t.Context(), topicName, 0)
	if err != nil || end >= 40 || len(files(t, dir)) != 2 {
		t.Fatalf("got end %d, %v and %d files, want the end within the second of 2", end, err, len(files(t, dir)))
	}
	if !strings.Contains(said.String(), "removed a part of the log") {
		t.Errorf("got %q, want it said", said)
	}
	fill(t, l, int(end), 60)
	if got := contents(t, l, 0); got != "0-59" {
		t.Errorf("got %s, want all", got)
	}
}

// TestDamageHidesNothingBehindIt: wherever a bit flips in what was synced, all records are read but those of the batch that it is in.
func TestDamageHidesNothingBehindIt(t *testing.T) {
	origin := t.TempDir()
	l, _ := openLog(t, origin, 1200)
	fill(t, l, 0, 40)
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	for n, path := range files(t, origin) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += 29 {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
				t.Fatal(err)
			}
			damaged := files(t, dir)[n]
			edit(t, damaged, func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b })
			l, _ := openLog(t, dir, 1200)
			got := contents(t, l, 0)
			var from, to int64
			if _, err := fmt.Sscanf(got[strings.Index(got+"!", "!"):], "!%d-%d", &from, &to); at%batchBytes >= 12 && at%batchBytes < 16 && err != nil {
				continue // the epoch of the leader: nothing reads it
			} else if err != nil || from != to {
				t.Fatalf("bit flipped at byte %d of %s: got %s, want one record missing", at, filepath.Base(damaged), got)
			}
			_, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: from})
			if c, ok := errors.AsType[*kafkaio.CorruptError](err); !ok || !strings.Contains(c.Detail, damaged+": damaged at byte ") {
				t.Fatalf("got %v, want the file %s and the byte", err, damaged)
			}
			if _, end, err := l.Range(t.Context(), topicName, 0); err != nil || end != 40 {
				t.Fatalf("got end %d, %v, want 40", end, err)
			}
			fill(t, l, 40, 45)
			if got := contents(t, l, 40); got != "40-44" {
				t.Fatalf("got %s, want what was appended", got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAWrongOffsetIsDamage: no checksum covers the offset of a batch.
func TestAWrongOffsetIsDamage(t *testing.T) {
	for bit := range 8 {
		dir := t.TempDir()
		writeLog(t, dir, 1<<20, 300, 300)
		edit(t, files(t, dir)[0], func(b []byte) []byte { b[5*batchBytes+7] ^= 1 << bit; return b })
		l, _ := openLog(t, dir, 1<<20)
		if got := contents(t, l, 0); got != "0-4 !5-5 6-299" {
			t.Errorf("bit %d: got %s, want one record missing", bit, got)
		}
	}
}

// batchBytes is how long the batch of a record "value 007" is.
const batchBytes = 77

// TestNoOffsetIsUsedTwice: the end of the log is missing, though it was synced.
func TestNoOffsetIsUsedTwice(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1<<20, 20, 20)
	edit(t, files(t, dir)[0], func(b []byte) []byte { return b[:len(b)/2] })
	for range 2 { // nothing is written, so nothing is forgotten
		l, said := openLog(t, dir, 1<<20)
		if !strings.Contains(said.String(), "the end of the log is missing") {
			t.Errorf("got %q, want it said", said)
		}
		if _, end, err := l.Range(t.Context(), topicName, 0); err != nil || end != 20 {
			t.Fatalf("got end %d, %v, want 20", end, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l, _ := openLog(t, dir, 1<<20)
	fill(t, l, 20, 30)
	if got := contents(t, l, 0); got != "0-9 !10-19 20-29" && got != "0-8 !9-19 20-29" {
		t.Errorf("got %s, want a gap in the middle", got)
	}
}

// TestTrimRemovesWholeSegments: what is before the offset goes, and readers are told what is left.
func TestTrimRemovesWholeSegments(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 100)
	if err := l.Trim(topicName, 0, 100); err != nil || !strings.HasPrefix(contents(t, l, 0), "0-") {
		t.Fatalf("got %s, %v, want all that was never synced", contents(t, l, 0), err)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	list, err := l.Segments(topicName, 0)
	if err != nil || len(list) < 4 || list[1].Base != list[0].Next || list[0].Bytes == 0 || list[0].Changed.IsZero() {
		t.Fatalf("got %+v, %v, want some segments", list, err)
	}
	if err := l.Trim(topicName, 0, list[2].Next-1); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(t, l, 0), fmt.Sprintf("!0-%d %d-99", list[2].Base-1, list[2].Base); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := l.Trim(topicName, 0, 1000); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 100, 101)
	if n := len(files(t, dir)); n > 2 {
		t.Errorf("got %d files, want the last, and perhaps the next", n)
	}
}

// TestNothingBeginsBehindAGap: power was lost before the first Sync, and the first of two segments did not reach the disk.
func TestNothingBeginsBehindAGap(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 20)
	if err := errors.Join(l.Close(), os.Remove(files(t, dir)[0])); err != nil {
		t.Fatal(err)
	}
	l, _ = openLog(t, dir, 1000)
	if start, end, err := l.Range(t.Context(), topicName, 0); start != 0 || end != 0 || err != nil {
		t.Errorf("got %d to %d, %v, want nothing", start, end, err)
	}
	fill(t, l, 0, 20)
	if got := contents(t, l, 0); got != "0-19" {
		t.Errorf("got %s, want all", got)
	}
}

// TestAKillLosesNothing: not even what was appended when the recovery point was at the end of a segment.
func TestAKillLosesNothing(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	for i := range 5 {
		fill(t, l, 12*i, 12*i+12) // a segment
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, _ = openLog(t, dir, 1000)
	}
	fill(t, l, 60, 100)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, said := openLog(t, dir, 1000)
	if got := contents(t, l, 0); got != "0-99" || said.Len() > 0 {
		t.Errorf("got %s and %q, want all", got, said)
	}
}

// TestNobodyWaitsBehindTheEnd: an offset that is not there yet, and is not the next one, was lost.
func TestNobodyWaitsBehindTheEnd(t *testing.T) {
	l, _ := openLog(t, t.TempDir(), 0)
	fill(t, l, 0, 3)
	_, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: 4, MaxWait: time.Hour})
	if r, ok := errors.AsType[*kafkaio.RangeError](err); !ok || r.End != 3 {
		t.Errorf("got %v, want the range", err)
	}
}

// TestCallsAfterClose: they say so.
func TestCallsAfterClose(t *testing.T) {
	l, _ := openLog(t, t.TempDir(), 0)
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Fetch(context.WithoutCancel(t.Context()), kafkaio.FetchRequest{Topic: topicName, MaxWait: 1e12})
		waiting <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, produced := l.Produce(t.Context(), topicName, 0, kafkaio.Message{})
	_, _, ranged := l.Range(t.Context(), topicName, 0)
	_, counted := l.Partitions(t.Context(), topicName)
	for _, err := range []error{<-waiting, produced, ranged, counted, l.Trim(topicName, 0, 1)} {
		if !errors.Is(err, kafkaio.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}

// batchOf returns a record batch of some values, whose first has an offset.
func batchOf(base int64, values ...string) []byte {
	var msgs []kafkaio.Message
	for _, v := range values {
		msgs = append(msgs, kafkaio.Message{Value: []byte(v)})
	}
	codec := kafkaio.NewBatchCodec()
	defer codec.Close()
	batch := codec.Append(nil, msgs)
	kafkaio.SetBase(batch, base)
	return batch
}

// noise returns bytes that cannot be packed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}
