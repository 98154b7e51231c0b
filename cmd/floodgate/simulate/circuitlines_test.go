package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// spy is replay.Events that keeps what was recorded, and what was refused early.
type spy struct{ refused, entries []string }

func (s *spy) Entry(e *schemas.Entry) {
	s.entries = append(s.entries, fmt.Sprintf("%d %s:%s blocked %v early %v", e.Time, e.Kind, e.ID, e.Blocked, e.Early))
}
func (*spy) Changes([]fold.Change)            {}
func (*spy) Published(*outbox.Item)           {}
func (*spy) Applied(*schemas.Decision, int64) {}
func (s *spy) Refused(c *schemas.Caller, at int64) {
	s.refused = append(s.refused, fmt.Sprintf("%s %d", c, at))
}

// circuitOf returns a circuit of one rule about ip callers.
func circuitOf(t *testing.T) (*circuit, *spy) {
	t.Helper()
	s := &spy{}
	c := replay.Config{Rules: ipRules(t, "limit: 100, window: 1s"), Format: jsonFormat(t), Lag: 1, MaxRows: 1000}
	x, err := Circuit(&c, s)
	if err != nil {
		t.Fatal(err)
	}
	return x.(*circuit), s //nolint:forcetypeassert // it is one
}

// TestBothClosuresOfADecisionAreHonoured: the next closure begins a while after the one in force ends. It is known before, and no
// decision comes in between. Refused reports what early closures alone refuse.
func TestBothClosuresOfADecisionAreHonoured(t *testing.T) {
	x, seen := circuitOf(t)
	d := schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "ip", ID: "192.0.2.1"}, Mode: schemas.ModeEnforce, CloseAt: 10, Until: 20,
		Next: schemas.Span{CloseAt: 25, Until: 40, Early: true},
	}
	apply := func(d schemas.Decision) { x.w.servers[0].receive(&published{decisions: []schemas.Decision{d}}) }
	apply(d)
	other, confirmed, shadow := d, d, d
	other.Rule, other.CloseAt, other.Until, other.Next = "q", 26, 30, schemas.Span{}
	confirmed.CloseAt, confirmed.Until, confirmed.Next = 25, 41, schemas.Span{}
	shadow.Rule, shadow.Mode, shadow.CloseAt, shadow.Until, shadow.Next = "s", schemas.ModeShadow, 41, 50, schemas.Span{}
	for _, step := range []struct {
		at    int64
		apply *schemas.Decision // before
		want  replay.Answer
		early bool
	}{
		{at: 9}, {at: 10, want: replay.Answer{Blocked: true}}, {at: 19, want: replay.Answer{Blocked: true}},
		{at: 20}, {at: 24}, {at: 25, want: replay.Answer{Blocked: true}, early: true},
		{at: 27, apply: &other, want: replay.Answer{Blocked: true}}, // another rule has counted it
		{at: 31, want: replay.Answer{Blocked: true}, early: true},
		{at: 40, apply: &confirmed, want: replay.Answer{Blocked: true}}, // with another end
		{at: 41, apply: &shadow, want: replay.Answer{Shadowed: true}}, {at: 50},
	} {
		if step.apply != nil {
			apply(*step.apply)
		}
		seen.refused = nil
		got, err := x.Request(&ingest.Line{Time: step.at, IDs: []string{d.Caller.ID, ""}})
		if err != nil || got != step.want || (len(seen.refused) > 0) != step.early {
			t.Errorf("at %d: got %+v, refused early %v, %v; want %+v", step.at, got, seen.refused, err, step)
		}
	}
}

