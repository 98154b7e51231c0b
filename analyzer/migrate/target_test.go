package migrate

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestASnapshotCountsThoughItsAnnouncementIsLost: the topic of decisions has lost all. The log begins at offset 0, but it does not have
// what was counted before the migration.
func TestASnapshotCountsThoughItsAnnouncementIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka := counted(t), newKafka("new")
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); err != nil {
			t.Fatal(err)
		}
		kafka.Recreate(topicsOf("new").Decisions)
		next := old.successor(kafka)
		next.rest()
		sameRows(t, "migrated", next.stored(countRows...), old.stored(countRows...))

		var log bytes.Buffer
		kafka.Recreate(topicsOf("new").Decisions, topicsOf("new").State)
		lost := old.successor(kafka)
		lost.conf.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		lost.rest()
		if n := strings.Count(log.String(), "the counts that were brought from another log are lost"); n != partitions {
			t.Errorf("without snapshots: got it said %d times, want once for each partition:\n%s", n, log.String())
		}
	})
}

// TestCountsAreNotUsedWithAnotherLog: the topic of requests is made anew after a migration. No row of another log is counted there.
func TestCountsAreNotUsedWithAnotherLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		kafka.Recreate(topicsOf("new").Requests)
		v := &traffic{t: t, rnd: rand.New(rand.NewPCG(1, 2)), ids: 6}
		want := newSite(t, newKafka("new"), "new", old.conf.Rules)
		list := v.next()
		for _, s := range []*site{want, old.successor(kafka)} {
			s.send(list...)
		}
		want.rest()
		elsewhere, here := old.successor(kafka), old.successor(kafka.Clone())
		here.dir = dir // the stores that the migration has made
		for _, s := range []*site{elsewhere, here} {
			s.rest()
			if got := s.stored(fold.ProducerRow, fold.SourceRow); len(got) != len(want.stored(fold.ProducerRow, fold.SourceRow)) {
				t.Errorf("got senders %q, want only those of the new log", got)
			}
		}
	})
}

// TestTheStoresOfAMigrationAreThoseOfAnAnalyzer: an analyzer on this host goes on from Dir.
func TestTheStoresOfAMigrationAreThoseOfAnAnalyzer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		kafka.Recreate(topicsOf("new").State) // so that nothing but the store has the counts
		next := old.successor(kafka)
		next.dir = dir
		next.rest()
		sameRows(t, "stores", next.stored(countRows...), old.stored(countRows...))
		next.wantAudited(time.Now())
	})
}

// TestAFullTableIsMigrated: there are more callers than rows, so that some wait and rows are marked. All rows without a mark are exact
// afterwards, too.
func TestAFullTableIsMigrated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		set := allRules(t)
		v := &traffic{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), ids: 40}
		ref, old := newSite(t, newKafka("ref"), "ref", set), newSite(t, newKafka("old"), "old", set)
		old.conf.Fold.MaxRows = 60
		run := func(s *site) {
			for range 150 {
				list := v.next()
				ref.send(list...)
				s.send(list...)
				time.Sleep(2 * time.Second)
			}
		}
		ref.start()
		old.start()
		run(old)
		waiting := old.owners[0].Stats().Fold.Waiting
		old.end()
		kafka := newKafka("new")
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); err != nil {
			t.Fatal(err)
		}
		fresh := old.successor(kafka)
		fresh.rest()
		marks, _ := marked(t, old)
		if got, _ := marked(t, fresh); got != marks || marks == 0 || waiting == 0 {
			t.Errorf("got %d marked rows and %d callers that waited, want %d, and some of both", got, waiting, marks)
		}
		fresh.start()
		time.Sleep(time.Second)
		run(fresh)
		fresh.end()
		ref.end()
		all := ref.stored(fold.CountRow)
		_, exact := marked(t, fresh)
		for key, value := range exact {
			if all[key] != value {
				t.Errorf("row %q, which is not marked: got %x, want %x", key, value, all[key])
			}
		}
		if len(exact) == 0 {
			t.Error("got no exact row: nothing is tried")
		}
	})
}

