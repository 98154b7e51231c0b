//go:build lab

package lab

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
)

// decidedPartitions is how many partitions the analyzer of TestEachActMakesOneEvent owns.
const decidedPartitions = 2

// decided is what an event of type control or rules_changed says, as far as whoever acted knows it.
type decided struct {
	of, action, caller, rule, author, reason, record, target string

	limit            int64
	until            int64 // Unix nanoseconds; 0: none
	partition        int   // that of the caller; 0 for what is about all callers
	rulesFrom, rules string
}

// actor acts over the API of one analyzer, and writes down what the events of it are to be.
type actor struct {
	*processtest.Deployment
	began  time.Time
	args   []string          // of the analyzer
	tokens map[string]string // files, by the names of people
	api    string
	want   []decided
}

// newActor begins a broker and an analyzer, which knows two people.
func newActor(t *testing.T) *actor {
	t.Helper()
	a := &actor{Deployment: processtest.NewDeployment(t, start), began: time.Now().Add(-time.Minute), tokens: make(map[string]string)}
	a.WriteRules(processtest.Rules("500"))
	var lines strings.Builder
	for name, role := range map[string]string{"alice": "admin", "bob": "operate"} {
		a.tokens[name] = filepath.Join(a.Dir, name)
		out, err := runCommand("token", name, role, "--write", a.tokens[name])
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(regexp.MustCompile(`(?m)^`+name+`.*$`).FindString(out) + "\n")
	}
	file := filepath.Join(a.Dir, "tokens")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a.args = []string{"--partitions", fmt.Sprint(decidedPartitions), "--checkpoint", "50ms", "--snapshot", "1s", "--api-listen", "127.0.0.1:0", "--api-tokens", file}
	a.begin()
	return a
}

// begin starts the analyzer, and waits until it owns all partitions.
func (a *actor) begin() {
	a.T.Helper()
	a.Start(a.args...)
	a.api = "http://" + a.Analyzer.WaitFor(`listening for the API.* address=(\S+)`, time.Minute)
	a.awaitRules(a.rulesID())
}

// rulesID returns the id of the rules file, which the command line works out of its text.
func (a *actor) rulesID() string {
	a.T.Helper()
	out, err := runCommand("rules", "show", a.RulesPath(), "--output", "json")
	var answer apiv1.Rules
	if err = errors.Join(err, json.Unmarshal([]byte(out), &answer)); err != nil {
		a.T.Fatalf("%v: %s", err, out)
	}
	return answer.ID
}

// awaitRules waits until all partitions are counted by these rules.
func (a *actor) awaitRules(id string) {
	a.T.Helper()
	processtest.Eventually(a.T, time.Minute, "all partitions counted by "+id, func() bool {
		var s apiv1.Status
		out, err := a.as("alice", "status", "--output", "json")
		if err != nil || json.Unmarshal([]byte(out), &s) != nil || len(s.Partitions) != decidedPartitions {
			return false
		}
		return !slices.ContainsFunc(s.Partitions, func(p apiv1.PartitionStatus) bool { return p.State != "running" || p.RulesID != id })
	})
}

// as runs a subcommand with somebody's token.
func (a *actor) as(name string, args ...string) (string, error) {
	return runCommand(append(args, "--api", a.api, "--token-file", a.tokens[name])...)
}

// act does something by hand, writes down its event, and returns the record's id. Each attempt until the first answer has the same id.
func (a *actor) act(d decided, args ...string) (record string) {
	a.T.Helper()
	var id schemas.ControlID
	_, _ = rand.Read(id[:]) // never fails
	record = a.send(d, id.String(), args...)
	d.of, d.action, d.record = "control", args[0], record
	if kind, key, found := strings.Cut(d.caller, ":"); found {
		d.partition = schemas.Partition(schemas.DefaultPartitionKey().Hash(kind, key), decidedPartitions)
	}
	a.want = append(a.want, d)
	return record
}