// TestALineThatWasRefusedIsRecordedAsBlocked for all its callers that some rule counts, as without a lag, whatever the gates say.
func TestALineThatWasRefusedIsRecordedAsBlocked(t *testing.T) {
	x, seen := circuitOf(t)
	for at := range int64(2) {
		if _, err := x.Request(&ingest.Line{Time: at, IDs: []string{"192.0.2.1", "192.0.2.1|/a"}, Blocked: at == 0}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := x.Finish()
	want := []string{"0 ip:192.0.2.1 blocked true early false", "1 ip:192.0.2.1 blocked false early false"}
	if err != nil || !slices.Equal(seen.entries, want) || f.Stats().Requests != 2 {
		t.Errorf("got %v, entries %q and %d requests counted, want %q", err, seen.entries, f.Stats().Requests, want)
	}
}

// TestLinesOutOfOrderAreTakenAsTheyCome: where the buffer was full, a line may be older than the one before. It counts at that one's
// time.
func TestLinesOutOfOrderAreTakenAsTheyCome(t *testing.T) {
	x, seen := circuitOf(t)
	for _, at := range []int64{5, 3, 6} {
		if _, err := x.Request(&ingest.Line{Time: at, IDs: []string{"192.0.2.1", ""}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Finish(); err != nil || len(seen.entries) != 3 || !strings.HasPrefix(seen.entries[1], "5 ") {
		t.Errorf("got %v and entries %q, want all three, the second at 5", err, seen.entries)
	}
}

// TestResponsesOfAReplayAreOfTheirOwnCallers: a response follows its line by up to some seconds, and the texts of the line are overwritten
// meanwhile. No caller has more than one request in flight, or comes near a limit: a lag changes nothing.
func TestResponsesOfAReplayAreOfTheirOwnCallers(t *testing.T) {
	c := replay.Config{Format: lastingFormat(t, "key"), Rules: ipRules(t, "callers: key, limit: 2, measure: in_flight", "callers: key, limit: 1000000, window: 1h, measure: cost",
		"callers: key_route, limit: 1000000, window: 1h, algorithm: fixed, measure: cost, charge: arrival")}
	var log strings.Builder
	want := make(map[string]int64) // the cost by caller and resource
	for i := range 2000 {
		const callers = 5
		client, path, cost := strings.Repeat(string(rune('a'+i%callers)), 1+7*(i%callers)), "/"+strings.Repeat("p", i%3), int64(1+i%11)
		log.WriteString(jsonLine(float64(i), client, fmt.Sprintf(`,"path":"%s","s":%.1f,"bytes":%d`, path, 0.5+float64(i%4), cost)))
		want["key:"+client+" "+path] += cost
		want["key_route:"+client+"|"+path+" "+path] += cost
	}
	without := replayed(t, c, log.String())
	for _, lag := range []time.Duration{0, 1, 50 * ms, 10 * time.Second} {
		c.Lag = lag
		o := replayed(t, c, log.String())
		got := make(map[string]int64)
		for i := range o.entries {
			if e := &o.entries[i]; e.Response {
				got[e.Kind+":"+e.ID+" "+e.Resource] += e.Cost
			}
		}
		if s := o.summary; !maps.Equal(got, want) || s.Blocked != 0 || s.Closes != 0 || s.Digest != without.summary.Digest {
			t.Errorf("lag %v: got %d blocked, %d closes, digest %s and costs\n%v\nwant none, digest %s and\n%v",
				lag, s.Blocked, s.Closes, s.Digest, got, without.summary.Digest, want)
		}
	}
}

// TestAReplayForgets closures that are over, and texts, although nobody asks about their callers any more: a log may be long.
func TestAReplayForgets(t *testing.T) {
	testenv.Long(t)
	x, _ := circuitOf(t)
	s := x.w.servers[0]
	for i := range int64(100_000) {
		at, caller := i*int64(100*ms), schemas.Caller{Kind: "ip", ID: fmt.Sprint("c", i)}
		if _, err := x.Request(&ingest.Line{Time: at, IDs: []string{caller.ID, ""}}); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			s.receive(&published{decisions: []schemas.Decision{{Rule: "r", Caller: caller, Mode: schemas.ModeEnforce, CloseAt: at, Until: at + 10}}})
		}
	}
	if closed, texts, events := s.set.Status().Closed, len(s.ids), x.w.events.Len(); closed > 5000 || texts > maxInterned || events > 10 {
		t.Errorf("got %d closed callers, %d texts and %d events, want few", closed, texts, events)
	}
}

// TestMoreKindsThanCallersAreRefused: a request has at most eight callers at a gate. Kinds that no rule counts do not matter.
func TestMoreKindsThanCallersAreRefused(t *testing.T) {
	var m ingest.Mapping
	var bodies []string
	for i := range gate.MaxCallers {
		m.Callers = append(m.Callers, ingest.CallerTemplate{Kind: fmt.Sprint("k", i), Template: "{user}"})
		bodies = append(bodies, fmt.Sprintf("callers: k%d, limit: 10, window: 1s", i))
	}
	f, err := ingest.NewFormat("combined", m)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Kinds()); n != gate.MaxCallers+1 {
		t.Fatalf("got %d kinds, want those of the mapping, and ip", n)
	}
	c := replay.Config{Rules: ipRules(t, bodies...), Format: f, Lag: 1}
	if _, err := Circuit(&c, &spy{}); err != nil {
		t.Errorf("got %v for as many kinds as callers", err)
	}
	c.Rules = ipRules(t, append(bodies, "limit: 10, window: 1s")...)
	if _, err := Circuit(&c, &spy{}); err == nil || !strings.Contains(err.Error(), "got rules for 9 kinds of callers, want at most 8") {
		t.Errorf("got %v", err)
	}
}

// TestCallersWithoutARowDoNotEndAReplay, as without a lag: they are not counted, and the summary says how many requests that were. A
// simulation, which promises the same result each time, fails.
func TestCallersWithoutARowDoNotEndAReplay(t *testing.T) {
	const rows = 8
	var log strings.Builder
	for i := range 2000 {
		log.WriteString(jsonLine(float64(i)/1000, fmt.Sprintf("192.0.%d.%d", i/256, i%256), ""))
	}
	set := ipRules(t, "limit: 100, window: 1h")
	got := replayed(t, replay.Config{Rules: set, Lag: ms, MaxRows: rows}, log.String())
	if got.summary.Requests != 2000 || got.summary.Uncounted == 0 {
		t.Errorf("got %+v, want requests that were not counted", got.summary)
	}
	sim, err := New(Config{Rules: set, Start: start, Servers: 1, Partitions: 1, Lag: LagOf(ms), MaxRows: rows})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(2000) {
		if _, err := sim.Request(&Request{At: start + i*int64(ms), Callers: []schemas.Caller{{Kind: "ip", ID: fmt.Sprint("c", i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sim.Finish(start + int64(10*ms)*1000); err == nil || !strings.Contains(err.Error(), "more than 8 rows") {
		t.Errorf("got %v, want that there are more callers than rows", err)
	}
}
