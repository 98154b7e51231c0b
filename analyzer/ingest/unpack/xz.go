package unpack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// ErrWindow says that compressed data asks for more than 128 MiB of memory. Test with errors.Is.
var ErrWindow = errors.New("asks for too much memory")

// minDictionary is the dictionary that the library takes at least, in bytes.
const minDictionary = 1 << 20

// Sizes of headers of blocks in the .xz format, 3.1, in bytes.
const (
	maxHeader = 1024
	lzma2     = 0x21 // the filter's number
	checksum  = 4    // at the end of the header
)

// xzReader reads .xz files.
type xzReader struct {
	io.Reader

	guard *windowGuard
}

func newXZ(r io.Reader) (io.Reader, error) {
	guard := &windowGuard{r: bufio.NewReaderSize(r, 64<<10)}
	made, err := xz.ReaderConfig{DictCap: minDictionary}.NewReader(bufio.NewReader(guard))
	if err != nil {
		return nil, err
	}
	return &xzReader{made, guard}, nil
}

// Read implements io.Reader. The library returns io.EOF also if a file is cut between two blocks, so that the footer is looked for
// here.
func (x *xzReader) Read(p []byte) (int, error) {
	n, err := x.Reader.Read(p)
	if errors.Is(err, io.EOF) && string(x.guard.last) != footer {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// footer is the end of an .xz file, apart from zeros that follow it.
const footer = "YZ"

// windowGuard passes the bytes of an .xz file on up to the first header of a block with a dictionary of more than maxWindow.
// The library would allocate up to 4 GiB for it: its DictCap is a minimum.
//
// The guard does not follow the structure of the file. A hostile file could make its idea of the structure differ from the
// library's, because the library leaves bytes of a damaged chunk unread. So it looks for such a header at each byte. Its
// checksum, of 32 bits, tells it from data that looks alike.
type windowGuard struct {
	r    *bufio.Reader
	ok   int    // how many of the buffered bytes may be passed on
	at   int64  // how many were
	last []byte // of these: the last len(footer), without zeros behind them
	err  error  // what follows them; nil is more
}

func (g *windowGuard) Read(p []byte) (int, error) {
	if g.ok == 0 && g.err == nil {
		g.check()
	}
	if g.ok == 0 {
		return 0, g.err
	}
	n, err := g.r.Read(p[:min(len(p), g.ok)])
	g.ok -= n
	g.at += int64(n)
	if end := bytes.TrimRight(p[:n], "\x00"); len(end) > 0 {
		g.last = append(g.last, end[max(0, len(end)-len(footer)):]...)
		g.last = g.last[max(0, len(g.last)-len(footer)):]
	}
	return n, err
}

// check looks for headers in the bytes that come next, and sets ok or err.
func (g *windowGuard) check() {
	next, err := g.r.Peek(2 * maxHeader)
	if err == nil && g.r.Buffered() > len(next) {
		next, err = g.r.Peek(g.r.Buffered())
	}
	begins := len(next) - maxHeader // a header that begins before it is here as a whole
	if err != nil {
		begins = len(next)
		g.err = err
	}
	for g.ok = 0; g.ok < begins; g.ok++ {
		if size := dictionary(next[g.ok:]); size > maxWindow {
			g.err = fmt.Errorf("%w: got a dictionary of %d MiB in the block at byte %d, want at most %d MiB; xz -dc reads it",
				ErrWindow, size>>20, g.at+int64(g.ok), maxWindow>>20)
			return
		}
	}
}

// dictionary returns the size of the dictionary that the header of a block at the start of b says, or 0 if there is no such header.
// The numbers in it may be longer than they need to be, as the library reads them.
func dictionary(b []byte) int64 {
	if len(b) < 8 || b[0] == 0 || b[1]&0x3f != 0 { // reserved flags, and more filters than the library knows
		return 0
	}
	header := b[:min(len(b), 4*(int(b[0])+1))]
	at := 2
	for _, present := range []bool{b[1]&0x40 != 0, b[1]&0x80 != 0} { // the sizes, compressed and not
		if !present {
			continue
		}
		_, n := binary.Uvarint(header[at:])
		if n <= 0 {
			return 0
		}
		at += n
	}
	filter, n := binary.Uvarint(header[at:])
	if at += n; n <= 0 || filter != lzma2 || at+2+checksum > len(header) || header[at] != 1 {
		return 0
	}
	size, err := lzma.DecodeDictCap(header[at+1])
	if err != nil || size <= maxWindow {
		return size
	}
	end := len(header) - checksum
	if crc32.ChecksumIEEE(header[:end]) != binary.LittleEndian.Uint32(header[end:]) {
		return 0
	}
	return size
}
