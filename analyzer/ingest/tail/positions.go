package tail

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/atomicfile"
	"github.com/509da70d/floodgate/store/filelock"
)

// keepLogs is how many logs of one path are remembered, and how many renamed ones are watched at once.
const keepLogs = 32

// Errors of OpenPositions and CopyPositions. Test with errors.Is.
var (
	ErrLocked         = errors.New("another process uses the positions")
	ErrPositions      = errors.New("positions file is damaged")
	ErrOtherPositions = errors.New("there are other positions")
)

// Positions remembers how far each log was read, and what stands there. Its methods are safe for concurrent use.
type Positions struct {
	lock *os.File

	saving  sync.Mutex              // held while the file is written; taken before mu
	written []byte                  // guarded by saving: what is on disk
	write   func(data []byte) error // replaces what is on disk; called with saving held

	mu       sync.Mutex
	logs     []*logFile      // guarded by mu: by path, the oldest first
	skipped  []filePath      // guarded by mu: the paths of which nothing counts that was there at the first look
	followed map[string]bool // guarded by mu: the paths that have a Follower
}

// logFile is a log that is or was read, under any name. Only its Follower changes it, apart from Acked and pending, which Save changes, too.
type logFile struct {
	Path     filePath  `json:"path"` // where its Follower looks
	Name     filePath  `json:"name"` // where the log was last seen, without symbolic links
	Source   sourceID  `json:"source"`
	Acked    place     `json:"acked"`    // all lines before it are in Kafka
	Read     place     `json:"read"`     // lines up to here may be in Kafka
	Own      int64     `json:"own"`      // bytes from the start that no other log has that was known
	Marks    marks     `json:"marks"`    // further places, each with what the log has before it
	Modified time.Time `json:"modified"` // by the file system's clock: its last change when it was last seen at its path
	Changed  time.Time `json:"changed"`  // the last change to its file when it was last read
	Finished bool      `json:"finished,omitempty"`

	sink    Sink    // nil unless it is read now
	pending []place // the ends of what the sink got and had not acknowledged at the last look, in order
}

// places returns all places of a log at which it is known what stands before them, in order.
func (l *logFile) places() []place {
	all := l.Marks.places()
	for _, p := range []place{l.Acked, l.Read} {
		if p.End > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.End, b.End) })
	return all
}

// settle takes note of what the sink has acknowledged.
func (l *logFile) settle() {
	if l.sink == nil {
		return
	}
	acked := l.sink.Acked()
	for len(l.pending) > 0 && l.pending[0].End <= acked {
		l.Acked, l.pending = l.pending[0], l.pending[1:]
	}
}

// filePath is a path. It need not be UTF-8; then it is an object with the member base64 in JSON.
type filePath string

// MarshalJSON implements json.Marshaler.
func (p filePath) MarshalJSON() ([]byte, error) {
	if b := printable.Base64(string(p)); b != "" {
		return json.Marshal(map[string]string{"base64": b})
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *filePath) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, (*string)(p))
	}
	var packed struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(data, &packed); err != nil {
		return err
	}
	*p = filePath(packed.Base64)
	return nil
}

// sourceID is a source's identity, as hexadecimal digits in JSON.
type sourceID schemas.ProducerID

// MarshalText implements encoding.TextMarshaler.
func (s sourceID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *sourceID) UnmarshalText(b []byte) error {
	v, err := hex.DecodeString(string(b))
	if err != nil || len(v) != len(s) {
		return fmt.Errorf("got source %.40q, want %d hexadecimal digits", b, 2*len(s))
	}
	copy(s[:], v)
	return nil
}

// positionsFile is what is on disk.
type positionsFile struct {
	Version int        `json:"version"`
	Logs    []*logFile `json:"logs"`
	Skipped []filePath `json:"skipped,omitempty"`
}

const (
	positionsName    = "positions.json"
	positionsVersion = 2
)

// OpenPositions reads the positions in dir, which it creates if it is missing, and locks them against other processes. It calls sync each
// time before it writes: sync makes durable what the sinks have acknowledged. nil: it is durable when it is acknowledged.
func OpenPositions(dir string, sync func() error) (*Positions, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for positions: %w", err)
	}
	l, err := filelock.Open(filepath.Join(dir, "ingest.lock"))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("open positions: %w: %s", ErrLocked, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open positions: %w", err)
	}
	path := filepath.Join(dir, positionsName)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("read positions: %w", err), l.Close())
	}
	p, err := loadPositions(data, func(data []byte) error {
		if sync != nil {
			if err := sync(); err != nil {
				return fmt.Errorf("sync the log: %w", err)
			}
		}
		return atomicfile.Write(path, data)
	})
	if err != nil {
		err = fmt.Errorf("%w: %s: %w; put back a copy of it, or delete it: then the logs are counted from their start", ErrPositions, path, err)
		return nil, errors.Join(err, l.Close())
	}
	p.lock = l
	return p, nil
}

