package analyzer

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestSimulationOfMessagesFromTheFuture is TestSimulation in a world whose brokers take every time: somebody sends
// messages of the year 2100, one server's clock runs hours ahead, another's is off by so little that one analyzer takes its
// messages and the other, whose clock is 1.5 s slow, does not. All others' counts are the truth to the unit, and what the
// last owner holds is what a recount of the log by its list of refusals says.
func TestSimulationOfMessagesFromTheFuture(t *testing.T) {
	simulate(t, 1, func(s *simulation) { s.forging = true })
}

// clock is an analyzer's: the second one's is slow.
func (m *mortal) clock() time.Time {
	if m == m.s.analyzers[1] {
		return time.Now().Add(-1500 * time.Millisecond)
	}
	return time.Now()
}

// forge sends what no broker should have taken, now and then.
func (s *simulation) forge() {
	now := time.Now()
	for name, at := range map[string]struct {
		every int
		time  time.Time
	}{
		"2100": {20, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}, "last": {200, time.Unix(0, 1<<63-1)},
		"hours": {2, now.Add(3 * time.Hour)}, "near": {2, now.Add(1600 * time.Millisecond)},
	} {
		if s.rnd.IntN(at.every) > 0 {
			continue
		}
		id, producer := fmt.Sprint("c", s.rnd.IntN(8)), byte(1) // whose counts it must not touch; one who forges
		if name == "near" {
			id, producer = "near", 2
			s.minutes[callerMinute{id, at.time.UnixNano() / int64(time.Minute)}]++ // at most
		}
		fr := foldtest.Frame(uint64(now.UnixNano()), at.time.UnixNano(), schemas.Entry{Time: at.time.UnixNano(), Kind: "key", ID: id, Count: 1})
		fr.Producer = schemas.ProducerID{0xff, producer}
		_, _ = s.log.Produce(s.t.Context(), "requests", 0, kafkaio.Message{Time: at.time.UnixNano(), Value: foldtest.Encode(s.t, fr)}) // may fail
		s.seen["message from "+name]++
	}
}

// audit wants the last owner's store to be what the log says, by its list of refusals.
func (s *simulation) audit() {
	s.t.Helper()
	r, err := audit.Run(s.t.Context(), s.log, audit.Config{
		Requests: "requests", State: "state", Control: "control", Dir: s.analyzers[s.owner].dir, Rules: mustRules(s.t, simulationRules), Store: store.Options{NoSync: true},
	})
	if err != nil || !r.Exact() || r.Approximate() {
		s.t.Errorf("audit: got %+v, %v, want it exact", r, err)
	}
	if s.forging && r.Log.Rejected[fold.ReasonFuture] == 0 {
		s.t.Errorf("audit: got %v rejected, want some from the future", r.Log.Rejected)
	}
}
