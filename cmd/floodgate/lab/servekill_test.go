//go:build lab

package lab

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

var (
	serveKills = flag.Int("serve.kills", 30, "how often TestServeKills kills serve")
	serveCuts  = flag.Int("serve.cuts", 10, "how often TestServeLosesPower takes away its disk")
	serveSeed  = flag.Uint64("serve.seed", 0, "of TestServeKills and TestServeLosesPower; 0: drawn")
)

// serveRate is how many lines a second the server of these tests writes.
const serveRate = 20_000

// killedServe is a serve that is killed again and again, and a server whose log is rotated all the time.
type killedServe struct {
	*rotatedServer

	p       *processtest.Program
	data    string
	flags   []string
	url     string
	began   time.Time // of the lines
	rotated time.Time
}

func newKilledServe(t *testing.T) *killedServe {
	t.Helper()
	dir := t.TempDir()
	seed := *serveSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	s := &killedServe{rotatedServer: &rotatedServer{
		t: t, rnd: rand.New(rand.NewPCG(seed, 0)), truth: make(map[string]int64), log: filepath.Join(dir, "logs", "access.log"), dirs: []string{filepath.Join(dir, "one")},
	}, data: filepath.Join(dir, "data")}
	rules, mapping := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "mapping.yaml")
	s.must(errors.Join(os.WriteFile(rules, []byte(killRules), 0o600), os.WriteFile(mapping, []byte(ingestMapping), 0o600), os.Mkdir(s.dirs[0], 0o700)))
	s.flags = []string{"--mapping", mapping, "--rules", rules, "--from-start"}
	s.link()
	s.open()
	return s
}

// begin starts serve for the first time, and then the lines.
func (s *killedServe) begin() {
	s.t.Helper()
	s.write(s.now, 10)
	s.start()
	s.p.WaitFor(`msg=reading path=(\S+)`, 30*time.Second)
	s.lines, s.began = 10, time.Now()
}

// run runs serve, and does not wait until it listens.
func (s *killedServe) run() {
	s.t.Helper()
	s.p = start(s.t, append([]string{"serve", "--file", s.log, "--data", s.data, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--api-listen="}, s.flags...)...)
}

func (s *killedServe) start() {
	s.t.Helper()
	s.run()
	s.url = "http://" + s.p.WaitFor(`msg=listening address=(\S+) flag=--metrics-listen`, 30*time.Second)
}

// goOn writes what is due, and rotates, for some time.
func (s *killedServe) goOn(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		due := int(time.Since(s.began).Seconds()*serveRate) - s.lines
		for _, f := range s.old {
			s.write(f, 1)
		}
		s.write(s.now, max(due, 1))
		if time.Since(s.rotated) < 300*time.Millisecond {
			continue
		}
		s.rotated = time.Now()
		switch s.rnd.IntN(4) {
		case 0:
			s.zip()
		case 1:
			if len(s.old) > 0 {
				s.must(s.old[0].Close())
				s.old = s.old[1:]
			}
		default:
			s.rotate()
		}
	}
}

// kill is kill -9.
func (s *killedServe) kill() {
	s.t.Helper()
	s.p.Kill()
	s.said.WriteString(s.p.Text())
	if said := s.p.Text(); strings.Contains(said, "panic") || strings.Contains(said, "lines may be missing") {
		s.t.Errorf("serve says:\n%s", said)
	}
}

// wantAll waits until all is read, stops serve, and compares its counts with the lines, and with its own log.
func (s *killedServe) wantAll() {
	s.t.Helper()
	awaitQuiet(s.t.Context(), s.t, &ingestRun{url: s.url})
	metrics, _ := processtest.Get(s.t.Context(), s.url+"/metrics")
	twice := processtest.MetricSum(metrics, "floodgate_duplicates_total")
	if code := s.p.Stop(syscall.SIGTERM); code != 0 {
		s.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, s.p.Text())
	}
	compareStores(s.t, s.data, s.truth)
	out, err := runCommand("audit", "--data", s.data, "--rules", s.flags[3])
	if err != nil || !strings.Contains(out, "to the unit") {
		s.t.Errorf("audit: got %v and\n%s\nwant it equal to the unit", err, out)
	}
	s.t.Logf("%d lines, %d rotations, %.0f lines were read more than once", s.lines, s.count, twice)
	if s.t.Failed() {
		path := filepath.Join(os.TempDir(), "floodgate-serve.log")
		s.must(os.WriteFile(path, []byte(s.said.String()+s.p.Text()), 0o600))
		s.t.Logf("what serve said is in %s", path)
	}
}

// TestServeKills kills serve at random moments while a log of 20,000 lines a second is rotated in all ways. Each line counts once.
func TestServeKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	s := newKilledServe(t)
	s.begin()
	for range *serveKills {
		s.goOn(time.Duration(s.rnd.IntN(1000)) * time.Millisecond)
		s.kill()
		s.goOn(time.Duration(s.rnd.IntN(200)) * time.Millisecond)
		for s.rnd.IntN(3) == 0 { // while it starts
			s.run()
			s.goOn(time.Duration(s.rnd.IntN(300)) * time.Millisecond)
			s.kill()
		}
		s.start()
	}
	s.wantAll()
}
