package analyzer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// makeNewer makes a store look like one of the release after this one, to which nothing in it is known.
func makeNewer(t *testing.T, dir string) {
	t.Helper()
	line := fmt.Sprintf("floodgate store %d v0.2.0 ", rows.Format+1)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %q and %v", tables, err)
	}
	for path, content := range map[string]string{
		filepath.Join(dir, "FORMAT"): fmt.Sprintf("%s%016x\n", line, xxhash.Sum64String(line)), tables[0]: "a table of Badger v9",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newerSnapshots makes all snapshots look like ones of the release after this one.
func (w *world) newerSnapshots() {
	w.log.Edit("state", 0, func(records []kafkaio.Record) []kafkaio.Record {
		for i, r := range records {
			rec, err := pb.DecodeState(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			if b := rec.GetBegin(); b != nil {
				b.Format, b.Since = rows.Format+1, "v0.2.0"
				if records[i].Value, err = pb.AppendState(nil, rec); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		return records
	})
}

// wantNewer runs an owner, and wants it to end because of a newer version, which its error names.
func (w *world) wantNewer(says string) {
	w.t.Helper()
	w.start()
	time.Sleep(2 * time.Second)
	w.stop()
	if err := <-w.done; !errors.Is(err, rows.ErrNewer) || !strings.Contains(err.Error(), says) {
		w.t.Errorf("got %v, want %v that says %q", err, rows.ErrNewer, says)
	}
}

// TestAStoreOfANewerVersionStaysWhereItIs, and its partition is not even claimed.
func TestAStoreOfANewerVersionStaysWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a", "b")
		w.atRest()
		makeNewer(t, w.conf.Dir)
		before := len(w.log.Records("decisions", 0))
		w.wantNewer("v0.2.0")
		w.wantMovedAside(0)
		if got := len(w.log.Records("decisions", 0)); got != before {
			t.Errorf("got %d records of decisions, want the %d from before", got, before)
		}
	})
}

// TestASnapshotOfANewerVersion is not read. An owner that has nothing else to start from ends; one that has goes on.
func TestASnapshotOfANewerVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(w *world)
		ends    bool
	}{
		"no store": {(*world).wipe, true},
		"no store, and the log has its beginning no more": {func(w *world) { w.wipe(); w.log.Trim("requests", 0, 2) }, true},
		"a store from which the log can be counted":       {func(*world) {}, false},
		"a store that is far behind": {func(w *world) {
			for range 2*staleBy + 100 {
				w.prod.send(time.Now(), "a")
			}
			other := w.elsewhere(w.log)
			other.atRest()
		}, false},
		"a store that the log does not reach back to": {func(w *world) {
			w.prod.send(time.Now(), "a")
			w.prod.send(time.Now(), "a")
			other := w.elsewhere(w.log)
			other.atRest()
			w.log.Trim("requests", 0, 4)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.log.SetMaxRecords(0)
				for range 3 {
					w.prod.send(time.Now(), "a")
				}
				w.atRest()
				tc.prepare(w)
				w.newerSnapshots()
				states := len(w.log.Records("state", 0))
				if tc.ends {
					w.wantNewer("v0.2.0")
					if got := len(w.log.Records("state", 0)); got != states {
						t.Errorf("got %d records of state, want the %d from before", got, states)
					}
				} else {
					w.atRest()
					w.wantExact()
				}
				w.wantMovedAside(0)
			})
		})
	}
}

// sendNewer appends a frame of the next version.
func (w *world) sendNewer() {
	value := slices.Clone(w.grown(1, "a")[0].Value)
	binary.LittleEndian.PutUint16(value[2:], schemas.FrameVersion+1)
	w.log.Append("requests", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
}

// TestAFrameOfANewerVersion is refused and shown, unless an owner has said that it was able to read such frames: then the owner that cannot
// ends before it, and one that can counts it. Anybody who may write requests can forge such a frame.
func TestAFrameOfANewerVersion(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if known {
					w.log.say(t, pb.Record{Claim: &schemas.Claim{Epoch: 1}}, pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 1, Seq: 1, Frames: schemas.FrameVersion + 1}})
				}
				w.prod.send(time.Now(), "a")
				w.atRest() // a short while by an older version: what it has read in heartbeats, it passes on
				w.sendNewer()
				w.prod.send(time.Now(), "a")
				if known {
					w.wantNewer("offset 1")
					w.wantCounts(map[string]int64{"a": 1})
					if at := w.checkpoint(); at.Next != 1 {
						t.Errorf("got %+v, want all before the frame counted", at)
					}
					return
				}
				if got := w.atRest().Rejected["version"]; got != 1 {
					t.Errorf("got %d frames refused for their version, want 1", got)
				}
				w.wantCounts(map[string]int64{"a": 2})
			})
		})
	}
}

// TestAnOlderAnalyzerGivesItsPartitionsBack: its Run ends, and another member has all partitions and counts exactly.
func TestAnOlderAnalyzerGivesItsPartitionsBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	a := c.join(dir)
	c.send(50)
	c.await(a)
	c.leave(a)
	for p := range clusterPartitions {
		makeNewer(t, filepath.Join(dir, fmt.Sprint(p)))
	}
	older, newer := c.join(dir), c.join(t.TempDir())
	c.send(50)
	if err := <-older.done; !errors.Is(err, rows.ErrNewer) || !strings.Contains(err.Error(), "partition ") {
		t.Errorf("got %v, want %v about a partition", err, rows.ErrNewer)
	}
	c.await(newer)
	c.leave(newer)
	c.compare(map[int]string{0: newer.dir, 1: newer.dir, 2: newer.dir, 3: newer.dir})
	if aside, err := filepath.Glob(filepath.Join(dir, "*.broken-*")); err != nil || len(aside) > 0 {
		t.Errorf("moved aside: got %q, %v, want none", aside, err)
	}
}
