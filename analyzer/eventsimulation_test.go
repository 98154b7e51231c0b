package analyzer

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// undisturbed returns the events of a log that one fold counts from its begin to its end, by id.
func undisturbed(t *testing.T, set *rules.Set, o fold.Options, log []kafkaio.Record) map[string]event.Event {
	t.Helper()
	o.Ends = true
	f := fold.New(set, o)
	all := make(map[string]event.Event)
	for _, r := range log {
		_ = f.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}) // what it refuses changes nothing
		for _, c := range f.TakeChanges() {
			if e, ok := eventlog.Describe(&c, o.Partition, byMessage); ok {
				all[e.ID] = e
			}
		}
		f.TakePlans()
		f.TakeCanaries()
	}
	return all
}

// eventsIn returns the events of a topic, by id, and how many there are of each type, copies included.
func eventsIn(t *testing.T, log *testLog, topic string) (all map[string]event.Event, copies int) {
	t.Helper()
	all = make(map[string]event.Event)
	for _, r := range log.Records(topic, 0) {
		e, err := event.Decode(r.Value)
		if err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if _, is := all[e.ID]; is {
			copies++
		}
		all[e.ID] = e
	}
	return all, copies
}

// compareEvents wants events that are all there, and no others.
func compareEvents(t *testing.T, got, want map[string]event.Event) {
	t.Helper()
	missing, foreign := 0, 0
	for id, e := range want {
		if _, is := got[id]; !is {
			if missing++; missing <= 3 {
				t.Errorf("missing: %s", e.Encode())
			}
		}
	}
	for id, e := range got {
		if _, is := want[id]; !is {
			if foreign++; foreign <= 3 {
				t.Errorf("foreign: %s", e.Encode())
			}
		}
	}
	if missing+foreign > 0 {
		t.Errorf("got %d events missing and %d foreign, want the %d of one undisturbed fold", missing, foreign, len(want))
	}
}

// checkEvents compares the topic of events with what one undisturbed fold says. The last owner has ended in peace, so nothing is on its
// way any more.
func (s *simulation) checkEvents() {
	s.t.Helper()
	log := append(s.trimmed, s.log.Records("requests", 0)...)
	want := undisturbed(s.t, mustRules(s.t, simulationRules), fold.Options{Predict: s.predict}, log)
	got, copies := eventsIn(s.t, s.log, "events")
	compareEvents(s.t, got, want)
	s.t.Logf("%d events, %d copies", len(want), copies)
	if len(want) < 20 {
		s.t.Errorf("got %d events: an hour that shows nothing", len(want))
	}
}
