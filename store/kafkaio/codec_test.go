package kafkaio

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codecs packs, as the producers of the world do.
var codecs = map[string]struct {
	id   int
	pack func([]byte) []byte
}{
	"gzip":   {codecGzip, packGzip},
	"snappy": {codecSnappy, func(b []byte) []byte { return snappy.Encode(nil, b) }},
	"xerial": {codecSnappy, packXerial},
	"lz4":    {codecLZ4, packLZ4},
	"zstd":   {codecZstd, packZstd},
	"zstd, of unknown size": {codecZstd, func(b []byte) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		return drain(&out, w, err, b)
	}},
	"zstd, many frames": {codecZstd, func(b []byte) []byte {
		var out []byte
		for len(b) > 0 {
			n := min(len(b), 1<<19)
			out = append(out, packZstd(b[:n])...)
			b = b[n:]
		}
		return out
	}},
	"gzip, many members": {codecGzip, func(b []byte) []byte {
		var out []byte
		for len(b) > 0 {
			n := min(len(b), 1<<19)
			out = append(out, packGzip(b[:n])...)
			b = b[n:]
		}
		return out
	}},
}

func packGzip(b []byte) []byte {
	var out bytes.Buffer
	return drain(&out, gzip.NewWriter(&out), nil, b)
}

func packLZ4(b []byte) []byte {
	var out bytes.Buffer
	return drain(&out, lz4.NewWriter(&out), nil, b)
}

func packZstd(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func packXerial(b []byte) []byte {
	out := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(b) > 0 {
		n := min(len(b), 32<<10)
		block := snappy.Encode(nil, b[:n])
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
		b = b[n:]
	}
	return out
}

func drain(out *bytes.Buffer, w io.WriteCloser, err error, b []byte) []byte {
	if err != nil {
		panic(err)
	}
	if _, err := w.Write(b); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestDecompressRoundTripAndCap(t *testing.T) {
	u := newUnpacker(defaultMaxDecompressed)
	defer u.close()
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 100, 40_000, 700_000} {
				want := make([]byte, size)
				for i := range want {
					want[i] = byte(i * i >> 3)
				}
				small := c.pack(want)
				got, err := u.decompress(c.id, small, size)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, cap the same: got %d and %v", size, len(got), err)
				}
				if _, err := u.decompress(c.id, small, size-1); !errors.Is(err, ErrDecompressedTooLarge) {
					t.Fatalf("%d bytes, cap one less: got %v, want ErrDecompressedTooLarge", size, err)
				}
			}
		})
	}
}

