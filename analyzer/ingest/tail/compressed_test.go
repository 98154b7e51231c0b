package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestACompressedFileIsNamed: with Once, the compression is the error, and no line of it counts. A follower that goes on logs it once
// and reads on: a client that chooses how a log starts cannot stop it.
func TestACompressedFileIsNamed(t *testing.T) {
	for want, start := range map[string]string{
		"xz": "\xfd7zXZ\x00", "zstd": "\x28\xb5\x2f\xfd", "gzip": "\x1f\x8b\x08", "bzip2": "BZh91AY&SY", "": "BZh9 what a client wrote",
	} {
		t.Run(want, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "access.log")
			if err := os.WriteFile(path, []byte(start+" more\nb\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := OpenPositions(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			a := newAnalyzer()
			f := &Follower{
				Path: path, Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Once: true,
				Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
			}
			err = f.Run(t.Context())
			if want == "" {
				if err != nil || len(a.counted()) != 2 {
					t.Errorf("got %q, %v", a.counted(), err)
				}
				return
			}
			if !errors.Is(err, ErrCompressed) || !strings.Contains(err.Error(), path+" is compressed by "+want) || len(a.counted()) > 0 {
				t.Errorf("got %q, %v, want %v by %s", a.counted(), err, ErrCompressed, want)
			}
		})
	}
}

// TestAFollowerGoesOnWithACompressedStart: it says so once.
func TestAFollowerGoesOnWithACompressedStart(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		p, err := OpenPositions(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var log bytes.Buffer
		a, ended := newAnalyzer(), make(chan error, 1)
		f := &Follower{
			Path: s.path, Positions: p, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- f.run(ctx) }()
		s.write("BZh91AY&SY\n")
		pass(time.Second)
		s.write("b\n")
		pass(time.Second)
		stop()
		if err := <-ended; err != nil || strings.Join(a.counted(), " ") != "BZh91AY&SY b" {
			t.Errorf("got %q, %v", a.counted(), err)
		}
		said := fmt.Sprintf("level=ERROR msg=\"log looks compressed, reading it as plain text\" path=%s compression=bzip2", s.path)
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("got %d times %q, want once:\n%s", n, said, log.String())
		}
	})
}

// TestCompressedLogsThatCannotBeRead: what is in them is lost if it was not read before, and that is said. The log at the path goes on.
func TestCompressedLogsThatCannotBeRead(t *testing.T) {
	for _, ending := range []string{".xz", ".zip", ".lz4"} {
		story(t, func(t *testing.T, dir string, s *server) {
			a := newAnalyzer()
			l := live(t, a, dir, s.path)
			s.write("a\n")
			pass(time.Second)
			l.end()
			s.write("b\n")
			if err := os.WriteFile(s.path+".1"+ending, []byte("\xfd7zXZ\x00 of a and b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(s.path); err != nil {
				t.Fatal(err)
			}
			s.reopen()
			s.write("the first of the next one\n")
			l = live(t, a, dir, s.path)
			pass(3 * time.Second)
			l.expect("a", "the first of the next one")
			l.end()
			if l.lost != 2 {
				t.Errorf("%s: got %d logs lost, want the one that was read before, and the one that cannot be read", ending, l.lost)
			}
		})
	}
}
