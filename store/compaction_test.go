package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/rows"
)

// churn commits changes of some of n rows again and again, a tenth of them deletions, and returns what must be there.
func churn(t *testing.T, s *Store, random *rand.Rand, n, commits int) map[string][]byte {
	t.Helper()
	kept := make(map[string][]byte)
	for at := range commits {
		changes := make(map[string]Change)
		for range n / 10 {
			key := fmt.Sprint("row-", random.IntN(n))
			c := Change{Key: []byte(key)}
			if old, ok := kept[key]; ok {
				c.Old = rows.Sum(c.Key, old)
			}
			if random.IntN(10) > 0 {
				c.Value = fmt.Appendf(nil, "%d%s", at, strings.Repeat("x", random.IntN(60)))
			}
			changes[key] = c
		}
		all := slices.Collect(maps.Values(changes))
		commit(t, s, int64(at+1), all...)
		apply(kept, all)
	}
	return kept
}

// size returns how many pages there are, and their bytes.
func size(s *Store) (pages, bytes int) {
	for i := range s.buckets {
		pages += len(s.buckets[i].pages)
		bytes += s.buckets[i].base + s.buckets[i].delta
	}
	return pages, bytes
}

// However often rows change, a store is not much larger than three times its rows, and holds what it must.
func TestCompactionsKeepAStoreSmall(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	s := open(t, dir)
	want := churn(t, s, random, 20_000, 100)
	if err := sameRows(s, want); err != nil {
		t.Fatal(err)
	}
	live := 0
	for key, value := range want {
		live += len(appendRow(nil, []byte(key), value))
	}
	pages, bytes := size(s)
	t.Logf("%d pages, %d bytes for %d", pages, bytes, live)
	if bound := 4*live + buckets*8<<10; bytes > bound { // a quarter above the bound is what is due, but not yet done
		t.Errorf("got %d bytes for rows of %d, want at most %d", bytes, live, bound)
	}
	buckets := s.buckets
	closeChecked(t, s)
	s = open(t, dir)
	if err := sameRows(s, want); err != nil {
		t.Error(err)
	}
	for i := range buckets {
		if got, want := fmt.Sprint(s.buckets[i]), fmt.Sprint(buckets[i]); got != want {
			t.Errorf("bucket %d: read back as %s, want %s", i, got, want)
		}
	}
	if _, ok := want["row-7"]; ok {
		commit(t, s, 1000, Change{Key: []byte("row-7"), Old: rows.Sum([]byte("row-7"), want["row-7"])})
	}
}

