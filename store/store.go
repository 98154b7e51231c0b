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
	// ErrLocked says that another process, or another Store of this one, has the directory.
	ErrLocked = errors.New("store is in use")
	// ErrNoSpace says that less than Options.MinFree is free. Nothing was written; try again later.
	ErrNoSpace = errors.New("too little disk space")
	// ErrCorrupt says that files of the store are damaged: Quarantine it.
	ErrCorrupt = errors.New("store is damaged")
	// ErrDigest says that the rows are not those of the checkpoint: Quarantine the store.
	ErrDigest = errors.New("rows differ from the store's digest")
	// ErrTooLarge says that changes exceed what one transaction holds. Nothing was written.
	ErrTooLarge = errors.New("too large for one commit")
)

// memTable is the size of Badger's memtable in bytes. It sets the size of a transaction (15 % of it) and of the files
// that are written ahead (twice it).
const memTable = 16 << 20

// blockSize is the size of the blocks in Badger's tables. It doubles the memory of a block until a value fits, and keeps
// what it doubled from until the table is written: with blocks of 4 KiB, an analyzer of a million callers took 120 MiB
// more.
const blockSize = 64 << 10

// Options of a store. The zero value is a good choice.
type Options struct {
	// Logger gets Badger's warnings and errors. Default slog.Default.
	Logger *slog.Logger
	// NoSync leaves it to the kernel when commits reach the disk: a crash of the machine, not of the process, may lose
	// the last ones. For tests and demos.
	NoSync bool
	// MinFree is how many bytes the filesystem must have free for Open and Commit to write; below it they return
	// ErrNoSpace. It must cover what Badger writes in the background. Default DefaultMinFree; where several stores share
	// a filesystem, multiply.
	MinFree int64
}

// DefaultMinFree covers one write-ahead file, the flush of two memtables, and a compaction of a small store.
const DefaultMinFree = 8 * memTable

// Store is the rows and the checkpoint of one partition. One goroutine at a time may use it.
type Store struct {
	db      *badger.DB
	dir     string
	lock    *os.File
	minFree int64
	last    Checkpoint
	failed  error // of a commit that may or may not be on disk; the store then takes no more

	buckets [buckets]bucket
	number  uint64 // of the next page
	turn    int    // the bucket that is looked at next, whether it is to be merged

	// Kept for their memory.
	reader reader
	hashes []uint64 // of the keys of a commit
	pages  []packed // of a commit, …
	memory []byte   // … and what they hold
}

// Open opens the store in dir, creating it if it is not there. It returns ErrLocked, ErrNoSpace, ErrCorrupt, or an error
// of the operating system.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MinFree == 0 {
		o.MinFree = DefaultMinFree
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, lock: lock, minFree: o.MinFree, reader: reader{make(map[string]struct{})}}
	if err := s.open(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	return s, nil
}

// Exists reports whether there is a store in dir, in use or not, which Open would otherwise make.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	return err == nil
}

func (s *Store) open(o Options) error {
	if err := s.room(s.minFree); err != nil {
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
	var err error
	s.buckets, s.number, err = s.readPages()
	return err
}

// openBadger opens Badger, which panics over some damage.
func (s *Store) openBadger(bo badger.Options) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: badger: panic: %v", ErrCorrupt, r)
		}
	}()
	s.db, err = badger.Open(bo)
	if err != nil {
		s.db = nil // Badger may return one beside the error, already cleaned up
		return damage("badger", err)
	}
	return nil
}

// damage wraps an error of reading the store: it is ErrCorrupt, unless the system refused something that it may grant
// another time. Badger passes on the text of an error, not the error.
func damage(what string, err error) error {
	for _, refused := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT,
	} {
		if strings.Contains(err.Error(), refused.Error()) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, what, err)
}

// Close closes the store. What was committed stays. Badger writes its memtable out when it is closed; where that might
// not fit, Close returns ErrNoSpace and leaves the store open, to be closed later or with the process.
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

// Checkpoint returns the checkpoint of the last commit; the zero value for a new store.
func (s *Store) Checkpoint() Checkpoint { return s.last }

// badgerOptions returns the options that were found to fit: a store is small, is read once at the start, and then only
// written, so that caches and compression would buy nothing. Values stay below the threshold of the value log, which
// stays empty. Tables are verified as they are opened; the mode that verifies each block read ends an iteration early
// without an error.
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

// removeEmptyLogs deletes write-ahead files of no bytes. A kill between creating and sizing one leaves it so, and Badger
// then refuses to open. The caller has the lock.
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