func TestDecompressOfGarbage(t *testing.T) {
	u := newUnpacker(1 << 20)
	defer u.close()
	text := bytes.Repeat([]byte("some text "), 300)
	for name, c := range codecs {
		good := c.pack(text)
		for n := range good {
			out, err := u.decompress(c.id, good[:n], 1<<20)
			if err == nil && !bytes.HasPrefix(text, out) {
				t.Fatalf("%s: %d of %d bytes: got something else", name, n, len(good))
			}
			if err != nil && !errors.Is(err, errCodec) && !errors.Is(err, ErrDecompressedTooLarge) {
				t.Fatalf("%s: %d of %d bytes: got %v", name, n, len(good), err)
			}
		}
		if _, err := u.decompress(c.id, bytes.Repeat([]byte{0xa5}, 100), 1<<20); err == nil {
			t.Errorf("%s: got no error on garbage", name)
		}
	}
	for _, block := range [][]byte{{0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 9, 1}, {0x7f, 0xff, 0xff, 0xff, 1}} {
		xerial := append([]byte(xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01"), block...)
		if _, err := u.decompress(codecSnappy, xerial, 1<<20); !errors.Is(err, errCodec) {
			t.Errorf("xerial block % x: got %v, want errCodec", block, err)
		}
	}
	// A bare snappy block that claims 1 GiB.
	if _, err := u.decompress(codecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 1<<20); err == nil {
		t.Error("got no error on a snappy block of 1 GiB")
	}
}

// TestBombsAreSkippedInBoundedMemory puts a batch that unpacks to a lot in front of a good one. kafka-go's reader took
// 12 GB for 1 MB of such.
func TestBombsAreSkippedInBoundedMemory(t *testing.T) {
	const limit = 1 << 20
	one := appendBatch(nil, []Message{{Value: make([]byte, 4<<20)}})[batchHeader:] // one record of 4 MiB
	rest := make([]byte, 4<<20)
	endless := binary.AppendVarint(nil, 1<<30) // one of 1 GiB
	bombs := map[string]struct {
		codec int
		b     []byte
	}{
		"gzip, 1 GiB": {codecGzip, append(packGzip(endless), bytes.Repeat(packGzip(rest), 256)...)},
		"zstd, 1 GiB": {codecZstd, append(packZstd(endless), bytes.Repeat(packZstd(rest), 256)...)},
	}
	for name, c := range codecs {
		bombs[name] = struct {
			codec int
			b     []byte
		}{c.id, c.pack(one)}
	}
	for name, c := range bombs {
		t.Run(name, func(t *testing.T) {
			raw := packed(c.codec, func(b []byte) []byte { return b }, 1, c.b)
			set := joined(stored(0, raw), stored(1, three()))
			// All that was ever allocated, not the peak. lz4 and zstd have buffers of 4 and 8 MiB of their own. What other goroutines allocate
			// is not the bomb's, nor are buffers that a pool has just lost: under the race detector it loses one of four on purpose.
			const most = 12 << 20
			took := uint64(math.MaxUint64)
			for try := 0; try < 20 && took > most; try++ {
				took = min(took, allocatedFor(t, set, limit))
			}
			t.Logf("%d bytes on the wire, %d allocated in all", len(raw), took)
			if took > most {
				t.Errorf("got %d bytes allocated, want at most %d", took, most)
			}
		})
	}
}

// allocatedFor returns how many bytes are allocated while a set of a bomb and three records is unpacked.
func allocatedFor(t *testing.T, set []byte, limit int) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u := newUnpacker(limit)
	defer u.close()
	b := Batch{HighWater: -1}
	if _, err := u.unpack(&b, set); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := account(b); got != "1-3 skip 0-0 too_large next 4" {
		t.Errorf("got %q, want the bomb skipped", got)
	}
	if !errors.Is(b.Skipped[0].Err, ErrDecompressedTooLarge) {
		t.Errorf("got %v, want ErrDecompressedTooLarge", b.Skipped[0].Err)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// TestZstdWindow refuses a frame whose window alone would take 1 GiB.
func TestZstdWindow(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0, 0} // window 2^(10+21), one empty raw block
	u := newUnpacker(defaultMaxDecompressed)
	defer u.close()
	if _, err := u.decompress(codecZstd, frame, 1<<20); !errors.Is(err, ErrDecompressedTooLarge) {
		t.Errorf("got %v, want ErrDecompressedTooLarge", err)
	}
}

func TestDecompressConcurrently(t *testing.T) {
	u := newUnpacker(defaultMaxDecompressed)
	defer u.close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := bytes.Repeat(fmt.Appendf(nil, "goroutine %d ", i), 2000)
			for name, c := range codecs {
				got, err := u.decompress(c.id, c.pack(want), len(want))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: got %d bytes and %v", name, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestUnpackerClosedBeforeUse(t *testing.T) {
	u := newUnpacker(1 << 20)
	u.close()
	if _, err := u.decompress(codecZstd, packZstd([]byte("x")), 100); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// FuzzDecompress never panics and never exceeds its limit.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs {
		f.Add(c.id, c.pack([]byte("seed seed seed")))
	}
	u := newUnpacker(1 << 16)
	f.Fuzz(func(t *testing.T, codec int, b []byte) {
		out, err := u.decompress(codec, b, 1<<16)
		if len(out) > 1<<16 {
			t.Fatalf("got %d bytes, want up to %d", len(out), 1<<16)
		}
		if err != nil && out != nil {
			t.Fatalf("got %d bytes beside error %v", len(out), err)
		}
	})
}
