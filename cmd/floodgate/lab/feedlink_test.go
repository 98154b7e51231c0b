//go:build lab

package lab

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/feedlink"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// feedServers is how many servers stand behind one sidecar.
const feedServers = 50

// feedServer is a server without access to Kafka.
type feedServer struct {
	watcher

	set  *gate.Set
	rec  *record.Recorder
	link *kafkalink.Link
}

// TestServersBehindASidecar: fifty servers without access to Kafka count their requests, to the unit, and close their gates, each of them as
// soon as one with access; also while the sidecar is killed and comes back. Kafka sees the connections of one client.
func TestServersBehindASidecar(t *testing.T) {
	r := newRig(t, measureRules, 4)
	r.analyze()
	socket := filepath.Join(t.TempDir(), "feed")
	sidecar := r.sidecar(socket)
	quiet := slog.New(slog.DiscardHandler)
	servers := make([]*feedServer, feedServers)
	for i := range servers {
		s := &feedServer{set: gate.New(gate.Options{Logger: quiet}), rec: record.New(record.Options{})}
		s.closed = make(map[string]time.Time)
		var err error
		if s.link, err = feedlink.Open(s.set, s.rec, feedlink.Config{Address: "unix:" + socket, Observe: s.applied, Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.link.Close)
		servers[i] = s
	}
	for _, s := range servers {
		if err := s.link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var last time.Time
	for i := range 200 {
		last = feedRound(servers, i)
		switch i {
		case 70:
			sidecar.Kill()
		case 100:
			sidecar = r.sidecar(socket)
		}
	}
	processtest.Eventually(t, time.Minute, "all noisy callers closed everywhere", func() bool {
		return !slices.ContainsFunc(servers, func(s *feedServer) bool { return s.count() < 200/noisyLimit })
	})
	if n := connectionsTo(t, r.broker, sidecar.Cmd.Process.Pid); n == 0 || n > 4 {
		t.Errorf("got %d connections of the sidecar to Kafka, want up to 4", n)
	}
	var sum loadSummary
	var took []time.Duration
	for _, s := range servers {
		s.link.Close()
		st := s.rec.Stats()
		sum.Accepted, sum.Acked, sum.Unknown, sum.Dropped = sum.Accepted+st.Accepted, sum.Acked+st.Acked, sum.Unknown+st.Unknown, sum.Dropped+st.DroppedTotal()
		took = append(took, s.closed[fmt.Sprint("n", 200/noisyLimit-1)].Sub(last))
	}
	r.catchUp("floodgate_next_offset", time.Minute)
	r.wholeTruth(sum)
	t.Logf("%d requests of %d servers; from the request that reached the limit to the gates of all: %s", sum.Acked, feedServers, histogram(took))
	if slowest := slices.Max(took); slowest > time.Second {
		t.Errorf("got a gate that closed after %v, want 1 s at most", slowest)
	}
}

// sidecar starts a sidecar that serves a feed and takes frames.
func (r *rig) sidecar(socket string) *processtest.Program {
	r.t.Helper()
	p := start(r.t, "sidecar", "--brokers", r.broker, "--listen", "127.0.0.1:0", "--feed-listen", "unix:"+socket, "--feed-frames",
		"--topic-name", "requests="+r.topic("requests"), "--topic-name", "decisions="+r.topic("decisions"))
	p.WaitFor(`msg="listening for gates in other servers" address=(\S+)`, 20*time.Second)
	return p
}

// feedRound has each server serve a calm caller, and one of them a noisy one, who reaches its limit after so many rounds. It returns when that
// was.
func feedRound(servers []*feedServer, round int) time.Time {
	for i := round % 5; i < len(servers); i += 5 {
		servers[i].serve("key", fmt.Sprint("calm", (i+round)%300))
	}
	time.Sleep(10 * time.Millisecond)
	at := time.Now()
	servers[round%feedServers].serve("noisy", fmt.Sprint("n", round/noisyLimit))
	return at
}

func (s *feedServer) serve(kind, id string) {
	var c gate.Callers
	c.Add(s.set.Gate(kind), id)
	s.rec.Record(&c, s.set.Check(&c), record.Request{Resource: "GET /"})
}

// connectionsTo returns how many connections a process has to a broker on loopback.
func connectionsTo(t *testing.T, broker string, pid int) (n int) {
	t.Helper()
	_, port, err := net.SplitHostPort(broker)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		t.Skip("needs /proc")
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, f := range files {
		link, _ := os.Readlink(f) // it may be closed by now
		own = append(own, link)
	}
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // sl local remote state … inode
		if len(f) > 9 && f[3] == "01" && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", number)) && slices.Contains(own, "socket:["+f[9]+"]") {
			n++
		}
	}
	return n
}
