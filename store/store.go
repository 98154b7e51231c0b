package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Errors. Test with errors.Is.
var (
	// ErrLocked says that another process, or another Store of this process, uses the directory.
	ErrLocked = errors.New("store is in use")
	// ErrNoSpace says that fewer than Options.MinFree bytes are free, or that the disk is full. Nothing was committed; try again later.
	ErrNoSpace = errors.New("too little disk space")
	// ErrCorrupt says that files of the store are damaged: Quarantine it.
	ErrCorrupt = errors.New("store is damaged")
	// ErrDigest says that the rows do not belong to the checkpoint: Quarantine the store.
	ErrDigest = errors.New("rows differ from the store's digest")
	// ErrTooLarge says that changes do not fit into one transaction. Nothing was written.
	ErrTooLarge = errors.New("too large for one commit")
)

// memTable is the size of Badger's memtable in bytes. A transaction has 15 % of it, and a write-ahead file twice its size.
const memTable = 16 << 20

// blockSize is the size of the blocks in Badger's tables. If a value does not fit, Badger doubles the memory of a block, and
// keeps the smaller pieces until the table is written. With blocks of 4 KiB, an analyzer of a million callers took 120 MiB
// more.
const blockSize = 64 << 10

// Options of a store. The zero value is a good default.
type Options struct {
	// Logger gets Badger's warnings and errors. Default slog.Default.
	Logger *slog.Logger
	// NoSync leaves it to the kernel when commits reach the disk: a crash of the machine, but not one of the process, may
	// lose the last commits. It is for tests and demos.
	NoSync bool
	// MinFree is how many bytes the filesystem must have free before Open and Commit write. With fewer they return
	// ErrNoSpace. MinFree must cover what Badger writes in the background. The default is 128 MiB. If several stores
	// share a filesystem, multiply it by their number.
	MinFree int64
}

// defaultMinFree covers one write-ahead file, the flush of two memtables, and a compaction of a small store.
const defaultMinFree = 8 * memTable

// Store is the rows and the checkpoint of one partition. One goroutine at a time may use it.
type Store struct {
	db      *badger.DB
	dir     string
	lock    *os.File
	logger  *slog.Logger
	minFree int64
	last    Checkpoint
	failed  error // error of a commit that may or may not be on disk; the store then accepts no more

	bucketHash bucketHash
	buckets    [buckets]bucket
	number     uint64 // number of the next page
	nextBucket int    // the bucket that compact checks next

	// Kept to use their memory again.
	reader reader
	homes  []uint8   // buckets of the rows of a commit
	pages  []newPage // of a commit, …
	memory []byte    // … and what they hold
}

// Open opens the store in dir, and creates it if there is none. It takes the permissions on the store from all users except
// its owner; if it may not, it logs that. It returns ErrLocked, ErrNoSpace, ErrCorrupt, rows.ErrNewer, or an error of the operating system.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MinFree == 0 {
		o.MinFree = defaultMinFree
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, lock: lock, logger: o.Logger, minFree: o.MinFree, reader: reader{make(map[string]struct{})}}
	s.keepPrivate()
	if err := s.open(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.keepPrivate()
	return s, nil
}

// keepPrivate logs an error and does not return it: a store that other users may read still works.
func (s *Store) keepPrivate() {
	if err := keepPrivate(s.dir); err != nil {
		s.logger.Warn("other users may read the store", "error", err)
	}
}

// Exists reports whether there is a store in dir, in use or not. If there is none, Open makes one.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	return err == nil
}

func (s *Store) open(o Options) error {
	if err := s.room(s.minFree); err != nil {
		return err
	}
	if err := checkFormat(s.dir, o.NoSync); err != nil {
		return err
	}
	if err := removeEmptyLogs(s.dir); err != nil {
		return err
	}
	bo := badgerOptions(s.dir, o)
	if err := verifyTables(s.dir, bo); err != nil {
		return err
	}
	if err := s.openBadger(bo); err != nil {
		return err
	}
	if err := s.readCheckpoint(); err != nil {
		return err
	}
	c, err := s.readContents()
	if err != nil {
		return err
	}
	return s.adopt(&c)
}

