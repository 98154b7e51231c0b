package migrate

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// sameRows compares two sets of rows.
func sameRows(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if other, ok := got[key]; !ok || other != value {
			t.Errorf("%s: row %q: got %x, want %x", what, key, other, value)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: got row %q, want none", what, key)
		}
	}
	if len(want) == 0 {
		t.Errorf("%s: got no rows to compare: nothing is tried", what)
	}
}

func sameClosures(t *testing.T, what string, got, want map[string]closure) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for key, c := range want {
		if got[key] != c {
			t.Errorf("%s: %s: a gate believes %+v, want %+v", what, key, got[key], c)
		}
	}
	for key, c := range got {
		if want[key] == (closure{}) {
			t.Errorf("%s: %s: a gate believes %+v, want it open", what, key, c)
		}
	}
}

// TestCountsGoOnElsewhere: half of the requests come before the migration, and half after it. Rows and closures are those of an installation
// that was never migrated, to the byte. What was counted before and is sent again counts once.
func TestCountsGoOnElsewhere(t *testing.T) {
	t.Parallel()
	histories := 1
	if testenv.IsLong() {
		histories = 5
	}
	for range histories {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			set := allRules(t)
			v := &traffic{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), ids: 6}
			person := foldtest.Operator{
				Rnd: rand.New(rand.NewPCG(seed, 1)), Callers: v.callers(), Rules: []string{"fixed", "sliding", "log", "bucket", "monthly", "cost"}, Fresh: true,
			}
			ref, old := newSite(t, newKafka("ref"), "ref", set), newSite(t, newKafka("old"), "old", set)
			both := func(rounds int, sites ...*site) {
				for range rounds {
					list, c := v.next(), person.Decide(time.Now().UnixNano())
					for _, s := range sites {
						s.send(list...)
					}
					time.Sleep(time.Second) // so that all apply what follows in the same place
					for _, s := range sites {
						if c.ID[0]%4 == 0 && c.Action != schemas.ControlRules {
							s.decide(c)
						}
					}
					time.Sleep(time.Second + time.Duration(v.rnd.Int64N(int64(6*time.Second))))
				}
			}
			ref.start()
			old.start()
			both(150, ref, old)
			migrated := time.Now()
			old.end()
			before := ref.closed()
			sameClosures(t, "before", old.closed(), before)

			kafka, dir := newKafka("new"), t.TempDir()
			report, err := old.migrateTo(kafka, "new", dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v, %d closures", report, len(before))
			fresh := newSite(t, kafka, "new", set)
			sameClosures(t, "migrated", fresh.closed(), ref.closed())
			for p := range partitions {
				if begin := kafka.Records(fresh.topics.State, p); len(begin) == 0 {
					t.Errorf("partition %d: got no snapshot", p)
				}
			}
			fresh.start()
			time.Sleep(3 * time.Second)
			resent := v.sent[len(v.sent)-60:]
			fresh.send(resent...)
			both(150, ref, fresh)
			duplicates := uint64(0)
			for _, o := range fresh.owners {
				duplicates += o.Stats().Fold.Duplicate
			}
			if duplicates < uint64(len(resent)) {
				t.Errorf("got %d duplicates, want at least the %d messages that were sent again", duplicates, len(resent))
			}
			sameClosures(t, "in the end", fresh.closed(), ref.closed())
			fresh.end()
			ref.end()
			sameRows(t, "counts", fresh.stored(fold.CountRow, fold.LossRow), ref.stored(fold.CountRow, fold.LossRow))
			sameRows(t, "control records", fresh.stored(fold.ControlRow), ref.stored(fold.ControlRow))
			fresh.wantAudited(migrated)
		})
	}
}

// wantAudited audits all stores, and wants no difference. What began after a migration must be audited, unless its window has no begin.
func (s *site) wantAudited(migrated time.Time) {
	s.t.Helper()
	for p := range partitions {
		c := audit.Config{
			Fold: s.conf.Fold, Requests: s.topics.Requests, Control: s.topics.Control, Dir: filepath.Join(s.dir, strconv.Itoa(p)), Rules: s.conf.Rules, Store: s.conf.Store,
		}
		c.Fold.Partition = p
		r, err := audit.Run(s.t.Context(), s.log, c)
		if err != nil || !r.Exact() || r.Approximate() || r.Agreed == 0 {
			s.t.Errorf("audit: got %v, %d agreed, approximate %v, differences %+v, damage %v", err, r.Agreed, r.Approximate(), r.Differences, r.Damage)
		}
		for _, d := range r.Unaudited {
			if d.Why != audit.WhyRetention || d.Rule != "bucket" && d.Start > migrated.UnixNano() {
				s.t.Errorf("audit: got %+v unaudited, want only what began before the migration", d)
			}
		}
	}
}