// Commits of a few rows make pages of one row each, and each takes memory and time to load: there must not be many more
// pages than a bucket needs.
func TestSmallCommitsLeaveFewPages(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	changes := newRows(20_000, 0)
	commit(t, s, 0, changes...)
	bound := 0
	for n := range 3000 {
		some := make([]Change, 0, 20)
		for i := range cap(some) {
			c := &changes[(n*cap(some)+i*997)%len(changes)]
			c.Old = rows.Sum(c.Key, c.Value)
			c.Value[0]++
			some = append(some, *c)
		}
		commit(t, s, int64(n), some...)
		pages, _ := size(s)
		bound = max(bound, pages)
	}
	if pages := bound / buckets; pages < 10 || pages > 50 { // 4 KiB and twice its rows, at 256 each, is 40
		t.Errorf("got up to %d pages for each bucket, want some, and not 200 as by their bytes alone", pages)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// overfill puts several versions of rows, and deletions of others, into one bucket, none of them compacted.
func overfill(t *testing.T, s *Store) (index int, want map[string][]byte) {
	t.Helper()
	want = make(map[string][]byte)
	keys := crowd(4)
	for version := range 4 {
		pages := []newPage{{bucket: 7}}
		c := s.last
		var changes []Change
		for i := range 4 {
			key := keys[i]
			change := Change{Key: []byte(key), Value: []byte(fmt.Sprint(version, strings.Repeat("v", pageSize/2)))}
			if old, ok := want[key]; ok {
				change.Old = rows.Sum(change.Key, old)
			}
			if i == version {
				change.Value = nil
			}
			changes = append(changes, change)
		}
		apply(want, changes)
		for _, p := range s.pack(&c, changes, 1<<20) {
			pages[0].content = append(pages[0].content, p.content...)
		}
		if err := s.db.Update(func(txn *badger.Txn) error { return s.write(txn, &c, pages) }); err != nil {
			t.Fatal(err)
		}
		s.buckets[7].add(page{number: s.number, size: len(pages[0].content)})
		s.number++
		s.last = c
	}
	return 7, want
}

// A compaction may take several transactions. It may end after any of them, for example by a crash. Then the rows are the same,
// and another compaction does what the first one would have done.
func TestACompactionMayEndAnywhere(t *testing.T) {
	t.Parallel()
	var steps int
	for stop := 0; stop <= steps; stop++ {
		dir := t.TempDir()
		s := open(t, dir)
		index, want := overfill(t, s)
		if err := compactUntil(s, index, stop, &steps); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil { // not as it believes it is: that is the crash
			t.Fatal(err)
		}
		s = open(t, dir)
		if err := sameRows(s, want); err != nil {
			t.Errorf("after %d of %d steps: %v", stop, steps, err)
		}
		err := s.inSplitTxn(func(t *splitTxn) (err error) {
			s.buckets[index], err = s.compactBucket(t, index, &s.buckets[index])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		b := s.buckets[index]
		if err := sameRows(s, want); err != nil {
			t.Errorf("after %d of %d steps and another compaction: %v", stop, steps, err)
		}
		if len(b.pages) != 2 || b.delta != 0 {
			t.Errorf("after %d of %d steps and another compaction: got %+v, want two compacted pages", stop, steps, b)
		}
	}
	if steps != 6 {
		t.Errorf("got %d steps, want two pages written and four deleted", steps)
	}
}

// compactUntil does the first steps of a compaction, each in a transaction of its own, and sets steps to how many there are.
func compactUntil(s *Store, index, stop int, steps *int) error {
	contents, err := s.compactedPages(index, &s.buckets[index])
	if err != nil {
		return err
	}
	pages := s.buckets[index].pages
	*steps = len(contents) + len(pages)
	for i := range stop {
		err := s.db.Update(func(txn *badger.Txn) error {
			if i < len(contents) {
				return txn.SetEntry(badger.NewEntry(pageKey(index, s.number+uint64(i)), contents[i]).WithMeta(compactedPage))
			}
			return txn.Delete(pageKey(index, pages[i-len(contents)].number))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Two compacted pages of short rows fill a block of Badger's, and do not begin another with half of it wasted.
func TestCompactedPagesFitBlocks(t *testing.T) {
	s := open(t, t.TempDir())
	for version := range 2 {
		var changes []Change
		for _, key := range crowd(2000) {
			c := put(key, strings.Repeat(fmt.Sprint(version), 100))
			if version > 0 {
				c.Old = rows.Sum(c.Key, []byte(strings.Repeat("0", 100)))
			}
			changes = append(changes, c)
		}
		commit(t, s, int64(version+1), changes...)
	}
	const overhead = 64 // of an entry in a block, more than it is
	full := 0
	for _, p := range s.buckets[7].pages {
		if 2*(p.size+overhead) > blockSize {
			t.Errorf("got a page of %d bytes, want two in a block of %d", p.size, blockSize)
		}
		if p.compacted && p.size >= pageSize {
			full++
		}
	}
	if full == 0 {
		t.Error("got no full page that was compacted")
	}
}

// A bucket that fits no transaction is compacted in several.
func TestALargeBucketIsCompactedInSeveralTransactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	want := make(map[string][]byte)
	keys := crowd(12)
	for at := range 4 {
		for part := range 4 { // together larger than a transaction
			var changes []Change
			for i := range 3 {
				key := keys[part*3+i]
				c := Change{Key: []byte(key), Value: fmt.Appendf(nil, "%d%s", at, strings.Repeat("v", maxValue/2))}
				if old, ok := want[key]; ok {
					c.Old = rows.Sum(c.Key, old)
				}
				changes = append(changes, c)
			}
			commit(t, s, int64(at), changes...)
			apply(want, changes)
		}
	}
	if err := s.compact(1 << 30); err != nil {
		t.Fatal(err)
	}
	if err := sameRows(s, want); err != nil {
		t.Error(err)
	}
	if b := s.buckets[7]; b.base <= s.MaxBytes() || b.isDue() {
		t.Errorf("got %d bytes compacted and %d since, want more than the %d of a transaction compacted", b.base, b.delta, s.MaxBytes())
	}
	closeChecked(t, s)
	if err := sameRows(open(t, dir), want); err != nil {
		t.Error(err)
	}
}

// A compaction that fails makes its commit fail, although the commit is on disk. The store accepts no further commit, and after
// another Open, Check says what is wrong.
func TestACompactionThatFailsEndsTheStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	index, _ := overfill(t, s)
	lost := pageKey(index, s.buckets[index].pages[3].number)
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Delete(lost) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(Checkpoint{Next: 7}, nil); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNoSpace) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
	if err := s.Commit(Checkpoint{Next: 8}, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a commit after it: got %v, want %v", err, ErrCorrupt)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Checkpoint().Next; got != 7 {
		t.Errorf("got next %d, want the 7 that is on disk", got)
	}
	if err := errors.Join(s.Check(), s.Close()); !errors.Is(err, ErrDigest) {
		t.Errorf("opened again: got %v, want %v", err, ErrDigest)
	}
}

// Pages that are no more take their place on disk only until Badger compacts its tables: what a store takes depends on
// what it holds, not on how much was ever committed.
func TestChurnTakesNoMoreDisk(t *testing.T) {
	testenv.Long(t)
	dir := t.TempDir()
	s, err := openSmall(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	changes := newRows(20_000, 0)
	for i := range changes {
		changes[i].Value = append(changes[i].Value, make([]byte, 50)...)
	}
	committed, bound := int64(0), int64(0)
	for n := range int64(800) {
		some := make([]Change, 0, 1000)
		for i := range cap(some) {
			c := &changes[(int(n)*cap(some)+i)%len(changes)]
			if n >= 20 {
				c.Old = rows.Sum(c.Key, c.Value)
			}
			c.Value[0]++
			some = append(some, *c)
			committed += int64(Bytes(c))
		}
		commit(t, s, n, some...)
		if n%10 > 0 {
			continue
		}
		now := int64(0)
		for _, f := range files(t, dir, "*.sst") {
			now += f.Size()
		}
		bound = max(bound, now)
	}
	t.Logf("%d MiB committed, up to %d MiB of tables", committed>>20, bound>>20)
	if bound > 40<<20 { // five tables at the top, a level of 10 MiB, and what is being rewritten
		t.Errorf("got %d MiB of tables for %d rows", bound>>20, len(changes))
	}
	closeChecked(t, s)
}

// A commit does a part of the work: it compacts buckets that are due until their bytes are the budget, and one at least.
func TestACompactionKeepsToItsBudget(t *testing.T) {
	s := open(t, t.TempDir())
	var changes []Change
	for i := range 40 * buckets {
		changes = append(changes, put(fmt.Sprint("key-", i), strings.Repeat("v", 150)))
	}
	pages := s.pack(&s.last, changes, 1<<24) // as a commit does that compacts nothing
	if err := s.db.Update(func(txn *badger.Txn) error { return s.write(txn, &s.last, pages) }); err != nil {
		t.Fatal(err)
	}
	s.bucketHash.stored = true
	for _, p := range pages {
		s.buckets[p.bucket].add(page{number: s.number, size: len(p.content)})
		s.number++
	}
	due := func() (n int) {
		for i := range s.buckets {
			if s.buckets[i].isDue() {
				n++
			}
		}
		return n
	}
	before := due()
	for budget, want := range map[int]int{1: 1, 0: 0, -1: 0} {
		was := due()
		if err := s.compact(budget); err != nil || was-due() != want {
			t.Errorf("a budget of %d bytes: got %v and %d buckets compacted, want %d", budget, err, was-due(), want)
		}
	}
	if before < buckets/2 || due() != before-1 {
		t.Errorf("got %d buckets due and then %d, want most, and one less", before, due())
	}
}

// If the disk has no room for a compaction, it waits until the disk has. That is no error: the commit before it is on disk. If
// Commit returned an error, the owner would commit the changes twice.
func TestACompactionWaitsForRoom(t *testing.T) {
	s := open(t, t.TempDir())
	index, want := overfill(t, s)
	before := slices.Clone(s.buckets[index].pages)
	s.minFree = 1 << 60
	if err := s.compact(1 << 30); err != nil {
		t.Errorf("without room: got %v", err)
	}
	if got := s.buckets[index].pages; !slices.Equal(got, before) {
		t.Errorf("without room: got pages %+v, want %+v", got, before)
	}
	s.minFree = 1
	if err := s.compact(1 << 30); err != nil {
		t.Errorf("with room: got %v", err)
	}
	if b := s.buckets[index]; b.isDue() || len(b.pages) != 2 {
		t.Errorf("with room: got pages %+v, want two compacted ones", b.pages)
	}
	if err := sameRows(s, want); err != nil {
		t.Error(err)
	}
}
