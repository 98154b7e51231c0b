package solo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/509da70d/floodgate/store/atomicfile"
)

// ErrOffsets says that a file of offsets is damaged, or that a newer version of floodgate has written it. Test with errors.Is.
var ErrOffsets = errors.New("cannot use the file of committed offsets")

// OffsetsConfig says where Offsets are kept. Path and Partitions are needed.
type OffsetsConfig struct {
	Path       string // of the file; its directory exists
	Partitions int    // of the topic that all groups read
	// Sync is called before offsets are written. It makes durable what the log holds. Otherwise the log could lose messages in a power
	// loss that an offset says were read, and other messages would take their places unread. nil: the log needs no such call.
	Sync func() error
}

// Offsets keeps what the members of each group have committed, in a file that survives a crash of the machine. Its methods are safe for
// concurrent use.
type Offsets struct {
	config OffsetsConfig

	mu     sync.Mutex
	groups map[string]map[int]int64 // guarded by mu: committed, by name and partition
	taken  map[string]chan struct{} // guarded by mu: Member.taken, by name of the group
}

// offsetsFile is the content of the file.
type offsetsFile struct {
	Version int                      `json:"version"`
	Groups  map[string]map[int]int64 `json:"groups"`
}

const offsetsVersion = 1

// OpenOffsets reads the file; without one, nobody has committed anything yet. The caller makes sure that no other process uses the file.
// If its content is of no use, the error is an ErrOffsets.
func OpenOffsets(c OffsetsConfig) (*Offsets, error) {
	if c.Sync == nil {
		c.Sync = func() error { return nil }
	}
	o := &Offsets{config: c, groups: make(map[string]map[int]int64), taken: make(map[string]chan struct{})}
	data, err := os.ReadFile(c.Path)
	if errors.Is(err, os.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read committed offsets: %w", err)
	}
	if o.groups, err = parse(data, c.Partitions); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; put back a copy of it, or delete it: then all groups begin anew", ErrOffsets, c.Path, err)
	}
	return o, nil
}

// parse returns the groups in a file.
func parse(data []byte, partitions int) (map[string]map[int]int64, error) {
	var version struct{ Version int } // first, because nobody knows what else a newer version writes
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, err
	}
	switch {
	case version.Version > offsetsVersion:
		return nil, fmt.Errorf("a newer version of floodgate has written it: got version %d, want %d", version.Version, offsetsVersion)
	case version.Version < offsetsVersion:
		return nil, fmt.Errorf("got version %d, want %d", version.Version, offsetsVersion)
	}
	var f offsetsFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if f.Groups == nil {
		return nil, errors.New(`got no "groups", want an object`)
	}
	for name, offsets := range f.Groups {
		for p, offset := range offsets {
			if p < 0 || p >= partitions || offset < 0 {
				return nil, fmt.Errorf("group %q: got offset %d of partition %d, want at least 0, of a partition from 0 to %d", name, offset, p, partitions-1)
			}
		}
	}
	return f.Groups, nil
}

// Join returns another member of a group. At its first Next it goes on where the member before it has ended.
func (o *Offsets) Join(group string) *Member {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken[group] == nil {
		o.taken[group] = make(chan struct{}, 1)
	}
	return &Member{
		taken:     o.taken[group],
		committed: func() map[int]int64 { return o.committed(group) },
		commit:    func(offsets map[int]int64) error { return o.commit(group, offsets) },
	}
}

func (o *Offsets) committed(group string) map[int]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	offsets := none(o.config.Partitions)
	maps.Copy(offsets, o.groups[group])
	return offsets
}

// commit writes what a group commits to the file. If that fails, nothing has changed.
func (o *Offsets) commit(group string, offsets map[int]int64) error {
	if err := o.config.Sync(); err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := make(map[int]int64)
	maps.Copy(changed, o.groups[group])
	maps.Copy(changed, offsets)
	groups := maps.Clone(o.groups)
	groups[group] = changed
	data, err := json.Marshal(offsetsFile{Version: offsetsVersion, Groups: groups})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(o.config.Path, append(data, '\n')); err != nil {
		return err
	}
	o.groups = groups
	return nil
}
