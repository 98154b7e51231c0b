package kafkaio

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression codecs, as the attributes of a batch number them.
const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

var errCodec = errors.New("batch does not unpack")

// unpacker turns the bytes of record batches into records, in bounded memory. Its methods are safe for concurrent use.
type unpacker struct {
	limit int   // bytes that one batch may take at once
	floor int64 // bytes that each batch may take in pieces, beside those that its length allows

	gzips, lz4s sync.Pool

	zstdOnce sync.Once
	zstd     *zstd.Decoder // set by zstdOnce
	zstdErr  error
}

func newUnpacker(limit int) *unpacker { return &unpacker{limit: limit, floor: unpackFloor} }

func (u *unpacker) close() {
	u.zstdOnce.Do(func() { u.zstdErr = ErrClosed })
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// decompress returns the unpacked content of packed, or ErrDecompressedTooLarge as soon as it knows that this is over limit
// bytes. It takes at most limit bytes of memory and the codec's window, which is under 16 MiB.
func (u *unpacker) decompress(codec int, packed []byte, limit int) ([]byte, error) {
	switch codec {
	case codecNone:
		if len(packed) > limit {
			return nil, fmt.Errorf("%w: got %d bytes, want up to %d", ErrDecompressedTooLarge, len(packed), limit)
		}
		return packed, nil
	case codecGzip:
		return u.gunzip(packed, limit)
	case codecSnappy:
		return unsnap(packed, limit)
	case codecLZ4:
		return u.unlz4(packed, limit)
	case codecZstd:
		return u.unzstd(packed, limit)
	}
	return nil, fmt.Errorf("%w: got unknown codec %d", errCodec, codec)
}

func (u *unpacker) gunzip(packed []byte, limit int) ([]byte, error) {
	z, _ := u.gzips.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	defer u.gzips.Put(z)
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		return nil, fmt.Errorf("%w: %w", errCodec, err)
	}
	return readLimited(z, len(packed), limit)
}

func (u *unpacker) unlz4(packed []byte, limit int) ([]byte, error) {
	z, _ := u.lz4s.Get().(*lz4.Reader)
	if z == nil {
		z = lz4.NewReader(nil)
	}
	defer u.lz4s.Put(z)
	z.Reset(bytes.NewReader(packed))
	return readLimited(z, len(packed), limit)
}

// zstdWindow is more than any Kafka client uses by default (8 MiB at zstd's level 19).
const zstdWindow = 8 << 20

func (u *unpacker) unzstd(packed []byte, limit int) ([]byte, error) {
	u.zstdOnce.Do(func() {
		u.zstd, u.zstdErr = zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdWindow),
			zstd.WithDecoderMaxMemory(uint64(u.limit)), zstd.WithDecoderLowmem(true))
	})
	if u.zstdErr != nil {
		return nil, fmt.Errorf("%w: %w", errCodec, u.zstdErr)
	}
	out, err := u.zstd.DecodeAll(packed, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), len(out) > limit:
		return nil, fmt.Errorf("%w: want up to %d bytes", ErrDecompressedTooLarge, limit)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCodec, err)
	}
	return out, nil
}

// readLimited reads all of r, which unpacks size bytes, unless the result is over limit. The buffer grows by doubling, up
// to one byte more than the limit.
func readLimited(r io.Reader, size, limit int) ([]byte, error) {
	out := make([]byte, 0, min(4*size+512, limit+1))
	for {
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out) > limit:
			return nil, fmt.Errorf("%w: want up to %d bytes", ErrDecompressedTooLarge, limit)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errCodec, err)
		}
		if len(out) == cap(out) {
			out = append(make([]byte, 0, min(2*cap(out), limit+1)), out...)
		}
	}
}

// xerialMagic begins the framing that Java producers put around snappy blocks; after it come two version numbers, and
// then blocks with their length before each.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 8
)

// unsnap reads both of the ways in which producers write snappy: one bare block, or blocks in xerial's framing.
func unsnap(packed []byte, limit int) ([]byte, error) {
	blocks := [][]byte{packed}
	if len(packed) >= xerialHeader && string(packed[:len(xerialMagic)]) == xerialMagic {
		var err error
		if blocks, err = xerialBlocks(packed[xerialHeader:]); err != nil {
			return nil, err
		}
	}
	total := 0
	for _, b := range blocks { // each begins with its unpacked length
		n, err := snappy.DecodedLen(b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCodec, err)
		}
		if n > limit-total {
			return nil, fmt.Errorf("%w: want up to %d bytes", ErrDecompressedTooLarge, limit)
		}
		total += n
	}
	out := make([]byte, 0, total)
	for _, b := range blocks {
		plain, err := snappy.Decode(out[len(out):cap(out)], b) // into out, which has room for it
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCodec, err)
		}
		out = out[:len(out)+len(plain)]
	}
	return out, nil
}

// xerialBlocks cuts framed snappy into its blocks.
func xerialBlocks(rest []byte) (blocks [][]byte, err error) {
	for len(rest) > 0 {
		var block []byte
		if block, rest, err = xerialBlock(rest); err != nil {
			return nil, err
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// streamMemory is an upper bound of the memory of a stream, without its input and its output.
func streamMemory(in io.Reader) int {
	switch in := in.(type) {
	case *snappyStream:
		return len(in.ring) * snappyPage
	case *lz4.Reader:
		return 9 << 20 // two blocks of 4 MiB
	case zstdStream:
		return zstdWindow + 2<<20
	}
	return 1 << 20
}

// stream unpacks packed in small steps. Its errors are errCodec, and ErrDecompressedTooLarge for a window that is too
// large. A reader that is done calls release; a stream without release is left to the garbage collector.
func (u *unpacker) stream(codec int, packed []byte) (in io.Reader, release func(), err error) {
	release = func() {}
	switch codec {
	case codecGzip:
		z, _ := u.gzips.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		in, release = z, func() { u.gzips.Put(z) }
		err = z.Reset(bytes.NewReader(packed))
	case codecSnappy:
		in = newSnappyStream(packed)
	case codecLZ4:
		z, _ := u.lz4s.Get().(*lz4.Reader)
		if z == nil {
			z = lz4.NewReader(nil)
		}
		in, release = z, func() { u.lz4s.Put(z) }
		z.Reset(bytes.NewReader(packed))
	case codecZstd:
		var z *zstd.Decoder // with one thread it has no goroutine
		z, err = zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		in = zstdStream{z}
	default:
		err = fmt.Errorf("got unknown codec %d", codec)
	}
	if err != nil {
		release()
		return nil, func() {}, fmt.Errorf("%w: %w", errCodec, err)
	}
	return in, release, nil
}

// zstdStream translates the error of a window that is too large.
type zstdStream struct{ *zstd.Decoder }

func (z zstdStream) Read(b []byte) (int, error) {
	n, err := z.Decoder.Read(b)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = fmt.Errorf("%w: %w", ErrDecompressedTooLarge, err)
	}
	return n, err
}
