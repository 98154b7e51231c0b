package kafkaio

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

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
