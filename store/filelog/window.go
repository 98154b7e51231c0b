package filelog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	readAhead = 64 << 10 // bytes of a file that a window has in memory
	sector    = 4096     // bytes that a disk loses at once
	magicAt   = 16       // byte of a batch with the version of its format

	provenBytes = 4 * kafkaio.MaxMessage // longer than a batch
)

// window reads the batches of a file through a buffer.
type window struct {
	file  io.ReaderAt
	size  int64 // of the file, as far as it counts
	at    int64 // of the first byte in bytes
	bytes []byte

	unreadable error // of the disk, about a part that was taken for zeros; nil: all could be read
}

// from returns n bytes from a position on, up to readAhead, or fewer at the end of the file.
func (w *window) from(at, n int64) ([]byte, error) {
	n = min(n, readAhead, w.size-at)
	if n <= 0 {
		return nil, nil
	}
	if at < w.at || at+n > w.at+int64(len(w.bytes)) {
		length := min(readAhead, w.size-at)
		if int64(cap(w.bytes)) < length {
			w.bytes = make([]byte, length)
		}
		w.bytes, w.at = w.bytes[:length], at
		if err := w.fill(); err != nil {
			w.bytes = w.bytes[:0]
			return nil, err
		}
	}
	return w.bytes[at-w.at:][:n], nil
}

// fill reads the file. What the disk cannot read are zeros: a bad sector is damage, and must not stop readers for ever.
func (w *window) fill() error {
	err := readAt(w.file, w.bytes, w.at)
	if !errors.Is(err, syscall.EIO) {
		return err
	}
	w.unreadable = err
	for at, end := w.at, w.at+int64(len(w.bytes)); at < end; {
		next := min(at-at%sector+sector, end)
		part := w.bytes[at-w.at : next-w.at]
		if err = readAt(w.file, part, at); errors.Is(err, syscall.EIO) {
			clear(part)
		} else if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// readAt fills b from a byte of a file on.
func readAt(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at byte %d: got %d: %w", len(b), at, n, err)
}

// badBatch says why no batch begins at a byte.
type badBatch struct{ why error }

func (b *badBatch) Error() string { return b.why.Error() }

var (
	errTorn    = errors.New("the file ends within a batch")
	errNoBatch = &badBatch{errors.New("no batch")}
)

// isBad reports whether an error is about what was read, and not about reading.
func isBad(err error) bool {
	_, bad := errors.AsType[*badBatch](err)
	return bad
}

// headerAt returns the batch that begins at a byte, as its header says, and has the offset expected and none from end on.
func (w *window) headerAt(at, expected, end int64) (kafkaio.StoredBatch, error) {
	head, err := w.from(at, kafkaio.BatchHeaderBytes)
	switch {
	case err != nil:
		return kafkaio.StoredBatch{}, err
	case len(head) == 0:
		return kafkaio.StoredBatch{}, &badBatch{fmt.Errorf("the file ends before offset %d", expected)}
	case len(head) < kafkaio.BatchHeaderBytes:
		return kafkaio.StoredBatch{}, &badBatch{errTorn}
	}
	b, err := kafkaio.ReadBatchHeader(head)
	switch {
	case err != nil:
		return b, &badBatch{err}
	case b.Base != expected:
		return b, &badBatch{fmt.Errorf("got base offset %d, want %d", b.Base, expected)}
	case b.Last >= end:
		return b, &badBatch{fmt.Errorf("got last offset %d, want it before %d, where the next file begins", b.Last, end)}
	case at+b.Bytes > w.size:
		return b, &badBatch{errTorn}
	}
	return b, nil
}

// batchAt is headerAt for a batch whose checksum is right. An error that is no *badBatch is one of reading.
func (w *window) batchAt(at, expected, end int64) (kafkaio.StoredBatch, error) {
	b, err := w.headerAt(at, expected, end)
	if err != nil {
		return b, err
	}
	sum := uint32(0)
	for done := int64(0); done < b.Bytes; {
		piece, err := w.from(at+done, b.Bytes-done)
		if err != nil {
			return b, err
		}
		sum = kafkaio.UpdateChecksum(sum, piece, done)
		done += int64(len(piece))
	}
	if sum != b.Checksum {
		return b, &badBatch{fmt.Errorf("got checksum %08x, want %08x", sum, b.Checksum)}
	}
	return b, nil
}

// resume looks behind a damage for the next batch whose offsets lie between expected and end. Without one, it returns the end of the file and
// the offset end. If the length of the damaged batch is right, the next one is where it says.
//
// Otherwise all bytes are looked at, also those within the messages of clients, who may send what looks like batches. So batches must follow each
// other to the end of the file, and to the offset end, or for longer than one batch is: there, those of a client end and the next real one begins
// with an offset that the client does not know.
func (w *window) resume(at, expected, end int64) (to, next int64, err error) {
	b, err := w.plausible(at, 0, math.MaxInt64)
	if err == nil {
		to = at + b.Bytes
		if b, err = w.plausible(to, expected, end); err == nil {
			_, err = w.batchAt(to, b.Base, end)
		}
	}
	if err == nil || !isBad(err) {
		return to, b.Base, err
	}
	for to = at + 1; to < w.size; to++ {
		base, err := w.proven(to, expected, end)
		if err == nil || !isBad(err) {
			return to, base, err
		}
	}
	return w.size, end, nil
}

// plausible returns the batch at a byte, of which only the header is read.
func (w *window) plausible(at, expected, end int64) (b kafkaio.StoredBatch, err error) {
	head, err := w.from(at, kafkaio.BatchHeaderBytes)
	if err != nil {
		return b, err
	}
	if len(head) < kafkaio.BatchHeaderBytes || head[magicAt] != 2 { // asked for each byte: the error below takes a hundred times as long
		return b, errNoBatch
	}
	b, err = kafkaio.ReadBatchHeader(head)
	if err != nil || b.Base < expected || b.Last >= end || at+b.Bytes > w.size {
		return b, errNoBatch
	}
	return b, nil
}

// proven returns the base offset of a batch that what follows shows to be one. The headers take less time than the checksum.
func (w *window) proven(at, expected, end int64) (base int64, err error) {
	b, err := w.plausible(at, expected, end)
	base = b.Base
	for behind := at; err == nil; {
		behind, expected = behind+b.Bytes, b.Last+1
		if behind-at > provenBytes || behind == w.size && expected == end {
			_, err = w.batchAt(at, base, end)
			break
		}
		b, err = w.headerAt(behind, expected, end)
	}
	return base, err
}
