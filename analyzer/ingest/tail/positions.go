package tail

import (
	"encoding/base64"
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
	"github.com/509da70d/floodgate/store/filelock"
)

// keepLogs is how many logs of one path are remembered.
const keepLogs = 16

// Errors of OpenPositions. Test with errors.Is.
var (
	ErrLocked    = errors.New("another process uses the positions")
	ErrPositions = errors.New("positions file is damaged")
)

// Positions remembers how far each log was read. Its methods are safe for concurrent use.
type Positions struct {
	dir  string
	lock *os.File

	saving sync.Mutex // held while the file is written; taken before mu

	mu   sync.Mutex
	logs []*logFile // guarded by mu: by path, the oldest first
}

// logFile is one file that is or was read. Only its Follower changes it.
type logFile struct {
	Path     string    `json:"path"`                  // where the log was found first
	Base64   string    `json:"path_base64,omitempty"` // the same, if it is not UTF-8
	Device   uint64    `json:"device"`
	Inode    uint64    `json:"inode"`
	First    string    `json:"first"`     // hash of its first line
	FirstLen int64     `json:"first_len"` // of that line, or of as much of it as was hashed
	Source   sourceID  `json:"source"`
	Offset   int64     `json:"offset"`   // all lines before it are in Kafka
	Modified time.Time `json:"modified"` // when it was last written to, at the last look
	Finished bool      `json:"finished,omitempty"`

	sink Sink // nil unless it is read now
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
}

const positionsName = "positions.json"

// OpenPositions reads the positions in dir, which it creates if it is missing, and locks them against other processes.
func OpenPositions(dir string) (*Positions, error) {
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
	p := &Positions{dir: dir, lock: l}
	if err := p.load(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return p, nil
}

func (p *Positions) load() error {
	data, err := os.ReadFile(filepath.Join(p.dir, positionsName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	var f positionsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("%w: %w", ErrPositions, err)
	}
	if f.Version != 1 {
		return fmt.Errorf("%w: got version %d, want 1", ErrPositions, f.Version)
	}
	for _, l := range f.Logs {
		if l == nil || l.Offset < 0 || l.FirstLen < 0 {
			return fmt.Errorf("%w: got a log at a negative position", ErrPositions)
		}
		if l.Base64 == "" {
			continue
		}
		path, err := base64.StdEncoding.DecodeString(l.Base64)
		if err != nil {
			return fmt.Errorf("%w: path_base64: %w", ErrPositions, err)
		}
		l.Path = string(path)
	}
	p.logs = f.Logs
	return nil
}

// of returns the logs of a path, the oldest first.
func (p *Positions) of(path string) []*logFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	var logs []*logFile
	for _, l := range p.logs {
		if l.Path == path {
			logs = append(logs, l)
		}
	}
	return logs
}

// add remembers a new log. If its path then has too many, add removes the oldest one that is finished.
func (p *Positions) add(l *logFile) {
	l.Base64 = printable.Base64(l.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logs = append(p.logs, l)
	n := 0
	for _, other := range p.logs {
		if other.Path == l.Path {
			n++
		}
	}
	if n > keepLogs {
		if i := slices.IndexFunc(p.logs, func(o *logFile) bool { return o.Path == l.Path && o.Finished }); i >= 0 {
			p.logs = slices.Delete(p.logs, i, i+1)
		}
	}
}

// change changes a log.
func (p *Positions) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Save writes the positions that the sinks have acknowledged to disk, so that they survive a crash of the machine. A new
// log is saved before any of its lines is sent: so after a crash it is searched for even if it was rotated since.
func (p *Positions) Save() error {
	p.saving.Lock()
	defer p.saving.Unlock()
	p.mu.Lock()
	for _, l := range p.logs {
		if l.sink != nil {
			l.Offset = max(l.Offset, l.sink.Acked())
		}
	}
	data, err := json.MarshalIndent(positionsFile{Version: 1, Logs: p.logs}, "", "  ")
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write positions: %w", err)
	}
	if err := replace(filepath.Join(p.dir, positionsName), append(data, '\n')); err != nil {
		return fmt.Errorf("write positions: %w", err)
	}
	return nil
}

// replace replaces the content of a file by data. A reader sees the old content or the new one, also after a crash.
func replace(path string, data []byte) (err error) {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Close saves a last time and unlocks the positions.
func (p *Positions) Close() error { return errors.Join(p.Save(), p.lock.Close()) }
