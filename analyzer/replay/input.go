package replay

import (
	"io"

	"github.com/509da70d/floodgate/analyzer/ingest/unpack"
)

// Input is one log. Reader gives its bytes, plain or compressed by gzip, bzip2, xz or zstd (also several streams in a row);
// Run reads it from one goroutine and does not close it.
type Input struct {
	Name   string // for errors
	Reader io.Reader
}

// open returns a reader of the plain text of r. Each read of r is reported to progress, if there is one.
func open(r io.Reader, progress func(int64)) (io.Reader, error) {
	if progress != nil {
		r = &meter{r, progress}
	}
	return unpack.NewReader(r)
}

// meter reports the number of bytes of each read of a reader.
type meter struct {
	r        io.Reader
	progress func(int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.progress(int64(n))
	return n, err
}
