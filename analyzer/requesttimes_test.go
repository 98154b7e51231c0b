package analyzer

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// timesWorld is a world whose topic of requests has one of the two settings that keep messages from the future out.
type timesWorld struct {
	*world

	forger *producer
	logs   bytes.Buffer
}

func newTimesWorld(t *testing.T, setting, value string) *timesWorld {
	t.Helper()
	w := &timesWorld{world: newAuditWorld(t)}
	w.log.Delete("requests")
	if _, err := w.log.EnsureTopics(t.Context(), kafkaio.TopicSpec{
		Name: "requests", Partitions: 1, Settings: []kafkaio.Setting{{Name: setting, Value: value}},
	}); err != nil {
		t.Fatal(err)
	}
	w.forger = &producer{t: t, log: w.log, id: schemas.ProducerID{0xff}}
	w.conf.Logger = slog.New(slog.NewTextHandler(&w.logs, nil))
	w.conf.Snapshot = 20 * time.Second
	return w
}

// serve sends a frame of some callers each second, and from the tenth second on one of the forger, which may be refused.
func (w *timesWorld) serve(seconds int, forged time.Time) (refused int) {
	w.t.Helper()
	for i := range seconds {
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "b", fmt.Sprint("c", i%5))
		if i < 10 {
			continue
		}
		w.forger.seq++
		value := foldtest.Encode(w.t, foldtest.KeysFrame(w.forger.id, w.forger.seq, forged, "z"))
		_, err := w.log.Produce(w.t.Context(), "requests", 0, kafkaio.Message{Time: forged.UnixNano(), Value: value})
		switch {
		case errors.Is(err, kafkaio.ErrTimestamp):
			refused++
		case err != nil:
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
	return refused
}

// TestAMessageFrom2100MovesNoWindow under either setting: not while the owner runs, nor from its store, from a snapshot or from the
// log. The other callers' counts are the truth, all starts reach one digest, and the audit agrees.
func TestAMessageFrom2100MovesNoWindow(t *testing.T) {
	t.Parallel()
	for setting, c := range map[string]struct {
		value   string
		refused int
		z       int64
	}{
		kafkaio.SettingAhead: {"2000", 20, 0}, kafkaio.SettingTimes: {kafkaio.AppendTime, 0, 20},
	} {
		t.Run(setting, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTimesWorld(t, setting, c.value)
				time.Sleep(time.Hour) // into the day
				w.start()
				if n := w.serve(30, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)); n != c.refused {
					t.Errorf("got %d messages refused, want %d", n, c.refused)
				}
				w.kill()
				digests := make(map[uint64]string)
				for _, from := range []string{"the store", "a snapshot", "the log"} {
					w.atRest()
					if counts := w.counts("day"); counts["a"] != 30 || counts["c0"] != 6 || counts["z"] != c.z {
						t.Errorf("from %s: got %v, want a 30, c0 6 and z %d", from, counts, c.z)
					}
					w.wantExact()
					f, at, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
					if err != nil || at.LogTime > time.Now().UnixNano() {
						t.Errorf("from %s: got log time %v and %v, want none in the future", from, time.Unix(0, at.LogTime), err)
					}
					digests[f.Digest(f.LogTime())] = from
					w.wipe()
					if from == "a snapshot" {
						w.log.Edit("state", 0, func([]kafkaio.Record) []kafkaio.Record { return nil })
					}
				}
				if len(digests) != 1 {
					t.Errorf("got digests %v, want one", digests)
				}
			})
		})
	}
}

// TestAServerThatIsAheadIsNamedOnce: its frames are counted, and its producer stands in one line of the log, whatever it sends.
func TestAServerThatIsAheadIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTimesWorld(t, kafkaio.SettingTimes, kafkaio.AppendTime)
		w.start()
		for range 5 {
			time.Sleep(time.Second)
			w.prod.send(time.Now().Add(2*time.Second), "a") // as far as a broker would allow
			w.forger.send(time.Now().Add(2*time.Second+1), "a")
			w.forger.send(time.Now().Add(3*time.Hour), "a")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.owner.Stats().Ahead; n != 10 {
			t.Errorf("got %d frames ahead, want 10", n)
		}
		w.end()
		if text := w.logs.String(); strings.Count(text, "clock is ahead") != 1 || !strings.Contains(text, "producer=ff000000") {
			t.Errorf("got\n%s\nwant one line about the producer that is ahead", text)
		}
	})
}

// TestManyServersThatAreAhead: so many are named, and one line says that no more will be.
func TestManyServersThatAreAhead(t *testing.T) {
	var logs bytes.Buffer
	c := newClockNames(slog.New(slog.NewTextHandler(&logs, nil)))
	for i := range 3 * maxNamedClocks {
		c.name(foldtest.Producer(i+1), time.Hour)
	}
	if got, want := strings.Count(logs.String(), "\n"), maxNamedClocks+1; got != want || len(c.named) != maxNamedClocks {
		t.Errorf("got %d lines about %d producers, want %d about %d", got, len(c.named), want, maxNamedClocks)
	}
}
