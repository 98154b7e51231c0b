//go:build lab

package lab

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/gateview"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// desk is where a person on call sits: a broker, a rules file, and a token of role operate. Analyzers are processes of their own. Each
// wait of it lasts a minute at most.
type desk struct {
	t          *testing.T
	dir        string
	broker     string
	client     *kafkaio.Client
	partitions int
	rules      string // the file
	token      string // the file
	args       []string
	seq        uint64 // of frames
}

// answering is an analyzer with its API.
type answering struct {
	*processtest.Program

	api string
}

func newDesk(t *testing.T, partitions int, rules string) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), partitions: partitions, broker: serveKafka(t, embedded.Options{MinSession: time.Second}).Addr()}
	d.client = kafkaio.New(kafkaio.Config{Brokers: []string{d.broker}})
	t.Cleanup(d.client.Close)
	d.rules, d.token = filepath.Join(d.dir, "rules.yaml"), filepath.Join(d.dir, "token")
	d.writeRules(rules)
	out, err := runCommand("token", "alice", "operate", "--write", d.token)
	if err != nil {
		t.Fatal(err)
	}
	tokens, key := filepath.Join(d.dir, "tokens"), filepath.Join(d.dir, "cluster-key")
	d.write(tokens, regexp.MustCompile(`(?m)^alice.*\n`).FindString(out))
	d.write(key, strings.Repeat("k", 32))
	d.args = []string{
		"--listen", "127.0.0.1:0", "--session-timeout", "2s", "--checkpoint", "50ms", "--predict", "off",
		"--api-tokens", tokens, "--api-cluster-key-file", key,
	}
	return d
}

func (d *desk) write(path, text string) {
	d.t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		d.t.Fatal(err)
	}
}

// writeRules replaces the rules, which are written as in a list.
func (d *desk) writeRules(rules string) {
	d.t.Helper()
	d.write(d.rules, "version: 1\nrules:\n  - "+rules+"\n")
}

// analyze starts the analyzer whose counts have this name.
func (d *desk) analyze(name string) *answering {
	d.t.Helper()
	return d.analyzeAs("analyze", "--brokers", d.broker, "--rules", d.rules, "--partitions", strconv.Itoa(d.partitions), "--data", filepath.Join(d.dir, name))
}

// analyzeAs is analyze with other arguments.
func (d *desk) analyzeAs(args ...string) *answering {
	d.t.Helper()
	a := &answering{Program: start(d.t, append(append(args, d.args...), "--api-listen", testenv.FreeAddress(d.t))...)}
	a.api = "http://" + a.WaitFor(`listening for the API.* address=(\S+)`, time.Minute)
	return a
}

// awaitRunning waits until an analyzer hears that each of so many partitions has an owner that answers, and owns so many itself. It
// returns one of these.
func (d *desk) awaitRunning(a *answering, partitions, own int) (partition int) {
	d.t.Helper()
	awaitAnswer(d.t, "an owner of each partition", func() (apiv1.Status, bool) {
		s, ok := answer[apiv1.Status](d, a, "status")
		running, here := 0, 0
		for _, p := range s.Partitions {
			if p.State == "running" && !p.Stale && p.API != "" {
				running++
			}
			if p.Here {
				partition = p.Partition
				here++
			}
		}
		return s, ok && running == partitions && here == own && s.Control.Ready && s.Board.Ready
	})
	return partition
}

// answer returns what a subcommand of an analyzer says, and whether it says anything.
func answer[T any](d *desk, a *answering, args ...string) (said T, ok bool) {
	out, err := runCommand(append(args, "--api", a.api, "--token-file", d.token, "--output", "json")...)
	return said, err == nil && json.Unmarshal([]byte(out), &said) == nil
}

// awaitAnswer asks until the answer is as it should be, and returns it. If that fails, it logs the last one.
func awaitAnswer[T any](t *testing.T, what string, ask func() (T, bool)) (last T) {
	t.Helper()
	done := false
	defer func() {
		if text, err := json.Marshal(last); !done && err == nil {
			t.Logf("%s: the last answer was %s", what, text)
		}
	}()
	processtest.Eventually(t, time.Minute, what, func() (ok bool) { last, ok = ask(); return ok })
	done = true
	return last
}

// act does something by hand, and returns its id.
func (d *desk) act(a *answering, args ...string) (id string) {
	d.t.Helper()
	said, ok := answer[apiv1.ActionAnswer](d, a, append(args, "--reason", "ticket 4711")...)
	if !ok {
		d.t.Fatalf("%v: got no answer, want it done", args)
	}
	return said.Action.ID
}

// explained waits until the analyzer's answer about a key is as it should be.
func (d *desk) explained(a *answering, key, what string, ok func(e *apiv1.Explanation) bool, more ...string) apiv1.Explanation {
	d.t.Helper()
	return awaitAnswer(d.t, what, func() (apiv1.Explanation, bool) {
		e, said := answer[apiv1.Explanation](d, a, append([]string{"explain", "key:" + key}, more...)...)
		return e, said && ok(&e)
	})
}

// send sends a frame of n requests of one key to its partition, and returns their time.
func (d *desk) send(key string, n uint32) time.Time {
	d.t.Helper()
	return d.sendTo("floodgate.requests", d.partitions, key, n)
}

// sendTo is send to another topic.
func (d *desk) sendTo(topic string, partitions int, key string, n uint32) time.Time {
	d.t.Helper()
	d.seq++
	now := time.Now()
	f := schemas.Frame{
		Producer: schemas.ProducerID{9}, Seq: d.seq, Flushed: now.UnixNano(), Partitions: uint32(partitions), Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		Entries: []schemas.Entry{{Time: now.UnixNano(), Kind: "key", ID: key, Count: n}},
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", key), partitions)
	if _, err := d.client.Produce(d.t.Context(), topic, p, kafkaio.Message{Time: now.UnixNano(), Value: value}); err != nil {
		d.t.Fatal(err)
	}
	return now
}

// gateOf is a gate in a sidecar, which follows the decisions.
type gateOf struct {
	d   *desk
	url string
}

// sidecar starts one.
func (d *desk) sidecar(more ...string) *gateOf {
	d.t.Helper()
	s := start(d.t, append([]string{"sidecar", "--brokers", d.broker, "--listen", "127.0.0.1:0", "--callers", "key=X-Api-Key"}, more...)...)
	return &gateOf{d, "http://" + s.WaitFor(`msg=listening address=(\S+)`, time.Minute)}
}

// holds waits until what the gate holds of a key is as it should be.
func (g *gateOf) holds(key, what string, ok func(h *gateview.Caller) bool) gateview.Caller {
	g.d.t.Helper()
	return awaitAnswer(g.d.t, what, func() (h gateview.Caller, _ bool) {
		text, status := processtest.Get(g.d.t.Context(), g.url+"/caller?"+url.Values{"caller": {"key:" + key}}.Encode())
		return h, status == http.StatusOK && json.Unmarshal([]byte(text), &h) == nil && ok(&h)
	})
}

// closes waits until exactly these rules close a key at the gate; none is that it is open.
func (g *gateOf) closes(key, what string, rules ...string) gateview.Caller {
	g.d.t.Helper()
	return g.holds(key, what, func(h *gateview.Caller) bool {
		in := make(map[string]bool)
		for _, held := range h.Decisions {
			if held.InForce {
				in[held.Rule] = true
			}
		}
		for _, rule := range rules {
			if !in[rule] {
				return false
			}
		}
		return h.Fresh > 0 && h.Cold == 0 && len(in) == len(rules) && h.Refused == (len(rules) > 0)
	})
}
