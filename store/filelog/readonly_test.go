package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

func openReader(t *testing.T, dir string) *Reader {
	t.Helper()
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// tree returns the names, times and contents of all that is in a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.ModTime(), info.Size())
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%x\n", data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAReaderChangesNothing: whatever the end of the log is like, a Reader reads what Open would leave of it, and leaves all as it is.
func TestAReaderChangesNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(t *testing.T, dir string)
	}{
		{"whole", func(*testing.T, string) {}},
		{"half a batch", func(t *testing.T, dir string) {
			t.Helper()
			all := files(t, dir)
			edit(t, all[len(all)-1], func(b []byte) []byte { return b[:len(b)-5] })
		}},
		{"zeros behind it", func(t *testing.T, dir string) {
			t.Helper()
			all := files(t, dir)
			edit(t, all[len(all)-1], func(b []byte) []byte { return append(b, make([]byte, 5000)...) })
		}},
		{"segments behind one that is not whole", func(t *testing.T, dir string) {
			t.Helper()
			edit(t, files(t, dir)[2], func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{"damage in what was synced", func(t *testing.T, dir string) {
			t.Helper()
			edit(t, files(t, dir)[0], func(b []byte) []byte { b[200] ^= 1; return b })
		}},
		{"the end of what was synced is missing", func(t *testing.T, dir string) {
			t.Helper()
			for _, path := range files(t, dir)[1:] {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			edit(t, files(t, dir)[0], func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{"no recovery points", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, pointsName)); err != nil {
				t.Fatal(err)
			}
		}},
		{"no segments", func(t *testing.T, dir string) {
			t.Helper()
			for _, path := range files(t, dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 1000, 20, 60)
			test.edit(t, dir)
			before := tree(t, dir)
			r := openReader(t, dir)
			start, end, err := r.Range(t.Context(), topicName, 0)
			if n, counted := r.Partitions(t.Context(), topicName); err != nil || counted != nil || n != 1 {
				t.Fatalf("got %d partitions, %v, %v, want 1", n, counted, err)
			}
			got := contents(t, r, 0)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if tree(t, dir) != before {
				t.Error("got a change of the directory, want none")
			}
			l, _ := openLog(t, dir, 1000)
			wantStart, wantEnd, err := l.Range(t.Context(), topicName, 0)
			if err != nil || start != wantStart || end != wantEnd {
				t.Errorf("got offsets %d to %d, want %d to %d, %v", start, end, wantStart, wantEnd, err)
			}
			if want := contents(t, l, 0); got != want {
				t.Errorf("got %s, want %s, as Open leaves it", got, want)
			}
		})
	}
}

// TestAReaderOfNoLog makes none.
func TestAReaderOfNoLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if r, err := OpenReadOnly(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v, want fs.ErrNotExist", r, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it was not made", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openReader(t, dir).Partitions(t.Context(), topicName); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("an empty directory: got %v, want ErrNoTopic", err)
	}
}

// TestWhatIsTrimmedIsLostForAReader: it passes over the segments that are gone, reads the others, and does not see what was appended.
func TestWhatIsTrimmedIsLostForAReader(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 100)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, dir)
	list, err := l.Segments(topicName, 0)
	if err != nil || len(list) != 9 || list[1].Base != 12 {
		t.Fatalf("got %+v, %v, want 9 segments of 12 records", list, err)
	}
	if err := l.Trim(topicName, 0, 48); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(t, r, 5), "!5-11 !12-23 !24-35 !36-47 48-99"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	fill(t, l, 100, 130)
	if err := l.Trim(topicName, 0, 120); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(t, r, kafkaio.Earliest), "!48-59 !60-71 !72-83 !84-95 96-99"; got != want {
		t.Errorf("got %s, want %s: all but the segment that was the last", got, want)
	}
}

// TestAReaderBesideAWriter: readers come at any moment while another Log appends, rolls, syncs and trims. Each reads a part of the log
// without a gap, in which all is that was there when it was opened, but for what was trimmed.
func TestAReaderBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 2000)
	var produced atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: fmt.Appendf(nil, "value %03d", i)})
			produced.Add(1)
			if i%150 == 149 {
				err = errors.Join(err, l.Sync(), l.Trim(topicName, 0, int64(i)-200))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	lost := 0
	for range 300 {
		before := produced.Load()
		r := openReader(t, dir)
		start, end, err := r.Range(t.Context(), topicName, 0)
		if err != nil || end < before || end < start {
			t.Fatalf("got offsets %d to %d, %v, want the %d records that were there", start, end, err, before)
		}
		next := start
		c := kafkaio.NewCursor(r, kafkaio.CursorConfig{Topic: topicName, Offset: start, MaxWait: -1, MaxBytes: 500, Retry: kafkaio.Never})
		err = c.Scan(t.Context(), end, func(b *kafkaio.Batch) error {
			for _, s := range b.Skipped {
				if s.Reason != kafkaio.SkipLost || s.From != next {
					return fmt.Errorf("got %+v, want offset %d", s, next)
				}
				next = s.To + 1
				lost++
			}
			for _, record := range b.Records {
				if want := fmt.Sprintf("value %03d", record.Offset); string(record.Value) != want || record.Offset != next {
					return fmt.Errorf("got %q at offset %d, want %q at %d", record.Value, record.Offset, want, next)
				}
				next++
			}
			return nil
		})
		if err = errors.Join(err, r.Close()); err != nil || next != end {
			t.Fatalf("got up to %d of %d to %d, %v, want all", next, start, end, err)
		}
	}
	t.Logf("%d records; %d times some were trimmed while they were read", produced.Load(), lost)
}
