package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// learnt is one thing that a board learns.
type learnt struct {
	decision  *schemas.Decision
	heartbeat *schemas.Heartbeat
	loaded    []int
}

// decisionsWatchOf returns a watch of a board of two partitions, and a function that tells the board something at a time, in seconds after
// noon, and returns what is printed then.
func decisionsWatchOf(t *testing.T, asJSON bool) func(s int, news ...learnt) string {
	t.Helper()
	var out bytes.Buffer
	b := board.New(board.Options{})
	b.Resize(2)
	w, err := newDecisionsWatch(decisionsView{out: &out, json: asJSON}, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.changes.Close)
	return func(s int, news ...learnt) string {
		now := time.Date(2026, 3, 2, 12, 0, s, 0, time.UTC)
		for _, n := range news {
			switch {
			case n.decision != nil:
				b.Apply([]schemas.Decision{*n.decision}, now)
			case n.heartbeat != nil:
				n.heartbeat.Epoch, n.heartbeat.Seq, n.heartbeat.Time = 1, uint64(s+1), now.UnixNano()
				b.Beat(n.heartbeat, now)
			}
			for _, p := range n.loaded {
				b.Loaded(p)
			}
		}
		b.Expire(now)
		out.Reset()
		if err := w.turn(now); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
}

// TestDecisionsWatchPrintsChangesOnce: what was there when it began is one table; after that each change is one line, and
// what ends by its time is said, too. Nothing that a client wrote reaches the terminal.
func TestDecisionsWatchPrintsChangesOnce(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	after := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	d := func(id string, from, until int, mode schemas.Mode) learnt {
		return learnt{decision: &schemas.Decision{
			Rule: "r\x1b", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: mode, CloseAt: after(from).UnixNano(), Until: after(until).UnixNano(),
			Evidence: schemas.Evidence{Count: 7, Limit: 5, Window: int64(time.Minute)},
		}}
	}
	for _, asJSON := range []bool{false, true} {
		watch := decisionsWatchOf(t, asJSON)
		step := func(s int, want string, news ...learnt) {
			t.Helper()
			got := watch(s, news...)
			if asJSON {
				for line := range strings.Lines(got) {
					if !json.Valid([]byte(line)) {
						t.Errorf("got %q, want JSON", line)
					}
				}
				if (want == "") != (got == "") {
					t.Errorf("after %d s: got %q", s, got)
				}
				return
			}
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("after %d s: got %q, want %q", s, got, want)
			}
			if strings.Contains(got, "\x1b") {
				t.Errorf("got %q with an escape", got)
			}
		}
		enforce, shadow := schemas.ModeEnforce, schemas.ModeShadow
		step(1, "", d("a", 0, 10, enforce), learnt{loaded: []int{1}})
		step(1, "1 closure in force, of 2 partitions; no owner was heard of partitions [1]",
			learnt{heartbeat: &schemas.Heartbeat{}}, learnt{loaded: []int{0}})
		step(2, "", d("a", 0, 10, enforce), learnt{loaded: []int{0}})
		step(3, `2026-03-02 12:00:03Z changed key:a by r\x1b until 2026-03-02 12:00:20: 7 of 5 in 1m`, d("a", 0, 20, enforce))
		step(4, `2026-03-02 12:00:04Z closed  key:b\x1b[2J by r\x1b (shadow) until 2026-03-02 12:00:30`, d("b\x1b[2J", 4, 30, shadow))
		step(5, `2026-03-02 12:00:05Z opened  key:a by r\x1b`, d("a", 5, 5, enforce))
		step(29, "")
		step(30, `2026-03-02 12:00:30Z ended   key:b\x1b[2J by r\x1b (shadow)`)
		step(31, "")
		flood := make([]learnt, 0, board.MaxChanges+8)
		for i := range board.MaxChanges + 8 {
			flood = append(flood, d(fmt.Sprint("flood-", i), 31, 32, enforce))
		}
		step(31, "changes came too fast: 8 or more were missed. This is in force now:\n", flood...)
	}
}

// TestDecisionsWatchNamesPartitionsWithoutAnOwner: a watch that began before the analyzer says when it is there, and when it has gone, once
// each.
func TestDecisionsWatchNamesPartitionsWithoutAnOwner(t *testing.T) {
	const silent0, silent01 = "2026-03-02 %sZ no owner was heard of partitions [0] for 3s or longer: nothing new is decided there\n", "0 closures in force, of 2 partitions; no owner was heard of partitions [0 1] for 3s or longer: nothing new is decided there\n"
	for _, asJSON := range []bool{false, true} {
		watch := decisionsWatchOf(t, asJSON)
		for _, s := range []struct {
			at         int // seconds
			owners     []int32
			text, json string
		}{
			{0, nil, silent01, `"silent_partitions":[0,1]`},
			{1, nil, "", ""},
			{2, []int32{1}, fmt.Sprintf(silent0, "12:00:02"), `{"silent_partitions":[0],"time":"2026-03-02T12:00:02Z","type":"owners"}`},
			{3, []int32{0, 1}, "2026-03-02 12:00:03Z the owners of all partitions are heard\n", `"silent_partitions":[]`},
			{6, []int32{1}, "", ""},
			{7, []int32{1}, fmt.Sprintf(silent0, "12:00:07"), `"silent_partitions":[0]`},
		} {
			news := []learnt{{loaded: []int{0, 1}}}
			for _, p := range s.owners {
				news = append(news, learnt{heartbeat: &schemas.Heartbeat{Partition: p}})
			}
			if got := watch(s.at, news...); !asJSON && got != s.text || asJSON && (!strings.Contains(got, s.json) || (got == "") != (s.json == "")) {
				t.Errorf("after %d s: got %q, want %q or %s", s.at, got, s.text, s.json)
			}
		}
	}
}
