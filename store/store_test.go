package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/rows"
)

// TestMain runs the test binary again as another process where a test asks for one.
func TestMain(m *testing.M) {
	var err error
	switch dir := os.Getenv("STORE_TEST_DIR"); os.Getenv("STORE_TEST_CHILD") {
	case "commit":
		err = commitForever(os.Stdout, dir, false)
	case "compaction":
		err = commitForever(os.Stdout, dir, true)
	case "open":
		if _, err = Open(dir, quiet()); errors.Is(err, ErrLocked) {
			err = nil
		} else {
			err = fmt.Errorf("got %s, want %w", fmt.Sprint(err), ErrLocked)
		}
	default:
		testenv.LazyGC()
		m.Run()
	}
	if err != nil {
		panic(err)
	}
}

// child returns the command that runs this binary as another process on the store in dir. It is killed if it takes
// longer than anything here may.
func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CHILD="+what, "STORE_TEST_DIR="+dir)
	return cmd
}

// quiet are options for tests that break things on purpose or commit often.
func quiet() Options {
	return Options{NoSync: true, MinFree: 1, Logger: slog.New(slog.DiscardHandler)}
}

// open opens a store and closes it when the test ends, after asking it whether it is well.
func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	publish(s)
	t.Cleanup(func() {
		if s.db != nil {
			closeChecked(t, s)
		}
	})
	return s
}