// send sends a record until an answer comes, and returns the id that the answer gives.
func (a *actor) send(d decided, id string, args ...string) string {
	a.T.Helper()
	args = append(args, "--id", id, "--output", "json")
	if d.reason != defaultReason {
		args = append(args, "--reason", d.reason)
	}
	if d.until != 0 {
		args = append(args, "--until", time.Unix(0, d.until).UTC().Format(time.RFC3339Nano))
	}
	var answer apiv1.ActionAnswer
	processtest.Eventually(a.T, time.Minute, fmt.Sprint(args), func() bool {
		out, err := a.as(d.author, args...)
		return err == nil && json.Unmarshal([]byte(out), &answer) == nil
	})
	return answer.Action.ID
}

// defaultReason is the reason of an undo without a reason.
const defaultReason = "undone without a reason"

// TestEachActMakesOneEvent: two people close, open, limit, reset, put into mode shadow and undo, and the file of rules changes, while the
// analyzer is killed and stopped. Each act is one event, with the words of the person. The topic, the command line and the API agree.
func TestEachActMakesOneEvent(t *testing.T) {
	t.Parallel()
	a := newActor(t)
	keys := [decidedPartitions]string{processtest.KeyIn(0, decidedPartitions), processtest.KeyIn(1, decidedPartitions)}
	for p, key := range keys { // so that log time is known
		processtest.SendFrame(t, a.Client, &schemas.Frame{Producer: schemas.ProducerID{8}, Seq: uint64(p) + 1, Partitions: decidedPartitions}, key, 1)
	}
	until := time.Now().Add(time.Hour).Truncate(time.Second).UnixNano()
	first, second := "key:"+keys[0], "key:"+keys[1]

	closed := a.act(decided{caller: first, author: "alice", reason: "ticket 1", until: until}, "close", first)
	a.act(decided{caller: second, rule: "r", author: "bob", reason: "ticket 2: \"quoted\" ü", until: until}, "open", second, "r")
	a.act(decided{caller: first, rule: "r", limit: 70, author: "bob", reason: "ticket 3", until: until}, "limit", first, "r", "70")
	if _, err := a.as("bob", "mode", "shadow", "--for", "1h", "--reason", "not allowed"); err == nil {
		t.Error("mode: got no error, want that bob may not do this")
	}
	a.changeRules("600")
	again := decided{caller: second, author: "bob", reason: "ticket 4", until: until}
	id := a.act(again, "close", second)

	a.Analyzer.Kill()
	a.begin()
	if got := a.send(again, id, "close", second); got != id {
		t.Errorf("the same again: got record %s, want %s", got, id)
	}
	a.act(decided{author: "bob", reason: "ticket 5", target: closed}, "undo", closed)
	a.act(decided{caller: second, rule: "r", author: "alice", reason: "ticket 6"}, "reset", second, "r")
	brake := a.act(decided{rule: "r", author: "alice", reason: "ticket 7", until: until}, "mode", "shadow", "r")

	if code := a.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, a.Analyzer.Text())
	}
	a.begin()
	a.act(decided{author: "alice", reason: defaultReason, target: brake}, "undo", brake)
	a.act(decided{caller: "user:somebody", author: "alice", reason: "ticket 8", until: until}, "close", "user:somebody", "--force")
	a.act(decided{caller: first, author: "bob", reason: "ticket 9"}, "reset", first)

	a.compareAnswers()
	if code := a.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, a.Analyzer.Text())
	}
	a.compare("topic", a.inTopic())
}

// changeRules changes the limit in the file, and waits until all partitions are counted by that.
func (a *actor) changeRules(limit string) {
	a.T.Helper()
	before := a.rulesID()
	a.WriteRules(processtest.Rules(limit))
	after := a.rulesID()
	a.awaitRules(after)
	a.want = append(a.want, decided{of: "rules_changed", rulesFrom: before, rules: after})
}
