package unpack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ulikunitz/xz"
)

// block returns the header of a block whose dictionary has this code, in as many forms as the format and the library know.
func block(flags, code byte, filter ...byte) []byte {
	h := []byte{0, flags}
	if flags&0x40 != 0 {
		h = append(h, 0x80, 0x80, 0x01) // sizes are longer than they need to be: they can be
	}
	if flags&0x80 != 0 {
		h = append(h, 0xff, 0xff, 0xff, 0x7f)
	}
	h = append(append(h, filter...), 1, code)
	h = append(h, make([]byte, 4-len(h)%4)...)
	h[0] = byte(len(h) / 4)
	return binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
}

// start returns the header of a stream, with a CRC-64.
func start() []byte {
	return []byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46")
}

// TestAHugeDictionaryIsRefusedBeforeItIsAllocated: a header of some twenty bytes can ask for 4 GiB. It may stand in the first block,
// in a later one, in a second stream, or be written with numbers that are longer than they need to be.
func TestAHugeDictionaryIsRefusedBeforeItIsAllocated(t *testing.T) {
	whole := sample(t, xzSample)
	many := sample(t, xzManyBlocks)
	second := len(start()) + 44 // behind the first block of many
	for name, data := range map[string][]byte{
		"first block":             append(start(), block(0, 40, 0x21)...),
		"of 192 MiB":              append(start(), block(0, 31, 0x21)...),
		"with sizes":              append(start(), block(0xc0, 40, 0x21)...),
		"with one size":           append(start(), block(0x80, 39, 0x21)...),
		"with a long number":      append(start(), block(0, 40, 0xa1, 0x80, 0x80, 0x00)...),
		"second block":            append(bytes.Clone(many[:second]), block(0xc0, 40, 0x21)...),
		"second stream":           append(append(bytes.Clone(whole), start()...), block(0, 40, 0x21)...),
		"second stream behind 0s": append(append(append(bytes.Clone(whole), make([]byte, 8)...), start()...), block(0, 40, 0x21)...),
		"behind a whole buffer":   append(append(stream(t, 66_000), start()...), block(0, 40, 0x21)...),
	} {
		data = append(data, make([]byte, 4096)...)
		before := allocated()
		_, err := unpacked(data)
		if !errors.Is(err, ErrWindow) || !strings.Contains(err.Error(), "want at most 128 MiB") {
			t.Errorf("%s: got %v, want %v", name, err, ErrWindow)
		}
		if allocated()-before > 32<<20 {
			t.Errorf("%s: %d MiB were allocated", name, (allocated()-before)>>20)
		}
	}
	if got, err := unpacked(append(bytes.Clone(whole), append(start(), block(0, 40, 0x21)...)...)); got != plain || !errors.Is(err, ErrWindow) {
		t.Errorf("got %q, %v, want the first stream before the error", got, err)
	}
}

// stream returns an .xz file of random bytes, with a small dictionary.
func stream(t testing.TB, length int) []byte {
	t.Helper()
	var packed bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{})
	if _, err := io.CopyN(w, rng, int64(length)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// allocated returns how many bytes were allocated since the start.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestTheLibraryWouldAllocateIt: without the guard, the library takes what the header says, so that the guard is needed. 192 MiB are
// enough to show it.
func TestTheLibraryWouldAllocateIt(t *testing.T) {
	data := append(append(start(), block(0, 31, 0x21)...), make([]byte, 4096)...)
	before := allocated()
	r, err := xz.ReaderConfig{DictCap: minDictionary}.NewReader(bytes.NewReader(data))
	if err == nil {
		_, _ = io.ReadAll(r) // fails: there is no block
	}
	if got := allocated() - before; got < 192<<20 {
		t.Errorf("got %d MiB: the library has a limit now, and the guard is not needed", got>>20)
	}
}

// TestLargestDictionaryOfXZIsRead: xz -9 and twice as much.
func TestLargestDictionaryOfXZIsRead(t *testing.T) {
	for _, size := range []int{64 << 20, maxWindow} {
		if got := dictionary(block(0, map[int]byte{64 << 20: 28, maxWindow: 30}[size], 0x21)); got != int64(size) {
			t.Errorf("got a dictionary of %d, want %d", got, size)
		}
	}
	for name, text := range map[string]string{"-9": xzLargest, "small": xzSample, "--check=none": xzUnchecked, "--check=sha256": xzSHA256, "--block-size=20": xzManyBlocks} {
		if got, err := unpacked(sample(t, text)); err != nil || got != plain {
			t.Errorf("xz %s: got %q, %v", name, got, err)
		}
	}
}

// TestTheGuardChangesNothing: many megabytes of several streams come out as they went in, in pieces of any size.
func TestTheGuardChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var packed bytes.Buffer
	var want strings.Builder
	for range 3 {
		w, err := xz.WriterConfig{BlockSize: 100_000}.NewWriter(&packed)
		if err != nil {
			t.Fatal(err)
		}
		for range 5_000 {
			line := fmt.Sprintf("192.0.2.%d - - [17/May/2015:10:05:03 +0000] \"GET /%x HTTP/1.1\" 200 17\n", rng.IntN(256), rng.Uint64())
			want.WriteString(line)
			if _, err := io.WriteString(w, line); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed.Write(make([]byte, 4*rng.IntN(3))) // streams may be padded
	}
	if got, err := unpacked(packed.Bytes()); err != nil || got != want.String() {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, want.Len())
	}
	for _, broken := range []io.Reader{
		iotest.HalfReader(bytes.NewReader(packed.Bytes())), iotest.DataErrReader(bytes.NewReader(packed.Bytes())), iotest.OneByteReader(bytes.NewReader(packed.Bytes())),
	} {
		got, err := io.ReadAll(&windowGuard{r: bufio.NewReaderSize(broken, 64<<10)})
		if err != nil || !bytes.Equal(got, packed.Bytes()) {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, packed.Len())
		}
	}
}

// FuzzWindowGuard: what the guard passes on has no header with a huge dictionary, wherever it may stand, and is how the data starts.
func FuzzWindowGuard(f *testing.F) {
	f.Add([]byte(plain), byte(0), byte(40), 5)
	f.Add(bytes.Repeat([]byte{0x21, 1, 40}, 700), byte(0xc0), byte(31), 2047)
	f.Fuzz(func(t *testing.T, data []byte, flags, code byte, at int) {
		at = min(max(at, 0), len(data))
		header := block(flags&0xc0, code, 0x21)
		hostile := append(append(bytes.Clone(data[:at]), header...), data[at:]...)
		got, err := io.ReadAll(&windowGuard{r: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(hostile)), 64<<10)})
		if !bytes.HasPrefix(hostile, got) {
			t.Errorf("got %q, want how %q starts", got, hostile)
		}
		refused := code > 30 && code <= 40
		if refused && (!errors.Is(err, ErrWindow) || len(got) > at) {
			t.Errorf("got %d bytes, %v, want at most %d and %v", len(got), err, at, ErrWindow)
		}
		if err == nil && len(got) != len(hostile) {
			t.Errorf("got %d bytes, want %d", len(got), len(hostile))
		}
	})
}