// closeChecked checks the store and closes it.
func closeChecked(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// put returns a change of a row that was not there.
func put(key, value string) Change { return Change{Key: []byte(key), Value: []byte(value)} }

// replace returns a change of a row that had the value old; an empty value deletes it.
func replace(key, old, value string) Change {
	c := Change{Key: []byte(key), Old: rows.Sum([]byte(key), []byte(old))}
	if value != "" {
		c.Value = []byte(value)
	}
	return c
}

// commit commits and fails the test if that fails.
func commit(t *testing.T, s *Store, next int64, changes ...Change) {
	t.Helper()
	if err := s.Commit(Checkpoint{Next: next}, changes); err != nil {
		t.Fatal(err)
	}
}

// rows returns all rows as "key=value …".
func rowsOf(t *testing.T, s *Store) string {
	t.Helper()
	var all []string
	err := s.Load(func(key, value []byte) error {
		all = append(all, string(key)+"="+string(value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestStoreKeepsRowsAndCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "store")
	s := open(t, dir)
	if got := s.Checkpoint(); got != (Checkpoint{}) {
		t.Errorf("a new store: got %+v, want nothing", got)
	}
	if got := rowsOf(t, s); got != "" {
		t.Errorf("a new store: got %q, want no rows", got)
	}
	want := Checkpoint{Next: 42, RulesID: 7, RulesFrom: -1, Epoch: 9, LogTime: 1 << 60, TailOffset: 41, TailCRC: 0xdeadbeef, Placed: 6}
	if err := s.Commit(want, []Change{put("b", "2"), put("a", "1"), put("c", "3")}); err != nil {
		t.Fatal(err)
	}
	want.Rows, want.Digest = 3, rows.Sum([]byte("a"), []byte("1"))+rows.Sum([]byte("b"), []byte("2"))+rows.Sum([]byte("c"), []byte("3"))
	for range 2 { // as committed, and as read back
		if got := s.Checkpoint(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := rowsOf(t, s); got != "a=1 b=2 c=3" {
			t.Errorf("got %q", got)
		}
		closeChecked(t, s)
		s = open(t, dir)
	}
	commit(t, s, 43, replace("a", "1", ""), replace("b", "2", "22"), put("d", ""))
	closeChecked(t, s)
	s = open(t, dir)
	if got := rowsOf(t, s); got != "b=22 c=3 d=" {
		t.Errorf("got %q, want a gone and b replaced", got)
	}
	if got := s.Checkpoint(); got.Next != 43 || got.Rows != 3 {
		t.Errorf("got %+v, want next 43 and 3 rows", got)
	}
}

// The keys of rows are the owner's affair: none can be taken for one of the store's or of Badger's.
func TestAnyKeyMayBeARow(t *testing.T) {
	s := open(t, t.TempDir())
	keys := []string{"", "c", "r", "\x00", "\xff\xff", "!badger!head", strings.Repeat("k", maxKey)}
	var changes []Change
	for _, key := range keys {
		changes = append(changes, put(key, "v"))
	}
	commit(t, s, 1, changes...)
	if got := s.Checkpoint(); got.Rows != int64(len(keys)) {
		t.Errorf("got %d rows, want %d", got.Rows, len(keys))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestKeysAndValuesMayBeReusedAfterCommit(t *testing.T) {
	s := open(t, t.TempDir())
	key, value := []byte("key"), []byte("value")
	commit(t, s, 1, Change{Key: key, Value: value})
	copy(key, "xxx")
	copy(value, "yyyyy")
	commit(t, s, 2, put("other", "row"))
	if got, want := rowsOf(t, s), "key=value other=row"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadEndsWithTheRowsError(t *testing.T) {
	s := open(t, t.TempDir())
	commit(t, s, 1, put("a", "1"), put("b", "2"))
	errStop := errors.New("enough")
	calls := 0
	if err := s.Load(func(_, _ []byte) error { calls++; return errStop }); err != errStop || calls != 1 { //nolint:errorlint // as it is, says Load
		t.Errorf("got %v after %d calls, want just %v after 1", err, calls, errStop)
	}
}

// An owner that is wrong about what it replaces is found out: not at once, but before anyone trusts the store.
func TestDigestFindsALostRow(t *testing.T) {
	for name, lie := range map[string]Change{
		"replaced, said to be new":  put("a", "2"),
		"deleted, said to be other": replace("a", "0", ""),
		"new, said to be replaced":  replace("z", "1", "2"),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			commit(t, s, 1, put("a", "1"), put("b", "2"))
			commit(t, s, 2, lie)
			if err := s.Check(); !errors.Is(err, ErrDigest) {
				t.Errorf("got %v, want %v", err, ErrDigest)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMaxChangesFitOneCommit(t *testing.T) {
	s := open(t, t.TempDir())
	changes := make([]Change, s.MaxChanges())
	for i := range changes {
		changes[i] = put(fmt.Sprintf("%06d", i), strings.Repeat("v", s.MaxBytes()/len(changes)-6-rowOverhead))
	}
	commit(t, s, 1, changes...)
	if got := s.Checkpoint().Rows; got != int64(len(changes)) {
		t.Errorf("got %d rows, want %d", got, len(changes))
	}
}

func TestMaxBytesFitOneCommit(t *testing.T) {
	s := open(t, t.TempDir())
	var changes []Change
	for left := s.MaxBytes(); left > 20; {
		c := put(fmt.Sprint(len(changes)), "")
		c.Value = make([]byte, min(maxValue, left-Bytes(&c)))
		changes = append(changes, c)
		left -= Bytes(&c)
	}
	commit(t, s, 1, changes...)
	if len(changes) < 4 {
		t.Errorf("got %d changes, want several of the longest value", len(changes))
	}
}

func TestCommitRefusesWhatDoesNotFit(t *testing.T) {
	s := open(t, t.TempDir())
	commit(t, s, 1, put("a", "1"))
	many := make([]Change, s.MaxChanges()+1)
	for i := range many {
		many[i] = put(fmt.Sprint(i), "")
	}
	big := make([]byte, maxValue)
	for name, changes := range map[string][]Change{
		"too many":        many,
		"a long key":      {put(strings.Repeat("k", maxKey+1), "")},
		"a long value":    {put("k", string(big)+"x")},
		"too many bytes":  {put("1", string(big)), put("2", string(big)), put("3", string(big)), put("4", string(big)), put("5", string(big))},
		"one beyond them": {{Key: make([]byte, maxKey), Value: make([]byte, maxValue+1)}},
	} {
		if err := s.Commit(Checkpoint{Next: 2}, changes); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v, want %v", name, err, ErrTooLarge)
		}
	}
	if got := s.Checkpoint().Next; got != 1 {
		t.Errorf("got next %d, want 1: nothing was written", got)
	}
	commit(t, s, 2, put("b", "2")) // and it goes on
}

func TestCommitTakesNothingAfterAnError(t *testing.T) {
	s := open(t, t.TempDir())
	commit(t, s, 1, put("a", "1"))
	if err := s.db.Close(); err != nil { // as good as a disk that fails
		t.Fatal(err)
	}
	first := s.Commit(Checkpoint{Next: 2}, nil)
	second := s.Commit(Checkpoint{Next: 2}, nil)
	if first == nil || second == nil || !strings.Contains(second.Error(), first.Error()) {
		t.Errorf("got %v, then %v, want the same error twice", first, second)
	}
	if got := s.Checkpoint().Next; got != 1 {
		t.Errorf("got next %d, want 1", got)
	}
	s.db = nil
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOneStoreHasTheDirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, 1, put("a", "1"))
	empty := filepath.Join(dir, "00099.mem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, quiet()); !errors.Is(err, ErrLocked) {
		t.Errorf("in this process: got %v, want %v", err, ErrLocked)
	}
	if out, err := child(t, "open", dir).CombinedOutput(); err != nil {
		t.Errorf("in another process: %v\n%s", err, out)
	}
	if _, err := os.Stat(empty); err != nil {
		t.Errorf("got the directory changed by the process that was locked out: %v", err)
	}
	closeChecked(t, s)
	s = open(t, dir)
	if got := rowsOf(t, s); got != "a=1" {
		t.Errorf("got %q, want a=1", got)
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := Open(t.TempDir(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, 1, put("a", "1"))
	closeChecked(t, s)
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestOptionsOfAStore: by default a commit is on disk when Commit returns, and 128 MiB must be free.
func TestOptionsOfAStore(t *testing.T) {
	mine := slog.New(slog.DiscardHandler)
	for name, test := range map[string]struct {
		given   Options
		synced  bool
		minFree int64
		logger  *slog.Logger
	}{
		"defaults":  {Options{}, true, 128 << 20, slog.Default()},
		"all given": {Options{NoSync: true, MinFree: 7, Logger: mine}, false, 7, mine},
	} {
		s, err := Open(t.TempDir(), test.given)
		if err != nil {
			t.Fatal(err)
		}
		badgers, ok := s.db.Opts().Logger.(logger)
		if s.db.Opts().SyncWrites != test.synced || s.minFree != test.minFree || s.logger != test.logger || !ok || badgers.to != test.logger {
			t.Errorf("%s: got synced %v, %d bytes free, and loggers %v and %v", name, s.db.Opts().SyncWrites, s.minFree, s.logger, badgers.to)
		}
		closeChecked(t, s)
	}
}

// A kill between creating a write-ahead file and giving it its size leaves it empty, and Badger would not open.
func TestOpenRemovesEmptyLogs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, 1, put("a", "1"))
	closeChecked(t, s)
	for _, name := range []string{"00077.mem", "000077.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	if got := rowsOf(t, s); got != "a=1" {
		t.Errorf("got %q, want a=1", got)
	}
}

func TestExistsMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "0")
	if Exists(dir) {
		t.Error("got a store where there is nothing")
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if Exists(dir) {
		t.Error("got a store in an empty directory")
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !Exists(dir) {
		t.Error("got no store while it is open")
	}
	if err := s.Close(); err != nil || !Exists(dir) {
		t.Errorf("got %v and no store once it is closed", err)
	}
}