// marked returns how many rows are marked, and all others.
func marked(t *testing.T, s *site) (marks int, exact map[string]string) {
	t.Helper()
	exact = make(map[string]string)
	for key, value := range s.stored(fold.CountRow) {
		row, err := fold.ParseRow([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		if row.LowerBound() {
			marks++
			continue
		}
		exact[key] = value
	}
	return marks, exact
}

// TestEventsAreNotLost: the topic of events of the source is away before the migration. What it lacks is in that of the target. There is no
// gap.
func TestEventsAreNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := counted(t)
		v := &traffic{t: t, rnd: rand.New(rand.NewPCG(1, 2)), ids: 3}
		old.start()
		old.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Topic == old.topics.Events {
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		})
		closing := schemas.Control{
			ID: schemas.ControlID{77}, Time: time.Now().UnixNano(), Author: "ann", Reason: "a test", Action: schemas.ControlClose, Caller: v.callers()[0],
			Until: time.Now().Add(time.Hour).UnixNano(),
		}
		old.decide(closing)
		time.Sleep(10 * time.Second)
		old.end()
		kafka := newKafka("new")
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); err != nil {
			t.Fatal(err)
		}
		next := old.successor(kafka)
		next.rest()
		found := 0
		for p := range partitions {
			for _, r := range kafka.Records(next.topics.Events, p) {
				e, err := event.Decode(r.Value)
				if err != nil || e.Type == event.Gap {
					t.Errorf("got %s, %v, want no gap", r.Value, err)
				}
				if e.Type == event.Closed && e.Caller.Caller() == closing.Caller {
					found++
				}
			}
		}
		if found != 1 {
			t.Errorf("got %d events of the closure, want 1", found)
		}
	})
}

// TestTheTargetHasHigherEpochs: a gate that has read the decisions of the source believes those of the target.
func TestTheTargetHasHigherEpochs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka := counted(t), newKafka("new")
		ahead := uint64(time.Now().Add(time.Hour).UnixMilli())
		for p := range partitions { // a clock was wrong once
			value, err := pb.AppendClaim(nil, &schemas.Claim{Partition: int32(p), Epoch: ahead, Nonce: 1, Owner: "x"})
			if err != nil {
				t.Fatal(err)
			}
			old.log.Append(old.topics.Decisions, p, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
		}
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); err != nil {
			t.Fatal(err)
		}
		for p := range partitions {
			r, err := pb.Decode(kafka.Records(topicsOf("new").Decisions, p)[0].Value)
			if err != nil || r.Claim == nil || r.Claim.Epoch <= ahead+1 {
				t.Errorf("got %+v, %v, want a claim of an epoch above %d", r, err, ahead+1)
			}
		}
	})
}

// TestAMigrationHasNothingToSay: neither the owners of the source nor those of the target find anything that a person should look at, and
// the target writes no event about an earlier decision, unless that was undone.
func TestAMigrationHasNothingToSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		old, kafka := counted(t), newKafka("new")
		c := old.migration(kafka, "new", t.TempDir())
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if _, err := Run(t.Context(), c); err != nil || log.Len() > 0 {
			t.Errorf("got %v, and a log of\n%s\nwant none", err, log.String())
		}
		for p := range partitions {
			for _, r := range kafka.Records(topicsOf("new").Events, p) {
				if e, err := event.Decode(r.Value); err != nil || e.Action != schemas.ControlUndo.String() {
					t.Errorf("got the event %s, want none: the source has written all", r.Value)
				}
			}
		}
	})
}

// TestASnapshotIsComparedWithTheSource: one count, one sender or one control record more or less is an error.
func TestASnapshotIsComparedWithTheSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		m := &migration{Config: old.migration(kafka, "new", dir), partitions: partitions}
		if found, err := m.readNote(); err != nil || !found || !m.note.Done {
			t.Fatalf("got %+v, %v, want a migration that is done", m.note, err)
		}
		if err := m.readCopies(t.Context()); err != nil {
			t.Fatal(err)
		}
		compare := func() error {
			place, err := decisions.Find(t.Context(), m.cursor(m.Topics.Decisions, 0), 0, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			return m.compare(t.Context(), 0, place.Beat.State-1)
		}
		if err := compare(); err != nil {
			t.Errorf("got %v, want no difference", err)
		}
		for name, change := range map[string]func(){
			"a count": func() {
				f := foldtest.KeysFrame(foldtest.Producer(1), 1000, time.Now(), "a", "b", "c", "d", "e")
				f.Partitions = partitions
				old.send(message{0, foldtest.Encode(t, f)})
			},
			"a sender": func() {
				f := foldtest.KeysFrame(foldtest.Producer(77), 1, time.Now())
				f.Partitions = partitions
				old.send(message{0, foldtest.Encode(t, f)})
			},
			"a control record": func() {
				old.decide(schemas.Control{
					ID: schemas.ControlID{88}, Time: time.Now().UnixNano(), Author: "ann", Reason: "a test", Action: schemas.ControlMode,
					Until: time.Now().Add(time.Hour).UnixNano(),
				})
			},
		} {
			aside := filepath.Join(t.TempDir(), "aside")
			if err := os.CopyFS(aside, os.DirFS(old.dir)); err != nil {
				t.Fatal(err)
			}
			log := old.log
			old.log = log.Clone()
			change()
			old.rest()
			if err := compare(); !errors.Is(err, ErrDiffers) {
				t.Errorf("%s: got %v, want %v", name, err, ErrDiffers)
			}
			if err := errors.Join(os.RemoveAll(old.dir), os.Rename(aside, old.dir)); err != nil {
				t.Fatal(err)
			}
			old.log = log
		}
	})
}

