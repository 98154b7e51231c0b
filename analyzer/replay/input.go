package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Input is one log. Reader gives its bytes, plain or gzip (also several gzip members in a row); Run reads it from one
// goroutine and does not close it.
type Input struct {
	Name   string // for errors
	Reader io.Reader
}

// magic is how gzip data starts (RFC 1952, 2.3.1).
const magic = "\x1f\x8b"

// open returns a reader of the plain text of r. Each read of r is reported to progress, if there is one.
func open(r io.Reader, progress func(int64)) (io.Reader, error) {
	if progress != nil {
		r = &meter{r, progress}
	}
	b := bufio.NewReaderSize(r, 64<<10)
	start, err := b.Peek(len(magic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(start) != magic {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("read gzip header: %w", err)
	}
	return z, nil
}

// meter reports how much was read of what is below.
type meter struct {
	r        io.Reader
	progress func(int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.progress(int64(n))
	return n, err
}
