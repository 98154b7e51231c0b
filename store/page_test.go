package store

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func TestPageKeepsRows(t *testing.T) {
	rows := []Change{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte(""), Value: []byte("no key")},
		{Key: []byte("empty"), Value: []byte{}},
		{Key: []byte("deleted")},
		{Key: bytes.Repeat([]byte("k"), maxKey), Value: bytes.Repeat([]byte("v"), maxValue)},
		{Key: []byte("last"), Value: []byte("\x00")},
	}
	var content []byte
	for _, r := range rows {
		before := len(content)
		content = appendRow(content, r.Key, r.Value)
		if got := len(content) - before; got > Bytes(&r) {
			t.Errorf("row %.10q takes %d bytes, want at most the %d that count", r.Key, got, Bytes(&r))
		}
	}
	for _, want := range rows {
		key, value, rest, err := cutRow(content)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(key, want.Key) || !bytes.Equal(value, want.Value) || (value == nil) != (want.Value == nil) {
			t.Errorf("got %.10q and %.10q, want %.10q and %.10q", key, value, want.Key, want.Value)
		}
		content = rest
	}
	if len(content) != 0 {
		t.Errorf("got %d bytes more", len(content))
	}
}

func TestEveryTruncationOfAPageIsRefused(t *testing.T) {
	whole := appendRow(nil, []byte("key"), []byte(strings.Repeat("value", 50)))
	for n := range whole {
		if key, value, _, err := cutRow(whole[:n:n]); err == nil {
			t.Errorf("first %d bytes: got %q and %q", n, key, value)
		}
	}
	for name, content := range map[string]string{
		"a key of 2^63 bytes":      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
		"a length without an end":  strings.Repeat("\xff", 11),
		"a key that is too long":   "\x81\x20" + strings.Repeat("k", maxKey+1) + "\x01",
		"a value of 2^64-2 bytes":  "\x01k\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a value beyond the page":  "\x01k\x03v",
		"a value that is too long": "\x01k" + string(binary.AppendUvarint(nil, maxValue+2)) + strings.Repeat("v", maxValue+1),
		"no value":                 "\x01k",
	} {
		if key, value, _, err := cutRow([]byte(content)); err == nil {
			t.Errorf("%s: got %.10q and %.10q", name, key, value)
		}
	}
}

// What is cut off is within the page and within bounds, and writing it again gives a page that reads the same.
func FuzzPage(f *testing.F) {
	f.Add(appendRow(appendRow(nil, []byte("a"), []byte("1")), []byte("b"), nil))
	f.Add([]byte("\x01k\x03v"))
	f.Add([]byte("\x81\x00k\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for len(content) > 0 {
			key, value, rest, err := cutRow(content)
			if err != nil {
				if key != nil || value != nil || rest != nil {
					t.Fatalf("got %q, %q and %q beside %v", key, value, rest, err)
				}
				return
			}
			if len(key) > maxKey || len(value) > maxValue || len(rest) >= len(content) {
				t.Fatalf("got %d, %d and %d bytes of %d", len(key), len(value), len(rest), len(content))
			}
			again := appendRow(nil, key, value)
			if len(again) > len(content)-len(rest) {
				t.Fatalf("got %d bytes for what had %d", len(again), len(content)-len(rest))
			}
			key2, value2, rest2, err := cutRow(again)
			if err != nil || !bytes.Equal(key, key2) || !bytes.Equal(value, value2) || (value == nil) != (value2 == nil) || len(rest2) > 0 {
				t.Fatalf("got %q, %q, %q and %v, want %q and %q", key2, value2, rest2, err, key, value)
			}
			content = rest
		}
	})
}

func TestPageKeysSortByBucketAndNumber(t *testing.T) {
	last := []byte(nil)
	for _, bucket := range []int{0, 1, 127, 128, buckets - 1} {
		for _, number := range []uint64{0, 1, 255, 256, 1 << 40, 1<<64 - 1} {
			key := pageKey(bucket, number)
			if len(key) != pageKeySize || bytes.Compare(last, key) >= 0 {
				t.Errorf("bucket %d, page %d: got %x after %x", bucket, number, key, last)
			}
			last = key
		}
	}
}
