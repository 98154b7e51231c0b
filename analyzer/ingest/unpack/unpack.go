package unpack

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a stream may ask for, in bytes. xz -9 asks for half of it, and zstd --ultra --long for all.
const maxWindow = 128 << 20

// MaxMagic is how many bytes tell the compression.
const MaxMagic = 10

// compression is a way to compress logs, found by how its data starts.
type compression struct {
	name  string
	magic func(start []byte) bool
	open  func(*bufio.Reader) (io.Reader, error)
}

// compressions returns the known ones: RFC 1952, 2.3.1; bzip2; the .xz format, 2.1.1.1; RFC 8878, 3.1.1.
func compressions() []compression {
	return []compression{
		{"gzip", starts("\x1f\x8b"), func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
		{"bzip2", bzipped, func(r *bufio.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
		{"xz", starts("\xfd7zXZ\x00"), func(r *bufio.Reader) (io.Reader, error) {
			return newXZ(r)
		}},
		{"zstd", starts("\x28\xb5\x2f\xfd"), func(r *bufio.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		}},
	}
}

func starts(magic string) func([]byte) bool {
	return func(start []byte) bool { return bytes.HasPrefix(start, []byte(magic)) }
}

// bzipped reports whether data that starts so is bzip2: its head, and then a block or the end of the stream.
func bzipped(start []byte) bool {
	const head, block, end = "BZh", "1AY&SY", "\x17\x72\x45\x38\x50\x90"
	if len(start) < MaxMagic || string(start[:len(head)]) != head || start[3] < '1' || start[3] > '9' {
		return false
	}
	next := string(start[len(head)+1 : MaxMagic])
	return next == block || next == end
}

// Name returns how data that starts so is compressed, or "" for plain text. It needs the first MaxMagic bytes, or all if there are
// fewer.
func Name(start []byte) string {
	for _, c := range compressions() {
		if c.magic(start) {
			return c.name
		}
	}
	return ""
}

// NewReader returns a reader of the plain text of r. Its errors, and those of the reader, name the compression and the byte of
// the compressed data near which reading stopped. They wrap io.ErrUnexpectedEOF for data that is cut short, and ErrWindow. An error
// of r itself is returned after the text that was read before it. One goroutine may use the reader.
func NewReader(r io.Reader) (io.Reader, error) {
	counted := &counter{r: r}
	b := bufio.NewReaderSize(counted, 64<<10)
	start, err := b.Peek(MaxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return io.MultiReader(bytes.NewReader(bytes.Clone(start)), failing{err}), nil // what was read counts
	}
	for _, c := range compressions() {
		if !c.magic(start) {
			continue
		}
		u := &reader{name: c.name, counted: counted, buffer: b}
		if u.r, err = c.open(b); err != nil {
			return nil, u.explain(err)
		}
		return u, nil
	}
	return b, nil
}

// reader reads a compressed log.
type reader struct {
	name    string
	r       io.Reader
	counted *counter
	buffer  *bufio.Reader
}

func (u *reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.explain(err)
	}
	return n, err
}

// explain says what failed, and where.
func (u *reader) explain(err error) error {
	if errors.Is(err, io.EOF) { // also in a header
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s data is cut short: it ends at byte %d, want its end mark: %w", u.name, u.counted.n, err)
	}
	return fmt.Errorf("%s data cannot be read further, near its byte %d: %w", u.name, u.counted.n-int64(u.buffer.Buffered()), err)
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// failing is a reader that returns an error only.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
