package audit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// decided returns a decision about a caller of kind key, for an hour.
func decided(id byte, a schemas.ControlAction, key string) schemas.Control {
	now := time.Now()
	return schemas.Control{
		ID: schemas.ControlID{id}, Time: now.UnixNano(), Author: "ann", Reason: "ticket 4711", Action: a,
		Caller: schemas.Caller{Kind: "key", ID: key}, Until: now.Add(time.Hour).UnixNano(), Target: schemas.ControlID{id - 1},
	}
}

// busyDay is some requests, and a person who resets one caller and closes another between them.
func busyDay(t *testing.T) *world {
	t.Helper()
	w := newAuditWorld(t)
	w.start()
	w.prod.send(time.Now(), "a", "a", "b")
	time.Sleep(time.Second)
	w.decide(decided(1, schemas.ControlReset, "a"))
	w.decide(decided(2, schemas.ControlClose, "b"))
	time.Sleep(time.Second)
	w.prod.send(time.Now(), "a", "b")
	time.Sleep(time.Second)
	w.end()
	return w
}

func TestAuditAppliesWhatPeopleHaveDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := busyDay(t)
		r := w.wantExact()
		if r.Approximate() || r.Log.InForce != 1 || r.Log.Controls != 2 {
			t.Errorf("got %d in force of %d applied, approximate %v; want 1 of 2 at their places", r.Log.InForce, r.Log.Controls, r.Approximate())
		}
	})
}

func TestAuditFindsControlRecordsThatWereChangedByHand(t *testing.T) {
	key := string(append([]byte{byte(fold.ControlRow)}, func() []byte { id := schemas.ControlID{2}; return id[:] }()...))
	for name, c := range map[string]struct {
		change func(rows map[string][]byte)
		want   string
	}{
		"removed": {func(rows map[string][]byte) { delete(rows, key) }, WhyMissing},
		"added": {func(rows map[string][]byte) {
			other := []byte(key)
			other[1] = 7
			rows[string(other)] = rows[key]
		}, WhyExtra},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := busyDay(t)
				w.change(c.change)
				r := w.mustAudit()
				if len(r.Differences) != 1 || r.Differences[0].Why != c.want || r.Differences[0].Rule != schemas.ControlRule {
					t.Errorf("got %+v, want one difference: %s", r.Differences, c.want)
				}
			})
		})
	}
}

func TestAnAuditThatCannotKnowSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(w *world)
		lost bool
	}{
		"without the topic of control": {func(w *world) { w.conf.Control = "" }, true},
		"a topic that was cut":         {func(w *world) { w.log.Cut("control", 0, 1) }, true},
		"a topic that was trimmed":     {func(w *world) { w.log.Trim("control", 0, 1) }, true},
		"a topic that was made anew, and has places of later owners": {func(w *world) {
			w.log.Recreate("control")
			w.start()
			w.prod.send(time.Now(), "a")
			time.Sleep(time.Second)
			w.decide(decided(3, schemas.ControlReset, "b"))
			time.Sleep(time.Second)
			w.end()
		}, true},
		"a topic full of garbage behind it": {func(w *world) {
			w.log.Append("control", 0, kafkaio.Message{Value: []byte("garbage")})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := busyDay(t)
				c.lose(w)
				r := w.mustAudit()
				if r.LostControls != c.lost || r.Approximate() != c.lost || !r.Exact() {
					t.Errorf("got lost %v, approximate %v, differences %+v; want lost %v, and no difference claimed", r.LostControls, r.Approximate(), r.Differences, c.lost)
				}
			})
		})
	}
}
