package store

import (
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// Write-ahead files of twoLogs.
const (
	olderLog = "00001.mem"
	newerLog = "00002.mem"
)

// twoLogs returns a store as a crash may leave it: two write-ahead files, neither of which has become a table, with
// commits and compactions in both of them, and the rows after each commit.
func twoLogs(t *testing.T) (snapshot, []map[string][]byte) {
	t.Helper()
	rows := make(map[string][]byte)
	model := []map[string][]byte{{}}
	tell := func(s *Store) snapshot {
		compactions := 0
		for range 15 {
			n := s.Checkpoint().Next
			changes := crashChanges(n, rows)
			apply(rows, changes)
			if compactsAfter(s, changes) {
				compactions++
			}
			commit(t, s, n+1, changes...)
			model = append(model, maps.Clone(rows))
		}
		if compactions == 0 {
			t.Fatal("nothing was compacted: the test misses what it is for")
		}
		return takeSnapshot(t, s.dir)
	}
	older := tell(open(t, t.TempDir()))
	newer := tell(open(t, older.restore(t, "", nil))) // Open makes a table of the older log and begins another
	older[newerLog] = newer[newerLog]                 // as if it had not come to the table
	if len(older[olderLog].content) == 0 || len(older[newerLog].content) == 0 {
		t.Fatalf("got no two logs: %d and %d bytes", len(older[olderLog].content), len(older[newerLog].content))
	}
	return older, model
}

// Of two write-ahead files either may lose what it has from some point on, and a newer one may be whole where an older one
// is not: what is left is no prefix then. Pages come back that a compaction had deleted, or are missing that it was made of.
// The rows are those of a commit all the same, or the store is refused.
func TestLostLogs(t *testing.T) {
	testenv.Long(t)
	story, model := twoLogs(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	outcomes := make(map[string]int)
	try := func(what string, dir string) {
		outcome, err := openDamaged(t, dir, model)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		outcomes[what+" "+outcome]++
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	try("whole", story.restore(t, "", nil))
	for range 8 {
		for _, name := range []string{olderLog, newerLog} {
			at := random.IntN(len(story[name].content))
			try(name+" ends early", story.restore(t, name, func(b []byte) { clear(b[at:]) }))
			try(name+" has a hole", story.restore(t, name, func(b []byte) { clear(b[at:min(at+4096, len(b))]) }))
		}
	}
	lost := maps.Clone(story)
	delete(lost, olderLog)
	try("older is gone", lost.restore(t, "", nil))
	t.Log(outcomes)
	for _, want := range []string{
		"whole opened", olderLog + " ends early refused", olderLog + " has a hole refused", newerLog + " ends early opened", "older is gone refused",
	} {
		if outcomes[want] == 0 {
			t.Errorf("got no %q: the test misses what it is for", want)
		}
	}
}
