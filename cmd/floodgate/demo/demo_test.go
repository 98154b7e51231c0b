package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// small is a demo for tests: everything that the real one has, and little of it.
func small(out io.Writer) Config {
	return Config{
		Duration: 1200 * time.Millisecond, Partitions: 2, Servers: 2, Quiet: 5, Noisy: 1, QuietRate: 5, NoisyRate: 200,
		Limit: 100, Window: 2 * time.Second, Out: out, Logger: slog.New(slog.DiscardHandler),
		// as the flags have it: decisions come ahead of time
		Predict: rules.PredictShares,
	}
}

// transcript is what a demo prints. Any goroutine may use it.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
	more chan struct{}   // guarded by mu: closed when there is more
}

func (p *transcript) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
	return p.text.Write(b)
}

// waitFor returns the last submatch of a pattern, once there is one.
func (p *transcript) waitFor(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		text := p.text.String()
		if p.more == nil {
			p.more = make(chan struct{})
		}
		more := p.more
		p.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("got no %s in\n%s", pattern, text)
		}
	}
}

func TestClosesOnlyTheNoisyCaller(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var out strings.Builder
	c := small(&out)
	c.Duration, c.Quiet, c.Noisy, c.NoisyRate, c.JSON = 3*time.Second, 20, 2, 500, true
	c.Partitions, c.Servers, c.Data = 4, 3, filepath.Join(t.TempDir(), "demo")
	sum, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Closed) != 2 || sum.Innocents != 0 {
		t.Fatalf("closed: got %+v and %d innocents, want the 2 noisy callers", sum.Closed, sum.Innocents)
	}
	for _, x := range sum.Closed {
		if !strings.HasPrefix(x.Caller, "key:noisy-") || x.Admitted < 100 || x.Blocked == 0 {
			t.Errorf("got %+v, want a noisy caller with its limit admitted and the rest blocked", x)
		}
	}
	if a := sum.Audit; !a.OK() || a.Generator != sum.Requests || a.Generator == 0 {
		t.Errorf("audit: got %+v of %d requests, want all three equal", a, sum.Requests)
	}
	if sum.Lag.Samples == 0 || sum.Lag.P50 <= 0 || sum.Lag.P99 < sum.Lag.P50 || sum.HotPath <= 0 {
		t.Errorf("got lag %+v and %v ns, want what was measured", sum.Lag, sum.HotPath)
	}
	if err := errors.Join(sum.Print(&out, true), sum.Verdict()); err != nil {
		t.Errorf("got %v, want the demo to be content", err)
	}
	for _, field := range []string{
		`"type":"summary"`, `"closed":[{"caller":"key:noisy-1","admitted":`, `"blocked":`, `"overshoot":`,
		`"innocents_closed":0`, `"requests":`, `"lag_ms":{"p50":`, `"p99":`, `"hot_path_ns":`, `"type":"tick"`,
	} {
		if !strings.Contains(out.String(), field) {
			t.Errorf("output has no %s", field)
		}
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("got the line %q, want JSON", line)
		}
	}
	if left, err := os.ReadDir(c.Data); err != nil || len(left) != 2 {
		t.Errorf("got %v, %v in the directory that was named, want log and counts kept", left, err)
	}
}

// TestIsInterruptedInAnyPhase: whenever Ctrl-C comes, the demo ends soon, says what it did, and leaves no file.
func TestIsInterruptedInAnyPhase(t *testing.T) {
	testenv.Long(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			c := small(io.Discard)
			c.Window = time.Second
			began := time.Now()
			sum, err := Run(ctx, c)
			if took := time.Since(began) - after; took > 10*time.Second {
				t.Errorf("took %v to end, want it soon", took)
			}
			switch {
			case err == nil && (!sum.Audit.OK() || sum.Audit.Generator != sum.Requests):
				t.Errorf("got no error, and no exact audit: %+v", sum)
			case err != nil && !errors.Is(err, ErrInterrupted):
				t.Errorf("got %v, want an audit or that it was too early for one", err)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
				t.Errorf("got %v and %v left behind, want nothing", left, err)
			}
		})
	}
}

// TestInterruptedItStillAuditsItself, long before its time is up.
func TestInterruptedItStillAuditsItself(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var out transcript
	c := small(&out)
	c.Duration, c.Noisy = time.Hour, 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running errgroup.Group
	var sum *Summary
	running.Go(func() (err error) { sum, err = Run(ctx, c); return err })
	out.waitFor(t, `admitted +([1-9]\d*)`)
	cancel()
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	if !sum.Audit.OK() || sum.Requests == 0 || len(sum.Closed) != 0 {
		t.Errorf("got %+v, want an exact audit of what was sent, and nobody closed", sum)
	}
}

