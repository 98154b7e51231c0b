package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// counted returns a site that has counted for some minutes and is stopped. People have decided, too.
func counted(t *testing.T) *site {
	t.Helper()
	s := newSite(t, newKafka("old"), "old", allRules(t))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	v := &traffic{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), ids: 6}
	s.start()
	for i := range 40 {
		s.send(v.next()...)
		if i%10 == 0 {
			now := time.Now().UnixNano()
			s.decide(schemas.Control{
				ID: schemas.ControlID{byte(1 + i)}, Time: now, Author: "ann", Reason: "a test", Action: schemas.ControlClose, Caller: v.callers()[i%12],
				Until: now + int64(24*time.Hour),
			})
			s.decide(schemas.Control{
				ID: schemas.ControlID{byte(2 + i)}, Time: now, Author: "ann", Reason: "a test", Action: schemas.ControlMode, Rule: "fixed", Until: now + int64(time.Hour),
			})
		}
		time.Sleep(3 * time.Second)
	}
	s.decide(schemas.Control{
		ID: schemas.ControlID{99}, Time: time.Now().UnixNano(), Author: "ann", Reason: "a test", Action: schemas.ControlUndo, Target: schemas.ControlID{1},
	})
	time.Sleep(time.Second)
	s.end()
	return s
}

// successor returns the site of an analyzer that goes on in the target, elsewhere.
func (s *site) successor(kafka *kafkaiotest.Kafka) *site {
	next := newSite(s.t, kafka, "new", s.conf.Rules)
	next.conf.Fold = s.conf.Fold
	return next
}

// countRows are the kinds of rows that an analyzer elsewhere must have after a migration.
var countRows = []fold.RowKind{fold.CountRow, fold.LossRow, fold.ProducerRow, fold.SourceRow, fold.ControlRow}

// crash is what is there after a crash.
type crash struct {
	kafka *kafkaiotest.Kafka
	dir   string
}

// TestAMigrationGoesOnAfterACrash: the machine stops before each record that a migration writes. A second migration from there ends as if
// there had been no first one.
func TestAMigrationGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := counted(t)
		want := old.stored(countRows...)
		var crashes []crash
		kafka, dir := newKafka("new"), t.TempDir()
		kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpProduce {
				copied := filepath.Join(t.TempDir(), "copy")
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					t.Error(err)
				}
				crashes = append(crashes, crash{kafka.Clone(), copied})
			}
			return kafkaiotest.Fault{}
		})
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		kafka.SetFault(nil)
		if done, err := Finished(dir); err != nil || !done {
			t.Errorf("got finished %v, %v, want true", done, err)
		}
		for _, c := range crashes {
			if done, err := Finished(c.dir); err != nil || done {
				t.Errorf("got finished %v, %v after a crash, want false", done, err)
			}
		}
		crashes = append(crashes, crash{kafka, dir})
		step, at := 3, rand.IntN(3)
		if testenv.IsLong() {
			step, at = 1, 0
		}
		t.Logf("%d crashes, each %d. from %d on", len(crashes), step, at)
		for i, c := range crashes {
			if i%step != at && i < len(crashes)-1 {
				continue
			}
			report, err := old.migrateTo(c.kafka, "new", c.dir)
			if err != nil || len(report.Partitions) != partitions || report.Again != (i == len(crashes)-1) {
				t.Fatalf("crash %d: got %+v, %v, want %d partitions", i, report, err, partitions)
			}
			next := old.successor(c.kafka)
			sameClosures(t, "migrated", next.closed(), old.closed())
			next.rest()
			sameRows(t, "again", next.stored(countRows...), want)
		}
	})
}

// TestAMigrationSaysHowFarItIs: each step of each partition once, in order.
func TestAMigrationSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka := counted(t), newKafka("new")
		c := old.migration(kafka, "new", t.TempDir())
		var got []string
		c.Progress = func(p int, s Step) { got = append(got, fmt.Sprint(s, " ", p)) }
		if _, err := Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if want := []string{"counting 0", "counting 1", "storing 0", "publishing 0", "storing 1", "publishing 1"}; !slices.Equal(got, want) || len(want) != partitions*Steps {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestAMigrationGoesOnAfterHalfAStore: what a killed process has left of a store is made anew.
func TestAMigrationGoesOnAfterHalfAStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		half := filepath.Join(dir, "0.new")
		if err := errors.Join(os.MkdirAll(half, 0o700), os.WriteFile(filepath.Join(half, "MANIFEST"), []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		next := old.successor(kafka)
		next.rest()
		sameRows(t, "migrated", next.stored(countRows...), old.stored(countRows...))
	})
}

// TestAMigrationWaitsForBrokers: they fail, lose requests and lose answers. Copies of what was written change nothing.
func TestAMigrationWaitsForBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		want, calls := old.stored(countRows...), 0
		kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			calls++
			switch {
			case calls%5 == 0 && c.Op == kafkaiotest.OpProduce:
				return kafkaiotest.LostAnswer()
			case calls%7 == 0:
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		})
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		kafka.SetFault(nil)
		next := old.successor(kafka)
		next.rest()
		sameRows(t, "migrated", next.stored(countRows...), want)
		next.wantAudited(time.Now())
	})
}

// TestAStoppedMigrationReturnsTheContextsError: brokers are away, and a person gives up.
func TestAStoppedMigrationReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		for _, allowed := range []int{0, 3, 30, 60} {
			calls := 0
			kafka.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault {
				if calls++; calls > allowed {
					return kafkaiotest.Down()
				}
				return kafkaiotest.Fault{}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := Run(ctx, old.migration(kafka, "new", dir))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d calls: got %v, want %v", allowed, err, context.DeadlineExceeded)
			}
		}
		kafka.SetFault(nil)
		if _, err := old.migrateTo(kafka, "new", dir); err != nil {
			t.Fatal(err)
		}
		next := old.successor(kafka)
		next.rest()
		sameRows(t, "migrated", next.stored(countRows...), old.stored(countRows...))
	})
}

