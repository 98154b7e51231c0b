package tail

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/509da70d/floodgate/analyzer/ingest/unpack"
)

// packing says what the ending of a name says about a file: whether it is compressed, and whether package unpack reads that.
func packing(name string) (packed, readable bool) {
	ending := filepath.Ext(name)
	readable = slices.Contains([]string{".gz", ".bz2", ".xz", ".zst"}, ending)
	return readable || slices.Contains([]string{".lz4", ".zip", ".Z", ".lzma"}, ending), readable
}

// replayable is how many bytes of the text of a compressed log can be read again at once. A reader goes back by less: one window and one
// room.
const replayable = window + bufferSize

// packedFile is the text of a compressed file. Reading is fast where it goes on from the last place.
type packedFile struct {
	file file
	size int64 // of the text
	r    io.Reader
	at   int64  // how far the text was read
	past []byte // what was read last, at least replayable bytes
}

// openPacked returns the text of a compressed file. It reads all of it once. The error wraps io.ErrUnexpectedEOF if the file is not whole: it
// may still be being written.
func openPacked(f file) (*packedFile, error) {
	p := &packedFile{file: f}
	if err := p.rewind(); err != nil {
		return nil, err
	}
	n, err := io.Copy(io.Discard, p.r)
	if err != nil {
		return nil, err
	}
	p.size = n
	return p, p.rewind()
}

func (p *packedFile) rewind() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	r, err := unpack.NewReader(io.NewSectionReader(p.file, 0, info.Size()))
	if err != nil {
		return err
	}
	p.r, p.at, p.past = r, 0, p.past[:0]
	return nil
}

// ReadAt implements io.ReaderAt for one goroutine.
func (p *packedFile) ReadAt(b []byte, offset int64) (n int, err error) {
	if offset < p.at-int64(len(p.past)) {
		if err := p.rewind(); err != nil {
			return 0, err
		}
	}
	for p.at < min(offset+int64(len(b)), p.size) {
		if keep := p.at - max(offset, 0); len(p.past) > 2*replayable { // all from offset on must stay
			p.past = slices.Delete(p.past, 0, len(p.past)-int(max(replayable, keep)))
		}
		p.past = slices.Grow(p.past, 64<<10)
		n, err := p.r.Read(p.past[len(p.past):cap(p.past)])
		p.past, p.at = p.past[:len(p.past)+n], p.at+int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if err != nil {
			break
		}
	}
	if offset >= p.at {
		return 0, io.EOF
	}
	n = copy(b, p.past[offset-(p.at-int64(len(p.past))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Stat returns what is known of the compressed file, with the size of its text.
func (p *packedFile) Stat() (os.FileInfo, error) {
	info, err := p.file.Stat()
	return packedInfo{info, p.size}, err
}

// Close closes the compressed file.
func (p *packedFile) Close() error { return p.file.Close() }

type packedInfo struct {
	os.FileInfo

	size int64
}

func (i packedInfo) Size() int64 { return i.size }

// onlyFile returns what the disk says of a file, compressed or not.
func onlyFile(info os.FileInfo) os.FileInfo {
	if p, ok := info.(packedInfo); ok {
		return p.FileInfo
	}
	return info
}
