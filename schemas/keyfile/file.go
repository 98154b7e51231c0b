package keyfile

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Checked is the shortest time between two reads of a file. Find, FindSum and Refused read the file again after that.
const Checked = time.Second

// File is the entries of a file. Open makes one. Any goroutine may use it.
type File[T any] struct {
	path   string
	format Format[T]
	logger *slog.Logger
	list   atomic.Pointer[[]Entry[T]]
	next   atomic.Int64 // Unix nanoseconds: the file is read again after that

	mu   sync.Mutex
	text []byte // guarded by mu: the contents that were tried last
	bad  string // guarded by mu: what is wrong with them
	err  string // guarded by mu: why the file could not be read, or bad
}

// Open reads a file. A file without an entry is an error, as is one that cannot be read.
func Open[T any](path string, format Format[T], now time.Time, logger *slog.Logger) (*File[T], error) {
	f := &File[T]{path: path, format: format, logger: logger}
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	list, err := format.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: got no %ss, want a line %s", path, format.Err, format.Secret, format.Words)
	}
	f.text = text
	f.list.Store(&list)
	f.next.Store(now.Add(Checked).UnixNano())
	return f, nil
}

// read returns the contents of the file, at most MaxSize+1 bytes, so that a file that is too long is noticed.
func (f *File[T]) read() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("read %ss: %w", f.format.Secret, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %ss: %w", f.format.Secret, err)
	}
	return text, nil
}

// refresh reads the file again, if the last time is a second ago, or if the clock was set back since.
func (f *File[T]) refresh(now time.Time) {
	next := f.next.Load()
	early := now.UnixNano() < next && now.Add(Checked).UnixNano() >= next
	if early || !f.next.CompareAndSwap(next, now.Add(Checked).UnixNano()) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.read()
	if err != nil {
		f.failed(f.format.Secret+"s not changed: the file cannot be read", err)
		return
	}
	if bytes.Equal(text, f.text) {
		f.err = f.bad
		return
	}
	f.text = text
	list, err := f.format.lines(text)
	switch before := *f.list.Load(); {
	case err == nil:
		f.bad, f.err = "", ""
		f.list.Store(&list)
		f.logger.Info(f.format.Secret+"s changed", "file", f.path, f.format.Secret+"s", len(list))
	case len(list) == 0:
		f.bad = err.Error()
		f.failed(f.format.Secret+"s not changed: the file cannot be used", err)
	default:
		list = f.format.stillNamed(before, list)
		f.list.Store(&list)
		f.bad = err.Error()
		f.failed(f.format.Secret+"s not added: the file has a mistake; what it does not name is revoked", err)
	}
}

// failed notes why the contents of the file are not in use. The log has each reason once.
func (f *File[T]) failed(what string, err error) {
	if f.err != err.Error() {
		f.logger.Error(what, "file", f.path, "error", err, f.format.Secret+"s", len(*f.list.Load()))
	}
	f.err = err.Error()
}

// Refused returns why the newest contents of the file are not in use, or "". Such contents may revoke secrets, but they add none.
func (f *File[T]) Refused(now time.Time) string {
	f.refresh(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Find returns the entry of a secret. It takes the same time however much of a secret is right. The file is read again first
// if it was read last a second ago or earlier.
func (f *File[T]) Find(secret string, now time.Time) (Entry[T], bool) {
	return f.FindSum(sha256.Sum256([]byte(secret)), now)
}

// FindSum is Find of a secret with this SHA-256.
func (f *File[T]) FindSum(sum [sha256.Size]byte, now time.Time) (found Entry[T], ok bool) {
	f.refresh(now)
	for _, e := range *f.list.Load() {
		if subtle.ConstantTimeCompare(e.Sum[:], sum[:]) == 1 {
			found, ok = e, true
		}
	}
	return found, ok
}
