package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

const testKey = "000102030405060708090a0b0c0d0e0f"

// inAnHour is a time that a body may have.
func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// body returns JSON of pairs of names and values.
func body(pairs ...any) string {
	m := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func callerBody(kind, id string) map[string]any { return map[string]any{"kind": kind, "id": id} }

// TestEachActIsOneRecord: what a person sends is what the control topic gets, with the author and a time.
func TestEachActIsOneRecord(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	until := inAnHour()
	noisy := schemas.Caller{Kind: "key", ID: "noisy"}
	for i, c := range []struct {
		path, body string
		want       schemas.Control
	}{
		{"/v1/close", body("caller", callerBody("key", "noisy"), "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlClose, Caller: noisy, Until: 1}},
		{"/v1/open", body("caller", callerBody("key", "noisy"), "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlOpen, Caller: noisy, Until: 1}},
		{"/v1/open", body("caller", callerBody("key", "noisy"), "rule", "slow", "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlOpen, Caller: noisy, Rule: "slow", Until: 1}},
		{"/v1/limit", body("caller", callerBody("key", "noisy"), "rule", "per-key", "limit", 50, "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlLimit, Caller: noisy, Rule: "per-key", Limit: 50, Until: 1}},
		{"/v1/reset", body("caller", callerBody("ip", "2001:db8::7"), "reason", "r"), schemas.Control{Action: schemas.ControlReset, Caller: schemas.Caller{Kind: "ip", ID: "2001:db8::"}}},
		{"/v1/mode", body("mode", "shadow", "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlMode, Until: 1}},
		{"/v1/mode", body("rule", "per-ip", "mode", "shadow", "until", until, "reason", "r"), schemas.Control{Action: schemas.ControlMode, Rule: "per-ip", Until: 1}},
	} {
		a := n.post(c.path, c.body)
		a.want(t, http.StatusOK, `"applied":true`)
		got := w.topic.records[i]
		if got.Author != "loopback" || got.Reason != "r" || got.Time == 0 || got.ID == (schemas.ControlID{}) {
			t.Errorf("%s: got %+v, want who, why and when", c.path, got)
		}
		if c.want.Until != 0 {
			at, _ := time.Parse(time.RFC3339, until)
			c.want.Until = at.UnixNano()
		}
		c.want.ID, c.want.Time, c.want.Author, c.want.Reason = got.ID, got.Time, got.Author, got.Reason
		if fmt.Sprint(got.Control) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v, want %+v", c.path, got.Control, c.want)
		}
		if key := a.header.Get("Idempotency-Key"); key != got.ID.String() {
			t.Errorf("%s: got Idempotency-Key %q, want the record's id", c.path, key)
		}
	}
	id := w.topic.records[0].ID.String()
	n.post("/v1/undo", body("id", id, "reason", "enough")).want(t, http.StatusOK, id)
	n.post("/v1/undo", body("id", id, "reason", "enough")).want(t, http.StatusConflict, "has undone it already")
	if got := w.topic.records[7]; got.Action != schemas.ControlUndo || got.Target.String() != id {
		t.Errorf("got %+v, want the undo of %s", got, id)
	}
	list := n.get("/v1/actions")
	var l apiv1.ActionList
	list.into(t, &l)
	if len(l.Actions) != 8 || l.Actions[7].State != apiv1.StateUndone || l.Actions[7].UndoneBy.Reason != "enough" || l.Actions[6].State != apiv1.StateInForce {
		t.Errorf("got %s, want 8 records, of which the oldest is undone", list.body)
	}
}

// TestWhatIsRefusedSaysWhatToWrite, and writes nothing.
func TestWhatIsRefusedSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	key, until := callerBody("key", "k"), inAnHour()
	for name, c := range map[string]struct {
		path, body string
		status     int
		pointer    string
		want       string
	}{
		"no body":            {"/v1/close", "", 415, "Content-Type", ""},
		"no object":          {"/v1/close", "[]", 400, "body", "a JSON object"},
		"no JSON":            {"/v1/close", "{", 400, "body", ""},
		"two objects":        {"/v1/close", "{}{}", 400, "body", "one JSON object"},
		"other field":        {"/v1/close", body("caller", key, "until", until, "reason", "r", "for", "1h"), 422, "/for", ""},
		"wrong type":         {"/v1/close", body("caller", key, "until", until, "reason", 7), 422, "/reason", "string"},
		"no reason":          {"/v1/close", body("caller", key, "until", until), 422, "/reason", "1 to 512 bytes"},
		"blank reason":       {"/v1/close", body("caller", key, "until", until, "reason", " "), 422, "/reason", ""},
		"long reason":        {"/v1/close", body("caller", key, "until", until, "reason", strings.Repeat("x", 513)), 422, "/reason", "512 bytes"},
		"reason of tricks":   {"/v1/close", body("caller", key, "until", until, "reason", "a\x1b[2Jb"), 422, "/reason", ""},
		"no until":           {"/v1/close", body("caller", key, "reason", "r"), 422, "/until", "a time after"},
		"past until":         {"/v1/close", body("caller", key, "until", "2001-01-01T00:00:00Z", "reason", "r"), 422, "/until", "a time after"},
		"far until":          {"/v1/close", body("caller", key, "until", "2601-01-01T00:00:00Z", "reason", "r"), 422, "/until", "no later than"},
		"until of text":      {"/v1/close", body("caller", key, "until", "tomorrow", "reason", "r"), 422, "body", "2026-"},
		"no caller":          {"/v1/close", body("until", until, "reason", "r"), 422, "/caller", ""},
		"network":            {"/v1/close", body("caller", callerBody("ip", "203.0.113.0/24"), "until", until, "reason", "r"), 422, "/caller", "override of 203.0.113.0/24"},
		"wide IPv6":          {"/v1/close", body("caller", callerBody("ip", "2001:db8::/48"), "until", until, "reason", "r"), 422, "/caller", "a network of 64 bits"},
		"pattern of address": {"/v1/close", body("caller", callerBody("ip", "203.0.113.*"), "until", until, "reason", "r"), 422, "/caller", "no patterns"},
		"pattern":            {"/v1/close", body("caller", callerBody("key", "free-*"), "until", until, "reason", "r"), 422, "/caller", "id_base64"},
		"wrong byte":         {"/v1/close", body("caller", callerBody("key", "a\uFFFD"), "until", until, "reason", "r"), 422, "/caller", "id_base64"},
		"no limit":           {"/v1/limit", body("caller", key, "rule", "per-key", "until", until, "reason", "r"), 422, "/limit", "1 to"},
		"limit, no rule":     {"/v1/limit", body("caller", key, "limit", 1, "until", until, "reason", "r"), 422, "/rule", ""},
		"no such rule":       {"/v1/open", body("caller", key, "rule", "perkey", "until", until, "reason", "r"), 422, "/rule", "one of per-key, slow"},
		"rule of other kind": {"/v1/open", body("caller", key, "rule", "per-ip", "until", until, "reason", "r"), 422, "/rule", "kind ip"},
		"reset has no until": {"/v1/reset", body("caller", key, "until", until, "reason", "r"), 422, "/until", ""},
		"mode enforce":       {"/v1/mode", body("mode", "enforce", "until", until, "reason", "r"), 422, "/mode", "shadow"},
		"undo of nothing":    {"/v1/undo", body("id", testKey, "reason", "r"), 404, "/id", ""},
		"undo of no id":      {"/v1/undo", body("id", "4711", "reason", "r"), 422, "/id", "32 hexadecimal digits"},
		"parameter":          {"/v1/close?caller=key:k", "{}", 400, "caller", ""},
		"large":              {"/v1/close", body("reason", strings.Repeat("x", maxBody)), 413, "", ""},
	} {
		a := n.post(c.path, c.body)
		p := a.problem(t)
		if a.status != c.status || !strings.HasPrefix(p.Pointer, c.pointer) || !strings.Contains(p.Want+p.Detail, c.want) {
			t.Errorf("%s: got %d %s, want %d at %q with %q", name, a.status, a.body, c.status, c.pointer, c.want)
		}
	}
	if w.topic.len() != 0 {
		t.Errorf("got %d records, want none", w.topic.len())
	}
	for _, key := range []string{"x", testKey + "00", strings.Repeat("0", 32), "00010203-0405-0607-0809-0a0b0c0d0e0g"} {
		n.post("/v1/reset", body("caller", callerBody("key", "k"), "reason", "r"), "Idempotency-Key", key).want(t, 400, "random for each record")
	}
	if got := strings.Count(w.log.String(), `msg="API: refused"`); got < 30 {
		t.Errorf("got %d lines of refused requests in the log, want one for each", got)
	}
}

// TestARequestThatComesTwiceWritesOnce: before, while and after its record is written.
func TestARequestThatComesTwiceWritesOnce(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	c := w.caller(0)
	w.board.beat(0, "")
	request := body("caller", callerBody(c.Kind, c.ID), "until", inAnHour(), "reason", "ticket 4711")
	w.topic.entered, w.topic.goOn = make(chan struct{}, 9), make(chan struct{})
	var all sync.WaitGroup
	answers := make([]*answer, 8)
	for i := range answers {
		all.Go(func() { answers[i] = n.post("/v1/close", request, "Idempotency-Key", testKey) })
	}
	<-w.topic.entered
	close(w.topic.goOn)
	all.Wait()
	for _, a := range answers {
		if a.status != http.StatusOK || string(a.body) != string(answers[0].body) {
			t.Errorf("got %d %s, want the same as %s", a.status, a.body, answers[0].body)
		}
	}
	uuid := "00010203-0405-0607-0809-0a0b0c0d0e0f"
	if a := n.post("/v1/close", request, "Idempotency-Key", uuid); string(a.body) != string(answers[0].body) {
		t.Errorf("as a UUID, later: got %d %s, want the same answer", a.status, a.body)
	}
	if w.topic.len() != 1 {
		t.Errorf("got %d records, want 1", w.topic.len())
	}
	n.post("/v1/close", strings.Replace(request, "4711", "4712", 1), "Idempotency-Key", testKey).want(t, http.StatusConflict, "another content or author")
	n.post("/v1/reset", body("caller", callerBody(c.Kind, c.ID), "reason", "ticket 4711"), "Idempotency-Key", testKey).want(t, http.StatusConflict, "")
}

// TestAnAcknowledgementIsTheOwners: 202 while an owner of a partition concerned has not applied the record.
func TestAnAcknowledgementIsTheOwners(t *testing.T) {
	w := newWorld(t)
	w.topic.after = nil
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0), acting)
	c := w.caller(2)
	request := body("caller", callerBody(c.Kind, c.ID), "until", inAnHour(), "reason", "r")
	a := n.post("/v1/close", request, "Idempotency-Key", testKey)
	a.want(t, http.StatusAccepted, `"waiting":[2]`)
	n.get("/v1/actions?state=waiting").want(t, http.StatusOK, testKey)
	w.board.applied(1)
	n.post("/v1/close", request, "Idempotency-Key", testKey).want(t, http.StatusOK, `"applied":true`)
	n.post("/v1/mode", body("mode", "shadow", "until", inAnHour(), "reason", "r")).want(t, http.StatusAccepted, `"waiting":[0,1,2,3]`)
	if w.topic.len() != 2 {
		t.Errorf("got %d records, want 2", w.topic.len())
	}
}

// TestWhileKafkaIsAwayNothingIsPromised, and the answer says how to try again without acting twice.
func TestWhileKafkaIsAwayNothingIsPromised(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	w.topic.fails = errors.New("broker: secret detail")
	request := body("caller", callerBody("key", "k"), "reason", "r")
	a := n.post("/v1/reset", request, "Idempotency-Key", testKey)
	a.want(t, http.StatusServiceUnavailable, "Idempotency-Key: "+testKey)
	if a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "secret") {
		t.Errorf("got %v %s, want Retry-After, and nothing of the inside", a.header, a.body)
	}
	w.topic.fails = nil
	n.post("/v1/reset", request, "Idempotency-Key", testKey).want(t, http.StatusAccepted, testKey)
	w.topic.ready = false
	n.post("/v1/reset", request).want(t, http.StatusServiceUnavailable, "control topic")
	if w.topic.len() != 1 {
		t.Errorf("got %d records, want 1", w.topic.len())
	}
}

// TestAModeNeedsAnAdmin, also to undo it.
func TestAModeNeedsAnAdmin(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:operate", "cleo:admin")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile = path })
	mode := body("mode", "shadow", "until", inAnHour(), "reason", "trial")
	reset := body("caller", callerBody("key", "k"), "reason", "r")
	for i, want := range []struct{ reset, mode, undo int }{{403, 403, 403}, {202, 403, 403}, {202, 202, 202}} {
		n.token = toks[i]
		n.get("/v1/status").want(t, 200, "")
		n.post("/v1/reset", reset).want(t, want.reset, "")
		n.post("/v1/mode", mode, "Idempotency-Key", testKey).want(t, want.mode, "")
		if i == 1 { // an admin did it meanwhile
			n.token = toks[2]
			n.post("/v1/mode", mode, "Idempotency-Key", testKey).want(t, 202, "")
			n.token = toks[1]
		}
		n.post("/v1/undo", body("id", testKey, "reason", "r")).want(t, want.undo, "")
	}
	for _, text := range []string{"who=anna role=read", "who=bert role=operate", "who=cleo role=admin", "action=reset", "reason=trial"} {
		if !strings.Contains(w.log.String(), text) {
			t.Errorf("the log has no %q:\n%s", text, w.log)
		}
	}
	for _, tok := range toks {
		if strings.Contains(w.log.String(), tok) {
			t.Error("the log has a token")
		}
	}
}

// TestARecordThatTheOwnerRefusesIsNotPromised: too many are in force there.
func TestARecordThatTheOwnerRefusesIsNotPromised(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	w.refuse = true
	n.post("/v1/close", body("caller", callerBody("key", "k"), "until", inAnHour(), "reason", "r")).want(t, http.StatusConflict, "too many are in force")
	w.refuse = false
	n.post("/v1/close", body("caller", callerBody("key", "k"), "until", inAnHour(), "reason", "r")).want(t, http.StatusOK, "in_force")
}
