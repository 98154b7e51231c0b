package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// echo is a scanner that takes each line for the id of a caller, cut to 20 bytes and its length behind.
type echo struct{}

func (echo) Headed() bool              { return false }
func (e echo) Scanner() ingest.Scanner { return e }

func (echo) Scan(line []byte, l *ingest.Line) ingest.Reason {
	if len(line) == 0 {
		return ingest.Empty
	}
	l.IDs = append(l.IDs[:0], string(line[:min(20, len(line))]))
	l.Cost = int64(len(line))
	return ingest.OK
}

// linesOf returns what a source with blocks of that size makes of an input.
func linesOf(t interface {
	Helper()
	Fatal(...any)
}, r io.Reader, size int) (lines []string, sum Summary, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	sum.RejectedByReason = map[string]int64{}
	s, work := newSource(Input{"log", r}, size), make(chan *block)
	var all sync.WaitGroup
	all.Go(func() { s.read(ctx, work, nil) })
	all.Go(func() { scanAll(ctx, echo{}, work) })
	err = merge(ctx, []*source{s}, &sum, func(l *ingest.Line) error {
		lines = append(lines, l.IDs[0])
		return nil
	})
	stop()
	all.Wait()
	return lines, sum, err
}

func TestBlocksCutNoLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,19}`), 0, 60).Draw(t, "lines")
		text := strings.Join(want, "\n")
		if rapid.Bool().Draw(t, "ends in a newline") && text != "" {
			text += "\n"
		}
		var r io.Reader = strings.NewReader(text)
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 1:
			r = iotest.OneByteReader(r)
		case 2:
			r = iotest.DataErrReader(r)
		case 3:
			r = bytes.NewReader(zip(t, text[:len(text)/2], text[len(text)/2:]))
		}
		got, sum, err := linesOf(t, r, rapid.IntRange(20, 80).Draw(t, "size"))
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") || sum.Lines != int64(len(want)) {
			t.Fatalf("%q: got %q, %+v, %v", text, got, sum, err)
		}
	})
}

// zip returns each part as a gzip member.
func zip(t interface{ Fatal(...any) }, parts ...string) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, p); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestALineLongerThanABlockIsOneLine(t *testing.T) {
	long := strings.Repeat("x", 10*minBlockSize)
	for name, text := range map[string]string{
		"middle": "a\n" + long + "\nb\n", "first": long + "\nb\n", "last": "a\n" + long, "alone": long, "twice": long + "\n" + long + "\nb",
		"just a block": strings.Repeat("x", minBlockSize) + "\nb", "block and newline": strings.Repeat("x", minBlockSize-1) + "\nb",
		"cut at the newline": strings.Repeat("x", minBlockSize-2) + "\nb",
	} {
		want := strings.Split(strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(text, long, "X"), strings.Repeat("x", 20), "x"), "\n"), "\n")
		got, sum, err := linesOf(t, strings.NewReader(text), minBlockSize)
		if err != nil || len(got) != len(want) || sum.Lines != int64(len(want)) {
			t.Errorf("%s: got %d lines, %+v, %v, want %d", name, len(got), sum, err, len(want))
			continue
		}
		for i, w := range want {
			if got[i][0]|0x20 != w[0]|0x20 {
				t.Errorf("%s: line %d is %.10q", name, i, got[i])
			}
		}
	}
}

func TestAnInputThatFailsCountsUpToThere(t *testing.T) {
	boom := errors.New("disk on fire")
	got, _, err := linesOf(t, io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(boom)), 100)
	if !errors.Is(err, boom) || len(got) != 2 {
		t.Errorf("got %q, %v", got, err)
	}
	zipped := zip(t, "a\nb\n"+strings.Repeat("some text that makes a few blocks\n", 1000))
	got, _, err = linesOf(t, bytes.NewReader(zipped[:len(zipped)-4]), 1000)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 1002 {
		t.Errorf("gzip cut short: got %d lines, %v", len(got), err)
	}
	if _, _, err = linesOf(t, strings.NewReader("\x1f\x8bnonsense"), 100); err == nil || !strings.Contains(err.Error(), "log: ") {
		t.Errorf("no gzip after all: got %v", err)
	}
	if got, _, err = linesOf(t, iotest.ErrReader(boom), 100); !errors.Is(err, boom) || len(got) != 0 {
		t.Errorf("nothing to read: got %q, %v", got, err)
	}
	if got, _, err = linesOf(t, strings.NewReader(""), 100); err != nil || len(got) != 0 {
		t.Errorf("empty: got %q, %v", got, err)
	}
	if got, _, err = linesOf(t, strings.NewReader("\x1f"), 100); err != nil || len(got) != 1 {
		t.Errorf("half of the magic: got %q, %v", got, err)
	}
}