// loadPositions reads what was written; nil is nothing. write replaces it.
func loadPositions(data []byte, write func([]byte) error) (*Positions, error) {
	p := &Positions{write: write, written: data, followed: make(map[string]bool)}
	if data == nil {
		return p, nil
	}
	var f positionsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != positionsVersion {
		return nil, fmt.Errorf("got version %d, want %d", f.Version, positionsVersion)
	}
	for i, l := range f.Logs {
		if l == nil || l.Acked.End < 0 || l.Read.End < l.Acked.End {
			return nil, fmt.Errorf("got log %d at no place, want one with 0 <= acked <= read", i)
		}
	}
	p.logs, p.skipped = f.Logs, f.Skipped
	return p, nil
}

// skip takes note of a path of which nothing counts that is there now, and adds the log that is there, or nil. It returns false if that was
// done before, or if a log of the path is known.
func (p *Positions) skip(path string, l *logFile) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.skipped, filePath(path)) || slices.ContainsFunc(p.logs, func(l *logFile) bool { return string(l.Path) == path }) {
		return false
	}
	p.skipped = append(p.skipped, filePath(path))
	if l != nil {
		p.logs = append(p.logs, l)
	}
	return true
}

// follow takes note that path has a Follower: it is no rotated log of another one.
func (p *Positions) follow(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followed[path] = true
}

// follows reports whether path has a Follower.
func (p *Positions) follows(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.followed[path]
}

// of returns the logs of a path, the oldest first.
func (p *Positions) of(path string) []*logFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	var logs []*logFile
	for _, l := range p.logs {
		if string(l.Path) == path {
			logs = append(logs, l)
		}
	}
	return logs
}

// add remembers a new log. If its path then has too many, add removes the oldest ones that can be forgotten.
func (p *Positions) add(l *logFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logs = append(p.logs, l)
	n, newest := 0, time.Time{}
	for _, other := range p.logs {
		if other.Path == l.Path {
			n++
			newest = later(newest, other.Modified)
		}
	}
	for ; n > keepLogs; n-- {
		i := slices.IndexFunc(p.logs, func(o *logFile) bool { return o.Path == l.Path && p.forgettable(o, newest) })
		if i < 0 {
			return
		}
		p.logs = slices.Delete(p.logs, i, i+1)
	}
}

// forgettable reports whether no line of a log would be read again without its record. Without it, the next look takes two kinds of files for
// logs that were not read yet: a file that was changed after newest, the time of the last look, and a file that begins with all of another
// log. The caller holds p.mu.
func (p *Positions) forgettable(l *logFile, newest time.Time) bool {
	return l.Finished && l.Changed.Before(newest) && !slices.ContainsFunc(p.logs, func(o *logFile) bool { return o.Path == l.Path && o.begins(l) })
}

// begins reports whether another log has all that is known of this one, and more.
func (l *logFile) begins(other *logFile) bool {
	n := len(l.Marks)
	return n > 0 && n <= len(other.Marks) && slices.Equal(l.Marks, other.Marks[:n]) && l.Own <= l.Read.End && l.Read.End < other.Read.End
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// places returns the places of a log.
func (p *Positions) places(l *logFile) []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.places()
}

// Paths returns the paths that have or had a Follower, in order.
func (p *Positions) Paths() (paths []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.logs {
		paths = append(paths, string(l.Path))
	}
	for _, path := range p.skipped {
		paths = append(paths, string(path))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// change changes a log, or reads one.
func (p *Positions) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Save writes the positions that the sinks have acknowledged to disk, so that they survive a crash of the machine. It does nothing if they
// are there already.
func (p *Positions) Save() error {
	p.saving.Lock()
	defer p.saving.Unlock()
	p.mu.Lock()
	for _, l := range p.logs {
		l.settle()
	}
	data, err := json.MarshalIndent(positionsFile{positionsVersion, p.logs, p.skipped}, "", "  ")
	p.mu.Unlock()
	if err == nil && !bytes.Equal(data, p.written) {
		if err = p.write(data); err == nil {
			p.written = data
		}
	}
	if err != nil {
		return fmt.Errorf("write positions: %w", err)
	}
	return nil
}

// Close saves a last time and unlocks the positions.
func (p *Positions) Close() error { return errors.Join(p.Save(), p.lock.Close()) }
