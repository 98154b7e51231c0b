package unpack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

// plain is what the compressed samples hold.
const plain = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 17\n"

// Plain as bzip2 and xz of Debian compress it: with a dictionary of 4 KiB, with xz -9, without a checksum, with another one, and in
// several blocks with sizes in their headers.
const (
	bzip2Sample  = "QlpoOTFBWSZTWWrj8HEAABJfgEAQUAv+kALCRAogAAAgIABUU0DQABkBqZNT0m1NlDQ0NrHrw2FZ0iwBDes8fu0lLg+hW9rpTb5TVJgqS7MCwI5IDYfffF3JFOFCQauPwcQ="
	xzSample     = "/Td6WFoAAATm1rRGAgAhAQAAAAA3J5fW4ABAAD9dABiLgqlgj4qos1e4/Uyi2FReyk0tGPSQRgCgEOAPso8OwFZHr37BB6h77TYP576D2IJVAR/0sCAWCPmYYeRwAAAAZ4OD9c1pxGsAAVtBskASeB+2830BAAAAAARZWg=="
	xzLargest    = "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4ABAAD9dABiLgqlgj4qos1e4/Uyi2FReyk0tGPSQRgCgEOAPso8OwFZHr37BB6h77TYP576D2IJVAR/0sCAWCPmYYeRwAAAAZ4OD9c1pxGsAAVtBskASeB+2830BAAAAAARZWg=="
	xzUnchecked  = "/Td6WFoAAAD/EtlBAgAhARYAAAB0L+Wj4ABAAD9dABiLgqlgj4qos1e4/Uyi2FReyk0tGPSQRgCgEOAPso8OwFZHr37BB6h77TYP576D2IJVAR/0sCAWCPmYYeRwAAAAAAFTQbrKy7AGcp56AQAAAAAAWVo="
	xzSHA256     = "/Td6WFoAAArh+wyhAgAhARYAAAB0L+Wj4ABAAD9dABiLgqlgj4qos1e4/Uyi2FReyk0tGPSQRgCgEOAPso8OwFZHr37BB6h77TYP576D2IJVAR/0sCAWCPmYYeRwAAAACvIt0j72R30v0Wu7qX07MydYN0Hzo8A+wnXaEo4iyj0AAXNBGO5PJRibS5oBAAAAAApZWg=="
	xzManyBlocks = "/Td6WFoAAATm1rRGAsAYFCEBAABHVLOIAQATMS4yLjMuNCAtIC0gWzE3L01heS8AQrVhjRxTDYwCwBgUIQEAAEdUs4gBABMyMDE1OjEwOjA1OjAzICswMDAwXQArWVHYKEAVzALAGBQhAQAAR1SziAEAEyAiR0VUIC8gSFRUUC8xLjEiIDIwAGYJLrjN3YhCAsAJBSEBAABLO7kdAQAEMCAxNwoAAAAAcUPbwOW6PLgABCwULBQsFB0FAACsM78TFBc7MAMAAAAABFla"
)

func sample(t testing.TB, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// samples returns plain in every compression, by its name.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	made := map[string][]byte{"bzip2": sample(t, bzip2Sample), "xz": sample(t, xzSample)}
	var packed, zipped bytes.Buffer
	zw, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{zw, gzip.NewWriter(&zipped)} {
		if _, err := io.WriteString(w, plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	made["zstd"], made["gzip"] = packed.Bytes(), zipped.Bytes()
	return made
}

// unpacked returns the plain text of data.
func unpacked(data []byte) (string, error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// TestEveryCompressionIsRead, whatever the file is called, and also two files in a row. Name says which it is.
func TestEveryCompressionIsRead(t *testing.T) {
	for name, data := range samples(t) {
		if got := Name(data[:MaxMagic]); got != name {
			t.Errorf("got %q, want %s", got, name)
		}
		for times := 1; times <= 2; times++ {
			if got, err := unpacked(bytes.Repeat(data, times)); err != nil || got != strings.Repeat(plain, times) {
				t.Errorf("%s, %d times: got %q, %v", name, times, got, err)
			}
		}
	}
	for _, text := range []string{"", "a", plain, "BZh", "BZh9 is what a client wrote", "PK\x03\x04", "7zXZ", "\xfd7zX"} {
		if name := Name([]byte(text)); name != "" {
			t.Errorf("%q: got %s, want plain text", text, name)
		}
		if got, err := unpacked([]byte(text)); err != nil || got != text {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

// TestDataThatIsCutShortSaysWhere: at every byte, in every compression. What is before it is read.
func TestDataThatIsCutShortSaysWhere(t *testing.T) {
	all := samples(t)
	all["xz of many blocks"] = sample(t, xzManyBlocks)
	for name, data := range all {
		for end := MaxMagic; end < len(data); end++ {
			got, err := unpacked(data[:end])
			compression, _, _ := strings.Cut(name, " ")
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), compression) || !strings.Contains(err.Error(), fmt.Sprintf("ends at byte %d,", end)) {
				t.Errorf("%s of %d bytes: got %v", name, end, err)
			}
			if !strings.HasPrefix(plain, got) {
				t.Errorf("%s of %d bytes: got %q", name, end, got)
			}
		}
	}
}

// TestDamagedDataIsAnError: it says the compression and where.
func TestDamagedDataIsAnError(t *testing.T) {
	for name, data := range samples(t) {
		damaged := bytes.Clone(data)
		damaged[len(damaged)-12] ^= 0xff // of the checksum, or of the text
		got, err := unpacked(damaged)
		if err == nil || !strings.HasPrefix(err.Error(), name+" data ") || !strings.Contains(err.Error(), " byte ") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, text := range []string{"\x1f\x8b", "BZh91AY&SY", "\x28\xb5\x2f\xfd\x04\xff\xff\xff\xff\xff", "\xfd7zXZ\x00"} {
		if got, err := unpacked([]byte(text)); err == nil {
			t.Errorf("%q: got %q and no error", text, got)
		}
	}
}

// TestWhatWasReadCountsBeforeAnError: an error of the file itself comes after what was read of it, and as it is.
func TestWhatWasReadCountsBeforeAnError(t *testing.T) {
	broken := errors.New("broken disk")
	r, err := NewReader(io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "a\nb\n" || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
	xz := samples(t)["xz"]
	r, err = NewReader(io.MultiReader(bytes.NewReader(xz[:len(xz)/2]), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, broken) {
		t.Errorf("in the middle of xz: got %q, %v", got, err)
	}
}

// FuzzNewReader: nothing panics, and plain text stays as it is.
func FuzzNewReader(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Add(sample(f, xzManyBlocks))
	f.Add([]byte(plain))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(iotest.OneByteReader(bytes.NewReader(data)))
		if err != nil {
			if Name(data[:min(len(data), MaxMagic)]) == "" {
				t.Errorf("plain text: got %v", err)
			}
			return
		}
		got, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if Name(data[:min(len(data), MaxMagic)]) == "" && (err != nil || !bytes.Equal(got, data[:min(len(data), 1<<20)])) {
			t.Errorf("plain text: got %q, %v", got, err)
		}
	})
}