// TestPeoplesDecisionsAreCopied: the control topic of the target has what the source remembers, in its order, and what undid it. So it can
// be listed there, and undone by its id. The rows name the copies.
func TestPeoplesDecisionsAreCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		for p := range partitions {
			first := kafka.Records(topicsOf("new").Requests, p)[0]
			logTime, migrated := schemas.Migrated(first.Value)
			if _, at, err := analyzer.Inspect(filepath.Join(old.dir, strconv.Itoa(p)), old.conf.Rules, old.conf.Fold); err != nil || !migrated || logTime != at.LogTime {
				t.Errorf("requests/%d begins with log time %d, %v, %v, want %d", p, logTime, migrated, err, at.LogTime)
			}
		}
		var want, got []schemas.Control
		at := make(map[schemas.ControlID]int64)
		read := func(k *kafkaiotest.Kafka, topic string, list *[]schemas.Control) {
			control.Decode(&kafkaio.Batch{Records: k.Records(topic, 0)}, func(r *control.Record) {
				if r.Control.OfPeople() {
					*list, at[r.Control.ID] = append(*list, r.Control), r.Offset
				}
			})
		}
		read(old.log, old.topics.Control, &want)
		undo := want[len(want)-1] // of the first
		want = slices.Insert(want[:len(want)-1], 1, undo)
		read(kafka, topicsOf("new").Control, &got)
		if !reflect.DeepEqual(got, want) || undo.Action != schemas.ControlUndo {
			t.Errorf("got %+v, want %+v", got, want)
		}
		next, records := old.successor(kafka), 0
		next.rest()
		for p := range partitions {
			m := &migration{Config: next.migration(kafka, "new", ""), partitions: partitions}
			err := m.load(t.Context(), p, func(key, value []byte) error {
				if fold.KindOf(key) != fold.ControlRow {
					return nil
				}
				r, err := override.ReadRecord(key, value)
				if r.Offset != at[r.ID] || r.From != 1 {
					t.Errorf("got %s of offset %d, applied before %d, want %d and 1", r.ID, r.Offset, r.From, at[r.ID])
				}
				records++
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if records == 0 {
			t.Error("got no rows of control records: nothing is tried")
		}
	})
}

// TestRequestsMayComeMeanwhile: servers and sources of lines write to the target before the migration is over. All of it is counted, and
// ends what it would have ended in an installation that was never migrated.
func TestRequestsMayComeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{topicsOf("new").Decisions, topicsOf("new").State} {
		synctest.Test(t, func(t *testing.T) {
			old, kafka := counted(t), newKafka("new")
			var came []kafkaio.Message // the same for each partition
			send := func(log *kafkaiotest.Kafka, prefix string) {
				for p := range partitions {
					log.Append(topicsOf(prefix).Requests, p, came...)
				}
			}
			kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
				if c.Op == kafkaiotest.OpProduce && c.Topic == topic && came == nil {
					f := foldtest.KeysFrame(foldtest.Producer(50), 1, time.Now(), "new0", "new1", "new2", "new3")
					f.Partitions = partitions
					came = append(came, kafkaio.Message{Time: time.Now().UnixNano(), Value: foldtest.Encode(t, f)})
					send(kafka, "new")
				}
				return kafkaiotest.Fault{}
			})
			if _, err := old.migrateTo(kafka, "new", t.TempDir()); err != nil {
				t.Fatal(err)
			}
			kafka.SetFault(nil)
			send(old.log, "old")
			next := old.successor(kafka)
			next.rest()
			old.rest()
			got, fresh := next.stored(fold.CountRow), 0
			for key := range got {
				if strings.Contains(key, "key:new") {
					fresh++
				}
			}
			sameRows(t, "migrated", got, old.stored(fold.CountRow))
			if fresh != 3*4 { // three rules count requests of keys
				t.Errorf("%s: got %d rows of callers that came meanwhile, want 12", topic, fresh)
			}
		})
	}
}
