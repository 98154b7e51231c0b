package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/509da70d/floodgate/analyzer/ingest/unpack"
)

// pack returns text as w makes it of what is written.
func pack(t *testing.T, text string, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var packed bytes.Buffer
	w, err := open(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestCompressedInputs: a log counts the same in every compression, also as several streams in a row. Cut short, its name and the
// byte are in the error, and what was read before counts.
func TestCompressedInputs(t *testing.T) {
	var log strings.Builder
	for i := range 3000 {
		log.WriteString(jsonLine(float64(i), fmt.Sprintf("192.0.2.%d", i%7), ""))
	}
	want, err := replayed(t, "plain", strings.NewReader(log.String()))
	if err != nil || want.Requests != 3000 || want.Closes == 0 {
		t.Fatalf("got %+v, %v", want, err)
	}
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.WriterConfig{BlockSize: 10_000}.NewWriter(w) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		half := log.Len() / 2
		data := append(pack(t, log.String()[:half], open), pack(t, log.String()[half:], open)...)
		got, err := replayed(t, name, bytes.NewReader(data))
		if err != nil || got.Digest != want.Digest || got.Lines != want.Lines || got.Closes != want.Closes {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
		got, err = replayed(t, "access.log.1", bytes.NewReader(data[:len(data)-20]))
		said := fmt.Sprintf("read access.log.1: %s data is cut short: it ends at byte %d", name, len(data)-20)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), said) || got.Lines < 1500 {
			t.Errorf("%s: got %d lines, %v, want %q", name, got.Lines, err, said)
		}
	}
}

// TestAHostileXZIsRefused: an .xz file of thirty bytes asks for 4 GiB.
func TestAHostileXZIsRefused(t *testing.T) {
	const hostile = "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46" + "\x02\x00\x21\x01\x28\x00\x00\x00" + "\xe6\xa0\x11\xb3"
	_, err := replayed(t, "access.log.xz", strings.NewReader(hostile))
	if !errors.Is(err, unpack.ErrWindow) || !strings.Contains(err.Error(), "read access.log.xz: xz data cannot be read further") {
		t.Errorf("got %v, want %v", err, unpack.ErrWindow)
	}
}

// replayed replays one input.
func replayed(t *testing.T, name string, r io.Reader) (Summary, error) {
	t.Helper()
	return Run(t.Context(), Config{Format: jsonFormat(t), Rules: rule(t, "limit: 100, window: 1h"), Inputs: []Input{{name, r}}})
}