// adopt takes over what Badger contains. A new store gets a key of the bucket hash, which the first commit writes.
func (s *Store) adopt(c *contents) error {
	s.buckets, s.number = c.buckets, c.next
	switch {
	case c.bucketHash != nil:
		s.bucketHash = *c.bucketHash
	case c.next > 0:
		return fmt.Errorf("%w: got pages, and no key of the bucket hash", ErrCorrupt)
	default:
		s.bucketHash = newBucketHash()
	}
	return nil
}

// openBadger opens Badger. Some damage makes Badger panic: then openBadger returns ErrCorrupt.
func (s *Store) openBadger(bo badger.Options) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: badger: panic: %v", ErrCorrupt, r)
		}
	}()
	s.db, err = badger.Open(bo)
	if err != nil {
		s.db = nil // Badger may return a DB with the error; it is closed already
		return damage("badger", err)
	}
	return nil
}

// damage wraps an error of reading the store. It is ErrNoSpace if the disk is full, and otherwise ErrCorrupt, unless the system
// refused something that it may grant at another time. It compares texts, because Badger passes on the text of an error and not
// the error.
func damage(what string, err error) error {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if strings.Contains(err.Error(), full.Error()) {
			return fmt.Errorf("%w: %s: %w", ErrNoSpace, what, err)
		}
	}
	for _, refused := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.EROFS,
	} {
		if strings.Contains(err.Error(), refused.Error()) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, what, err)
}

// Close closes the store. What was committed stays. Badger writes its memtable to disk when it is closed. If the disk may not
// have room for that, Close returns ErrNoSpace and leaves the store open: call it again later, or let the process end.
func (s *Store) Close() error {
	if s.db != nil && s.last != (Checkpoint{}) {
		if err := s.room(min(s.minFree, 2*memTable)); err != nil {
			return fmt.Errorf("close store: %w", err)
		}
	}
	var err error
	if s.db != nil {
		err = s.db.Close()
		s.db = nil
		s.keepPrivate()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Checkpoint returns the checkpoint of the last commit. For a new store that is the zero value.
func (s *Store) Checkpoint() Checkpoint { return s.last }

// badgerOptions returns Badger's options for a store. A store is small, is read once at the start, and then only written, so
// that caches and compression have no benefit. Values are shorter than the threshold of the value log, so that the log stays
// empty. Badger verifies tables when it opens them. (In the mode that verifies each block, an iteration over a damaged block
// ends early without an error.)
func badgerOptions(dir string, o Options) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(logger{o.Logger}).
		WithSyncWrites(!o.NoSync).
		WithMemTableSize(memTable).
		WithNumMemtables(2).
		WithValueLogFileSize(1 << 20).
		WithNumVersionsToKeep(1).
		WithBlockSize(blockSize).
		WithNumCompactors(2).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnTableRead)
}

// removeEmptyLogs deletes write-ahead files of 0 bytes. A process that is killed after it creates such a file, and before it
// sets the size, leaves it empty, and Badger then refuses to open. The caller has the lock.
func removeEmptyLogs(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list store: %w", err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return fmt.Errorf("look at %s: %w", f.Name(), err)
		}
		if info.Size() > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return fmt.Errorf("remove empty log: %w", err)
		}
	}
	return nil
}

// logger passes Badger's warnings and errors on, and drops the rest.
type logger struct{ to *slog.Logger }

func (l logger) Errorf(format string, args ...any)   { l.to.Error(message(format, args)) }
func (l logger) Warningf(format string, args ...any) { l.to.Warn(message(format, args)) }
func (logger) Infof(string, ...any)                  {}
func (logger) Debugf(string, ...any)                 {}

func message(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
