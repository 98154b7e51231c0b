package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/store/rows"
)

// Stores on disk outlive the program that wrote them, and these bytes are how this format is written. Another format
// needs another number, by which an owner knows that it must rebuild the store.
const (
	storedCheckpoint = "01" + "ffffffffffffffff" + "0200000000000000" + "0300000000000000" + "0400000000000000" + "0500000000000000" +
		"0600000000000000" + "0700000000000000" + "0800000000000000" + "0900000000000000" + "0a000000"
	storedBucketHash = "01" + "01000000000000000000000000000002" + "2873b11a58e62263"
	storedPage       = "03" + "6b6579" + "06" + "76616c7565" + "04" + "676f6e65" + "00"
	storedPageKey    = "70" + "07" + "0000000000000102"
)

func TestStoresOfThisFormatStayReadable(t *testing.T) {
	bytesOf := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := Checkpoint{Next: Incomplete, RulesID: 2, RulesFrom: 3, Epoch: 4, LogTime: 5, TailOffset: 6, Digest: 7, Rows: 8, Placed: 9, TailCRC: 10}
	written := c.append(nil)
	if body := written[:len(written)-8]; !bytes.Equal(body, bytesOf(storedCheckpoint)) { // the rest is the checksum
		t.Errorf("checkpoint: got %x, want %s", body, storedCheckpoint)
	}
	hash := bucketHash{key: [16]byte{0: 1, 15: 2}}
	if got := hash.append(nil); !bytes.Equal(got, bytesOf(storedBucketHash)) {
		t.Errorf("key of the bucket hash: got %x, want %s", got, storedBucketHash)
	}
	var read bucketHash
	if err := read.decode(bytesOf(storedBucketHash)); err != nil || read.key != hash.key {
		t.Errorf("key of the bucket hash: read %x, %v", read.key, err)
	}
	if got := appendRow(appendRow(nil, []byte("key"), []byte("value")), []byte("gone"), nil); !bytes.Equal(got, bytesOf(storedPage)) {
		t.Errorf("page: got %x, want %s", got, storedPage)
	}
	if got := pageKey(7, 258); !bytes.Equal(got, bytesOf(storedPageKey)) {
		t.Errorf("key of a page: got %x, want %s", got, storedPageKey)
	}
	// A row is in the bucket that the highest bits of its hash say.
	if got := hash.bucketOf([]byte("row")); got != int(hash.key.Hash("", "row")>>56) {
		t.Errorf("got bucket %d", got)
	}
}

// TestTheFormatOfAStore: a store of a newer version is not damaged, and a damaged file says nothing about the version.
func TestTheFormatOfAStore(t *testing.T) {
	this := formatLine(rows.Format, rows.Since)
	for _, tc := range []struct {
		name, line string // "" removes the file
		want       error
		says       string
	}{
		{"this one", this, nil, ""},
		{"the next one", formatLine(rows.Format+1, "v0.2.0"), rows.ErrNewer, `got format 2, want 1 or lower; "v0.2.0" and later can read it`},
		{"one far ahead", formatLine(math.MaxUint32, "v9"), rows.ErrNewer, "4294967295"},
		{"a flipped bit makes it the next one", strings.Replace(this, "store 1", "store 2", 1), ErrCorrupt, formatFile},
		{"cut short", this[:len(this)-1], ErrCorrupt, formatFile},
		{"more", this + "\n", ErrCorrupt, formatFile},
		{"empty", "\n", ErrCorrupt, formatFile},
		{"of something else", "\x00\xff", ErrCorrupt, formatFile},
		{"none, but Badger's files", "", ErrCorrupt, formatFile},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if err := s.Commit(Checkpoint{Next: 1}, []Change{put("a", "1")}); err != nil {
				t.Fatal(err)
			}
			closeChecked(t, s)
			path := filepath.Join(dir, formatFile)
			err := os.WriteFile(path, []byte(tc.line), 0o600)
			if tc.line == "" {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err = Open(dir, Options{NoSync: true})
			if !errors.Is(err, tc.want) || tc.want != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %v that says %q", err, tc.want, tc.says)
			}
			if err == nil {
				closeChecked(t, s)
			}
		})
	}
}