// TestAuditCatchesALiar: somebody else writes one frame into the demo's log. That is one request too many of one caller, and
// one caller whose requests nobody sent: the demo says both, and fails.
func TestAuditCatchesALiar(t *testing.T) {
	t.Parallel()
	var out transcript
	c := small(&out)
	c.Quiet, c.Partitions, c.Data, c.Duration = 3, 1, filepath.Join(t.TempDir(), "demo"), 1500*time.Millisecond
	var running errgroup.Group
	var sum *Summary
	running.Go(func() (err error) { sum, err = Run(t.Context(), c); return err })
	broker := out.waitFor(t, `starting a broker on ([^,]+),`)
	out.waitFor(t, `admitted +\d+`)
	lie(t, broker, schemas.Entry{Kind: "key", ID: "quiet-01", Count: 1}, schemas.Entry{Kind: "key", ID: "stranger", Count: 3})
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := sum.Verdict(); err == nil || !strings.Contains(err.Error(), "the audit found differences") {
		t.Errorf("got %v, want it to fail, and why", err)
	}
	if err := sum.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^audit: quiet-01: generator saw (\d+) admitted and 0 blocked, the log \d+ and 0$`, `(?m)^audit: stranger: in the log, but never sent$`, `(?m)^audit: generator \d+ = log \d+ = store \d+: WRONG$`} {
		if !regexp.MustCompile(want).MatchString(out.text.String()) {
			t.Errorf("got no line %s in\n%s", want, out.text.String())
		}
	}
}

// lie writes a frame into the log of requests.
func lie(t *testing.T, broker string, entries ...schemas.Entry) {
	t.Helper()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	now := time.Now().UnixNano()
	for i := range entries {
		entries[i].Time = now
	}
	f := schemas.Frame{
		Producer: schemas.ProducerID{6, 6, 6}, Seq: 1, Flushed: now, Partitions: 1, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: entries,
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Produce(t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: now, Value: value}); err != nil {
		t.Fatal(err)
	}
}

// TestRulesThatCannotBeAreRefused before anything starts.
func TestRulesThatCannotBeAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, change := range map[string]func(c *Config){
		"no limit": func(c *Config) { c.Limit = 0 }, "a negative one": func(c *Config) { c.Limit = -1 },
		"no window": func(c *Config) { c.Window = 0 }, "a window of more than a year": func(c *Config) { c.Window = 9000 * time.Hour },
	} {
		c := small(io.Discard)
		change(&c)
		if sum, err := Run(t.Context(), c); err == nil || sum != nil {
			t.Errorf("%s: got %+v and %v, want an error", name, sum, err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}

// TestADirectoryThatCannotBeMade ends the demo before it starts a broker.
func TestADirectoryThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := small(&out)
	c.Data = filepath.Join(file, "below")
	if _, err := Run(t.Context(), c); err == nil || out.Len() > 0 {
		t.Errorf("got %v and %q, want an error and no output", err, out.String())
	}
}

// TestUntil asks until there is an answer, an error or no more time.
func TestUntil(t *testing.T) {
	asked := 0
	if err := until(t.Context(), func() (bool, error) { asked++; return asked == 3, nil }); err != nil || asked != 3 {
		t.Errorf("got %v after %d questions, want nil after 3", err, asked)
	}
	wrong := errors.New("wrong")
	if err := until(t.Context(), func() (bool, error) { return false, wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v, want %v", err, wrong)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := until(ctx, func() (bool, error) { cancel(); return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestRules are the one that closes, as the config says, one that people can ask about an address, and the one that counts all for
// the audit and closes nothing.
func TestRules(t *testing.T) {
	c := Config{Limit: 7, Window: 90 * time.Second}
	set, err := c.Rules()
	if err != nil || len(set.Rules) != 3 {
		t.Fatalf("got %v and %v, want three rules", set, err)
	}
	key, address, all := set.Rules[0], set.Rules[1], set.Rules[2]
	if key.Name != keyRule || key.Kind != "key" || key.Limit != 7 || key.Mode != schemas.ModeEnforce || key.CountBlocked {
		t.Errorf("got %+v, want a rule that closes keys at 7", key)
	}
	if address.Name != addressRule || address.Kind != "ip" {
		t.Errorf("got %+v, want a rule for addresses: the walk of the README asks about one", address)
	}
	if all.Name != auditRule || all.Kind != "key" || all.Mode != schemas.ModeShadow || !all.CountBlocked {
		t.Errorf("got %+v, want a shadow rule that counts what is blocked too", all)
	}
	if len(set.Warnings) > 0 {
		t.Errorf("got warnings %v, want none in front of a newcomer", set.Warnings)
	}
}

// TestDirectory: a temporary one is private, and is removed; one that was named is made, and stays.
func TestDirectory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	d := &installation{}
	cleanUp, err := d.directory()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.dir); err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(d.dir) != tmp {
		t.Errorf("got %v and %v of %s, want a private directory in %s", info, err, d.dir, tmp)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cleanUp(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}

	named := filepath.Join(tmp, "a", "b")
	d = &installation{config: Config{Data: named}}
	if cleanUp, err = d.directory(); err != nil || d.dir != named {
		t.Fatalf("got %s and %v, want %s", d.dir, err, named)
	}
	if err := cleanUp(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(named); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v and %v, want the directory still there, and private", info, err)
	}
}

// TestTwoDemosAtOnce: two demos at once do not meet, and both audits are exact.
func TestTwoDemosAtOnce(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			c := small(io.Discard)
			c.Duration, c.Partitions, c.Noisy = 300*time.Millisecond, 1, 0
			sum, err := Run(t.Context(), c)
			if err != nil {
				return err
			}
			return sum.Verdict()
		})
	}
	if err := both.Wait(); err != nil {
		t.Error(err)
	}
}
