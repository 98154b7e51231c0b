package asn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// MaxSize is how many bytes a file may have. Those that are sold or given away in 2026 have 10 to 60 MB.
const MaxSize = 256 << 20

// Checked is how often Watch looks whether the file has changed.
const Checked = 5 * time.Second

// ErrFile says that a file is no database of autonomous systems. Test with errors.Is.
var ErrFile = errors.New("bad file of autonomous systems")

// File is the networks of a file. Open makes one. Any goroutine may use it; one at a time may call Refresh or Watch.
type File struct {
	path  string
	table atomic.Pointer[table]
	seen  os.FileInfo // of the file whose content was tried last; nil if it could not be opened
	bad   string      // why the file is not in use, as the log has it
}

// Open reads a file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// ID returns the id of the autonomous system that announces an address, such as AS64500, or "" if the file has none. It does not
// allocate.
func (f *File) ID(addr netip.Addr) string { return f.table.Load().id(schemas.CanonicalAddr(addr)) }

// Networks returns how many networks the file in use has.
func (f *File) Networks() int { return f.table.Load().networks.Size() }

// Watch reads the file again when it has changed, until ctx ends.
func (f *File) Watch(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(Checked)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Refresh(logger)
		}
	}
}

// Refresh reads the file again if it has changed. What is wrong with it is logged once, and leaves the networks as they are.
func (f *File) Refresh(logger *slog.Logger) {
	info, err := os.Stat(f.path)
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) {
		return
	}
	if err := f.read(); err != nil {
		if f.bad != err.Error() {
			logger.Error("autonomous systems not changed: the file cannot be used", "error", err, "networks", f.Networks())
		}
		f.bad = err.Error()
		return
	}
	f.bad = ""
	logger.Info("autonomous systems changed", "file", f.path, "networks", f.Networks())
}

// read reads the file, and puts its networks in use.
func (f *File) read() error {
	f.seen = nil
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("read autonomous systems: %w", err)
	}
	defer file.Close()
	if f.seen, err = file.Stat(); err != nil {
		return fmt.Errorf("read autonomous systems: %w", err)
	}
	if f.seen.Size() > MaxSize {
		return fmt.Errorf("%s: %w: got %d bytes, want at most %d", f.path, ErrFile, f.seen.Size(), MaxSize)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxSize))
	if err != nil {
		return fmt.Errorf("read autonomous systems: %w", err)
	}
	t, err := newTable(data)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", f.path, ErrFile, err)
	}
	f.table.Store(t)
	return nil
}
