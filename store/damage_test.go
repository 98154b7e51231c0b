package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// snapshot is the files of a store: what they hold without the zeros at their end, and their size. Most of what is
// written ahead is such zeros.
type snapshot map[string]snapshotFile

type snapshotFile struct {
	content []byte
	size    int64
}

// takeSnapshot reads the files of a store, which may be in use.
func takeSnapshot(t *testing.T, dir string) snapshot {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := make(snapshot)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if errors.Is(err, os.ErrNotExist) { // a log has become a table meanwhile, and was removed
			return takeSnapshot(t, dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		s[f.Name()] = snapshotFile{bytes.Clone(bytes.TrimRight(b, "\x00")), int64(len(b))}
	}
	return s
}

// restore writes the files to a new directory. The change, if any, is made to the content of one of them.
func (s snapshot) restore(t *testing.T, changed string, change func(b []byte)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, f := range s {
		b := f.content
		if name == changed {
			b = bytes.Clone(b)
			change(b)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), f.size); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newStory returns a store that has tables and a write-ahead log that was not closed, and the rows after each commit.
func newStory(t *testing.T) (snapshot, []map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	rows := make(map[string][]byte)
	model := []map[string][]byte{{}}
	s := open(t, dir)
	for n := range int64(12) {
		if n == 4 || n == 8 { // Close makes a table of what was in the log
			closeChecked(t, s)
			s = open(t, dir)
		}
		changes := crashChanges(n, rows)
		apply(rows, changes)
		commit(t, s, n+1, changes...)
		model = append(model, maps.Clone(rows))
	}
	return takeSnapshot(t, dir), model
}

// Whatever bit of whatever file flips: the store opens with the rows of some commit, or says that it is damaged. It
// never panics, exits or gives other rows, and after Quarantine there is room for a new one.
func TestFlippedBits(t *testing.T) {
	testenv.Long(t)
	story, model := newStory(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	outcomes := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(story)) {
		for _, at := range places(random, len(story[name].content)) {
			mask := byte(1) << random.IntN(8)
			dir := story.restore(t, name, func(b []byte) { b[at] ^= mask })
			outcome, err := openDamaged(t, dir, model)
			if err != nil {
				t.Errorf("%s, byte %d ^ %#x: %v", name, at, mask, err)
			}
			outcomes[filepath.Ext(name)+" "+outcome]++
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log(outcomes)
	for _, want := range []string{".sst refused", ".mem opened"} {
		if outcomes[want] == 0 {
			t.Errorf("got no %q: the test misses what it is for", want)
		}
	}
}

// places returns where in a file of n bytes to flip a bit: at its start and its end, and in between.
func places(random *rand.Rand, n int) []int {
	var all []int
	for _, at := range []int{0, 4, 8, 16, n - 1, n - 4, n - 6, n - 12, n - 16} {
		if at >= 0 && at < n {
			all = append(all, at)
		}
	}
	for range min(n, 3) {
		all = append(all, random.IntN(n))
	}
	return all
}

// openDamaged opens a store with a damage in it, and says what came of it.
func openDamaged(t *testing.T, dir string, model []map[string][]byte) (outcome string, err error) {
	t.Helper()
	s, err := Open(dir, quiet())
	if err == nil {
		err = errors.Join(sameRows(s, model[s.Checkpoint().Next]), s.Check(), s.Close())
	}
	switch {
	case err == nil:
		return "opened", nil
	case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrDigest):
		return "failed", err
	}
	moved, err := Quarantine(dir, time.Unix(0, 0))
	if err != nil {
		return "refused", err
	}
	closeChecked(t, open(t, dir))
	return "refused", os.RemoveAll(moved)
}

func TestATableThatIsGoneIsFound(t *testing.T) {
	t.Parallel()
	story, _ := newStory(t)
	for name := range story {
		if filepath.Ext(name) == ".sst" {
			delete(story, name)
			break
		}
	}
	if _, err := Open(story.restore(t, "", nil), quiet()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
}

// A table's pages may be lost, too; Badger takes zeros at its end for a checksum of nothing, which is right.
func TestATableOfZerosIsFound(t *testing.T) {
	t.Parallel()
	story, _ := newStory(t)
	for name := range story {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		for _, keep := range []int{0, 4, 2000, len(story[name].content) - 4096} {
			dir := story.restore(t, name, func(b []byte) { clear(b[max(keep, 0):]) })
			if _, err := Open(dir, quiet()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, zeros from %d: got %v, want %v", name, keep, err, ErrCorrupt)
			}
		}
	}
}

// A kill may leave a table half written. It is not in the manifest then, and Badger deletes it.
func TestATableOutsideTheManifestIsNoDamage(t *testing.T) {
	t.Parallel()
	story, model := newStory(t)
	story["000099.sst"] = snapshotFile{[]byte("half"), 4096}
	if err := sameRows(open(t, story.restore(t, "", nil)), model[len(model)-1]); err != nil {
		t.Error(err)
	}
}

// Pages of a write-ahead file that never reached the disk read as zeros. Badger cuts the log there without a word; what
// is left is the rows of an earlier commit, or refused.
func TestLostPages(t *testing.T) {
	t.Parallel()
	story, model := newStory(t)
	random := rand.New(rand.NewPCG(1, 2))
	cut := 0
	for name, f := range story {
		if filepath.Ext(name) != ".mem" {
			continue
		}
		for range 6 {
			page := random.IntN(len(f.content)/4096+1) * 4096
			dir := story.restore(t, name, func(b []byte) { clear(b[page:min(page+4096, len(b))]) })
			outcome, err := openDamaged(t, dir, model)
			if err != nil {
				t.Errorf("page %d: %v", page/4096, err)
			}
			if outcome == "opened" && open(t, dir).Checkpoint().Next < int64(len(model)-1) {
				cut++
			}
		}
	}
	if cut == 0 {
		t.Error("no log was cut: the test misses what it is for")
	}
}

// What the system does not grant is no damage: the store would be moved aside and rebuilt for nothing.
func TestTooFewFilesAreNoDamage(t *testing.T) {
	badgers := func(err error) error { return y.Wrapf(err, "while opening memtables") } // which keeps only the text
	for _, err := range []error{
		syscall.EMFILE, badgers(syscall.EMFILE), badgers(&fs.PathError{Op: "open", Path: "1.mem", Err: syscall.ENOSPC}),
		badgers(errors.Join(syscall.ENOMEM, errors.New("while mmapping"))), syscall.EACCES, syscall.EROFS,
	} {
		if got := damage("badger", err); errors.Is(got, ErrCorrupt) {
			t.Errorf("%v: got %v, want another error", err, got)
		}
	}
	for _, err := range []error{badgers(errors.New("checksum mismatch")), fs.ErrNotExist, syscall.EIO, io.ErrUnexpectedEOF} {
		if got := damage("badger", err); !errors.Is(got, ErrCorrupt) {
			t.Errorf("%v: got %v, want %v", err, got, ErrCorrupt)
		}
	}
}

// Badger knows two kinds of checksums. It panics on any other.
func TestKindsOfChecksums(t *testing.T) {
	data := []byte("data")
	for algorithm, want := range map[pb.Checksum_Algorithm]bool{pb.Checksum_CRC32C: true, pb.Checksum_XXHash64: true, 7: false} {
		sum := pb.Checksum{Algo: algorithm}
		if want {
			sum.Sum = y.CalculateChecksum(data, algorithm)
		}
		b, err := proto.Marshal(&sum)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifySum(data, b); (err == nil) != want {
			t.Errorf("%v: got %v, want it to be right: %v", algorithm, err, want)
		}
		if err := verifySum([]byte("other"), b); err == nil {
			t.Errorf("%v: got no error for other data", algorithm)
		}
	}
}

// An old copy put back is a good store. What gives it away is its checkpoint: the owner finds other records in the log
// behind Next than it folded before, or none at TailOffset.
func TestAnOldCopyPutBackShowsItsAge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := Checkpoint{Next: 10, Epoch: 5, TailOffset: 9, TailCRC: 0xaaaa}
	if err := s.Commit(old, []Change{put("a", "1")}); err != nil {
		t.Fatal(err)
	}
	closeChecked(t, s)
	kept := takeSnapshot(t, dir).restore(t, "", nil)
	s = open(t, dir)
	if err := s.Commit(Checkpoint{Next: 20, Epoch: 6, TailOffset: 19, TailCRC: 0xbbbb}, []Change{replace("a", "1", "2")}); err != nil {
		t.Fatal(err)
	}
	closeChecked(t, s)
	s = open(t, kept)
	got := s.Checkpoint()
	got.Digest, got.Rows = 0, 0
	if got != old {
		t.Errorf("got %+v, want the old checkpoint %+v", got, old)
	}
	if got := rowsOf(t, s); got != "a=1" {
		t.Errorf("got %q, want the old rows", got)
	}
}

// pageOf returns the key of a page in the bucket that a row is in, and a page with that row alone.
func pageOf(number uint64, row, value string) (key, content []byte) {
	return pageKey((&bucketHash{}).bucketOf([]byte(row)), number), appendRow(nil, []byte(row), []byte(value))
}

// Rows that change behind the store's back, as by damage that no checksum of Badger's finds, are found by the digest.
func TestLoadFindsRowsThatChanged(t *testing.T) {
	t.Parallel()
	pageA, rowA := pageOf(0, "a", "1")
	set := func(number uint64, row, value string) func(*badger.Txn) error {
		return func(txn *badger.Txn) error { return txn.Set(pageOf(number, row, value)) }
	}
	for name, tamper := range map[string]func(txn *badger.Txn) error{
		"a page is gone":         func(txn *badger.Txn) error { return txn.Delete(pageA) },
		"a row is older":         set(0, "a", "0"),
		"a newer page is back":   set(1, "a", "2"),
		"a row is back":          set(0, "z", "1"),
		"a row is deleted":       func(txn *badger.Txn) error { return txn.Set(pageA, appendRow(nil, []byte("a"), nil)) },
		"a row is there twice":   func(txn *badger.Txn) error { return txn.Set(pageA, slices.Repeat(rowA, 2)) },
		"two values swapped":     func(txn *badger.Txn) error { return errors.Join(set(0, "a", "2")(txn), set(1, "b", "1")(txn)) },
		"a page is cut short":    func(txn *badger.Txn) error { return txn.Set(pageA, rowA[:2]) },
		"a page has a byte more": func(txn *badger.Txn) error { return txn.Set(pageA, append(slices.Clone(rowA), 1)) },
		"a page is empty":        func(txn *badger.Txn) error { return txn.Set(pageA, nil) },
		"a foreign key":          func(txn *badger.Txn) error { return txn.Set([]byte("x"), nil) },
		"a key cut short":        func(txn *badger.Txn) error { return txn.Set(pageA[:5], rowA) },
		"no key of buckets":      func(txn *badger.Txn) error { return txn.Delete([]byte(bucketHashKey)) },
		"another key": func(txn *badger.Txn) error {
			return txn.Set([]byte(bucketHashKey), (&bucketHash{key: [16]byte{1}}).append(nil))
		},
		"another checkpoint": func(txn *badger.Txn) error { return txn.Set([]byte(checkpointKey), []byte{checkpointFormat}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			commit(t, s, 1, put("a", "1"))
			commit(t, s, 2, put("b", "2"))
			if err := s.db.Update(tamper); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(); !errors.Is(err, ErrDigest) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("check: got %v, want %v or %v", err, ErrDigest, ErrCorrupt)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, quiet())
			if err == nil {
				err = errors.Join(s.Load(func(_, _ []byte) error { return nil }), s.Close())
			}
			if !errors.Is(err, ErrDigest) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("open and load: got %v, want %v or %v", err, ErrDigest, ErrCorrupt)
			}
		})
	}
}