// TestTopicsThatHoldSomethingAreRefused: nothing is written then.
func TestTopicsThatHoldSomethingAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, topics := counted(t), topicsOf("new")
		holds := func(topic string, p int) func(k *kafkaiotest.Kafka) {
			return func(k *kafkaiotest.Kafka) { k.Append(topic, p, kafkaio.Message{Value: []byte("something")}) }
		}
		frame := foldtest.Encode(t, foldtest.KeysFrame(foldtest.Producer(1), 1, time.Now(), "a"))
		empty := foldtest.Encode(t, foldtest.KeysFrame(foldtest.Producer(1), 1, time.Now()))
		for name, tc := range map[string]struct {
			harm func(k *kafkaiotest.Kafka)
			text string
		}{
			"requests":            {holds(topics.Requests, 1), "new.requests/1"},
			"decisions":           {holds(topics.Decisions, 0), "new.decisions/0"},
			"state":               {holds(topics.State, 1), "new.state/1"},
			"events":              {holds(topics.Events, 0), "new.events/0"},
			"control":             {holds(topics.Control, 0), "new.control/0"},
			"a frame":             {func(k *kafkaiotest.Kafka) { k.Append(topics.Requests, 0, kafkaio.Message{Value: frame}) }, "new.requests/0"},
			"another migration":   {func(k *kafkaiotest.Kafka) { k.Append(topics.Requests, 0, kafkaio.Message{Value: empty}) }, "new.requests/0"},
			"too many partitions": {func(k *kafkaiotest.Kafka) { k.Create(3, topics.State) }, "got 3 partitions of new.state, want 2"},
			"two of control":      {func(k *kafkaiotest.Kafka) { k.Create(2, topics.Control) }, "got 2 partitions of new.control, want 1"},
			"too few partitions": {func(k *kafkaiotest.Kafka) {
				k.Delete(topics.Requests)
				k.Create(1, topics.Requests)
			}, "got 1 partitions of new.requests, want 2"},
		} {
			kafka, dir := newKafka("new"), t.TempDir()
			tc.harm(kafka)
			before := sizes(kafka)
			_, err := old.migrateTo(kafka, "new", dir)
			if !errors.Is(err, ErrNotFresh) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s: got %v, want %v about %q", name, err, ErrNotFresh, tc.text)
			}
			if after := sizes(kafka); !slices.Equal(before, after) {
				t.Errorf("%s: got topics of %v bytes, want %v as before", name, after, before)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
				t.Errorf("%s: got files %v, %v, want none", name, files, err)
			}
		}
		kafka := newKafka("new")
		kafka.Delete(topics.State)
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); !errors.Is(err, kafkaio.ErrNoTopic) {
			t.Errorf("a topic is missing: got %v, want %v", err, kafkaio.ErrNoTopic)
		}
	})
}

func sizes(k *kafkaiotest.Kafka) (list []int) {
	t := topicsOf("new")
	for _, topic := range []string{t.Requests, t.Decisions, t.State, t.Events, t.Control} {
		list = append(list, k.Size(topic))
	}
	return list
}

// TestWhatIsOfNoUseIsRefused: wrong directories, and topics or counts that are others than those that a migration began with.
func TestWhatIsOfNoUseIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, kafka, dir := counted(t), newKafka("new"), t.TempDir()
		refused := func(name, text string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want an error about %q", name, err, text)
			}
		}
		_, err := old.migrateTo(kafka, "new", old.dir)
		refused("one directory for both", "want a directory of its own", err)
		c := old.migration(kafka, "new", dir)
		c.Data = t.TempDir()
		_, err = Run(t.Context(), c)
		refused("no source", "got no store in", err)

		ctx, stop := context.WithCancel(t.Context())
		kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpProduce && c.Topic == topicsOf("new").State {
				stop()
			}
			return kafkaiotest.Fault{}
		})
		if _, err := Run(ctx, old.migration(kafka, "new", dir)); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
		kafka.SetFault(nil)
		begun := filepath.Join(t.TempDir(), "begun")
		if err := os.CopyFS(begun, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}

		other := kafka.Clone()
		other.Recreate(topicsOf("new").Requests, topicsOf("new").Decisions)
		if _, err := old.migrateTo(other, "new", begun); !errors.Is(err, ErrNotFresh) {
			t.Errorf("topics were made anew: got %v, want %v", err, ErrNotFresh)
		}
		if _, err := old.migrateTo(newKafka("new"), "new", begun); !errors.Is(err, ErrNotFresh) {
			t.Errorf("another cluster: got %v, want %v", err, ErrNotFresh)
		}
		if _, err := old.migrateTo(kafka, "new", t.TempDir()); !errors.Is(err, ErrNotFresh) {
			t.Errorf("the note is lost: got %v, want %v", err, ErrNotFresh)
		}
		c = old.migration(kafka, "new", begun)
		c.Owner.Fold.Partitions = 1
		_, err = Run(t.Context(), c)
		refused("other partitions", "got 2 partitions, want 1", err)

		old.start()
		v := &traffic{t: t, rnd: rand.New(rand.NewPCG(1, 2)), ids: 6}
		old.send(v.next()...)
		time.Sleep(time.Second)
		old.end()
		if _, err := old.migrateTo(kafka, "new", begun); !errors.Is(err, ErrCountedOn) {
			t.Errorf("the source has counted on: got %v, want %v", err, ErrCountedOn)
		}
	})
}
