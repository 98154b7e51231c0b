package migrate

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/atomicfile"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// NoteName is the file in Config.Dir that an interrupted migration goes on from.
const NoteName = "migration.json"

const noteVersion = 1

// note is that file. It is written when the source has stopped to count, before anything is written to the target.
type note struct {
	Version int               `json:"version"`
	ID      string            `json:"id"` // of the migration; its topics have it
	Sources []source          `json:"sources"`
	Done    bool              `json:"done"`
	id      schemas.ControlID // ID
}

// source is the counts of one partition of the source.
type source struct {
	Next    int64  `json:"next"`
	Digest  uint64 `json:"digest"` // of all rows of its store
	LogTime int64  `json:"log_time"`
	Epoch   uint64 `json:"epoch"` // of the last place
	Rows    int64  `json:"rows"`
	Records int    `json:"records"`
	Base    int64  `json:"base"` // of the target; 0 until it is known

	tail kafkaio.Tail // the record of the target before Base
}

func (s *source) partition() Partition {
	return Partition{From: s.Next, Base: s.Base, Rows: s.Rows, Records: s.Records}
}

func newNote() note {
	n := note{Version: noteVersion}
	_, _ = rand.Read(n.id[:]) // never fails
	n.ID = n.id.String()
	return n
}

// Finished reports whether a call of Run with this Dir has migrated all. Then another call does nothing.
func Finished(dir string) (bool, error) {
	n, _, err := readNote(dir)
	return n.Done, err
}

// readNote reads the note in a directory, and reports whether there is one.
func readNote(dir string) (n note, found bool, err error) {
	path := filepath.Join(dir, NoteName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return note{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err == nil && n.Version != noteVersion {
		err = fmt.Errorf("got version %d, want %d", n.Version, noteVersion)
	}
	if err == nil {
		n.id, err = schemas.ParseControlID(n.ID)
	}
	if err != nil {
		return note{}, false, fmt.Errorf("read the note of a migration: %s: %w", path, err)
	}
	return n, true, nil
}

// readNote reads the note, and reports whether there is one.
func (m *migration) readNote() (found bool, err error) {
	if m.note, found, err = readNote(m.Dir); err == nil && found && len(m.note.Sources) != m.partitions {
		err = fmt.Errorf("read the note of a migration: %s: got %d partitions, want %d", filepath.Join(m.Dir, NoteName), len(m.note.Sources), m.partitions)
	}
	return found, err
}

// writeNote replaces the note. After a crash there is the old one or the new one.
func (m *migration) writeNote() error {
	data, err := json.MarshalIndent(&m.note, "", "  ")
	if err == nil {
		err = os.MkdirAll(m.Dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("write the note of a migration: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(m.Dir, NoteName), append(data, '\n')); err != nil {
		return fmt.Errorf("write the note of a migration: %w", err)
	}
	return nil
}
