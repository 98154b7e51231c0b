package feed_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
)

// onSocket serves a feed of a board on a Unix socket, and returns an answer that begins.
func onSocket(b *testing.B, of *board.Board) io.ReadCloser {
	b.Helper()
	path := filepath.Join(b.TempDir(), "feed")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	s := feed.New(feed.Options{Board: of})
	server := httptest.NewUnstartedServer(s)
	server.Listener = l
	server.Start()
	b.Cleanup(func() { s.Close(); server.Close() })
	c, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET "+feed.PathClosed+" HTTP/1.0\r\n\r\n"); err != nil { // of version 1.0, so that it is not in chunks
		b.Fatal(err)
	}
	return c
}

// BenchmarkStart is how long it takes until a reader has a million closures: bar 2 s.
func BenchmarkStart(b *testing.B) {
	const closures = 1_000_000
	of := board.New(board.Options{})
	of.Resize(1)
	for i := range closures {
		of.Apply([]schemas.Decision{closing(fmt.Sprintf("203.%d.%d.%d", i>>16, i>>8&255, i&255))}, time.Now())
	}
	of.Loaded(0)
	buffer := make([]byte, 1<<20)
	for b.Loop() {
		c := onSocket(b, of)
		for lines, tail := 0, []byte(nil); ; {
			n, err := c.Read(buffer)
			if err != nil {
				b.Fatal(err)
			}
			lines += bytes.Count(buffer[:n], []byte{'\n'})
			if tail = append(tail, buffer[max(0, n-200):n]...); bytes.Contains(tail, []byte(`{"type":"current"`)) {
				break
			}
			tail = slices.Clone(tail[max(0, len(tail)-200):])
		}
		_ = c.Close()
	}
}

// BenchmarkChange is the time from a change of the board until a reader has it: bar 5 ms.
func BenchmarkChange(b *testing.B) {
	of := board.New(board.Options{})
	of.Resize(1)
	of.Loaded(0)
	c := onSocket(b, of)
	defer c.Close()
	buffer := make([]byte, 1<<16)
	await := func(text string) {
		for {
			n, err := c.Read(buffer)
			if err != nil {
				b.Fatal(err)
			}
			if bytes.Contains(buffer[:n], []byte(text)) {
				return
			}
		}
	}
	await(`{"type":"current"`)
	for i := 0; b.Loop(); i++ {
		of.Apply([]schemas.Decision{closing(fmt.Sprint(i % 1000)), opening(fmt.Sprint((i + 1) % 1000))}, time.Now())
		await(fmt.Sprintf(`"id":"%d"`, i%1000))
	}
}
