package migrate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestPoolsBeginAnewElsewhere: what callers counted moves, and the pool's demand and level do not. The owners of the target find a level of
// their own.
func TestPoolsBeginAnewElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := foldtest.Rules(t, "{name: search, callers: key, capacity: 20, window: 1s}", "{name: hourly, callers: key, limit: 1000, window: 1h}")
		seq := uint64(0)
		contended := func(s *site) {
			s.start()
			for range 20 {
				seq++
				var list []message
				for p := range partitions {
					now := time.Now().UnixNano()
					f := foldtest.Frame(seq, now)
					f.Partitions = partitions
					for _, id := range []string{"a", "b", "c", "d"} {
						if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), partitions) == p {
							f.Entries = append(f.Entries, schemas.Entry{Time: now, Kind: "key", ID: id, Count: 3})
						}
					}
					if len(f.Entries) > 0 {
						list = append(list, message{p, foldtest.Encode(t, f)})
					}
				}
				s.send(list...)
				time.Sleep(200 * time.Millisecond)
			}
			s.end()
		}
		old := newSite(t, newKafka("old"), "old", set)
		contended(old)
		before := old.stored(fold.CountRow)
		if pools := old.stored(fold.PoolRow); len(pools) != partitions {
			t.Fatalf("got %d rows of pools in the source, want one of each partition", len(pools))
		}
		kafka, dir := newKafka("new"), t.TempDir()
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		fresh := newSite(t, kafka, "new", set)
		fresh.dir = dir
		sameRows(t, "counts", fresh.stored(fold.CountRow), before)
		if pools := fresh.stored(fold.PoolRow); len(pools) != 0 {
			t.Errorf("got rows of pools in the target: %q, want none", pools)
		}
		contended(fresh)
		levels := 0
		for _, o := range fresh.owners {
			for _, p := range o.Stats().Fold.Pools {
				if p.Level.Level > 0 {
					levels++
				}
			}
		}
		if levels != 1 {
			t.Errorf("got %d levels in the target, want that of the home", levels)
		}
	})
}
