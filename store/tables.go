package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// verifyTables reads all tables that Badger would open and verifies every checksum in them. Badger verifies them too, but
// first it uses numbers from the end of the table. If one of these is damaged, Badger exits the process (log.Fatal below
// table.initIndex) or panics on a goroutine of its own, at every start.
//
// A table is blocks, an index, the index's length, a checksum of the index, and that checksum's length; a block ends in
// a checksum and its length (badger/v4/table).
func verifyTables(dir string, bo badger.Options) error {
	manifest, err := readManifest(dir, bo)
	if err != nil {
		return err
	}
	for id := range manifest.Tables {
		name := fmt.Sprintf("%06d.sst", id)
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return damage("read table", err)
		}
		if err := verifyTable(b); err != nil {
			return fmt.Errorf("%w: table %s: %w", ErrCorrupt, name, err)
		}
	}
	return nil
}

// readManifest returns which tables there are. A new store has none.
func readManifest(dir string, bo badger.Options) (badger.Manifest, error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return badger.Manifest{}, nil
	}
	if err != nil {
		return badger.Manifest{}, fmt.Errorf("open manifest: %w", err)
	}
	manifest, _, err := badger.ReplayManifestFile(f, bo.ExternalMagicVersion, bo)
	if err != nil {
		err = damage("manifest", err)
	}
	return manifest, errors.Join(err, f.Close())
}

func verifyTable(b []byte) error {
	rest, checksum, err := cutTail(b)
	if err != nil {
		return fmt.Errorf("index checksum: %w", err)
	}
	rest, index, err := cutTail(rest)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := verifySum(index, checksum); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	// The checksum says that the index is as it was written. So its numbers can be trusted.
	blocks := fb.GetRootAsTableIndex(index, 0)
	if blocks.OffsetsLength() == 0 {
		return errors.New("no blocks")
	}
	var at fb.BlockOffset
	for i := range blocks.OffsetsLength() {
		blocks.Offsets(&at, i)
		end := uint64(at.Offset()) + uint64(at.Len())
		if end > uint64(len(rest)) {
			return fmt.Errorf("block %d ends at %d, beyond the blocks' %d", i, end, len(rest))
		}
		block, checksum, err := cutTail(rest[at.Offset():end])
		if err == nil {
			err = verifySum(block, checksum)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

// cutTail splits a tail off b. b ends with the tail and four bytes of its length.
func cutTail(b []byte) (rest, tail []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errors.New("cut short")
	}
	b, size := b[:len(b)-4], uint64(binary.BigEndian.Uint32(b[len(b)-4:]))
	if size == 0 || size > uint64(len(b)) { // zeros in place of the length give 0, and an empty checksum would fit an empty tail
		return nil, nil, fmt.Errorf("got a length of %d, want 1 to %d", size, len(b))
	}
	at := len(b) - int(size)
	return b[:at], b[at:], nil
}

// verifySum compares data with a checksum in Badger's form.
func verifySum(data, checksum []byte) error {
	var sum pb.Checksum
	if err := proto.Unmarshal(checksum, &sum); err != nil {
		return fmt.Errorf("read checksum: %w", err)
	}
	if sum.GetAlgo() != pb.Checksum_CRC32C && sum.GetAlgo() != pb.Checksum_XXHash64 {
		return fmt.Errorf("unknown checksum algorithm %d", sum.GetAlgo())
	}
	return y.VerifyChecksum(data, &sum)
}
