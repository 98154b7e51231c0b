//go:build lab

package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var (
	ingestRotations = flag.Int("ingest.rotations", 30, "how often TestIngestRotations rotates the log; 600 with FLOODGATE_LONG")
	ingestSeed      = flag.Uint64("ingest.seed", 0, "of TestIngestRotations; 0: drawn")
)

// rotatedServer is a server and the rotator of its log, on a real file system: numbers of files come back.
type rotatedServer struct {
	t     *testing.T
	rnd   *rand.Rand
	log   string          // its directory is a symbolic link
	said  strings.Builder // by the processes of ingest that have ended
	dirs  []string        // where that link can lead
	at    int             // in dirs
	now   *os.File
	old   []*os.File // renamed logs to which a process of the server still writes
	truth map[string]int64
	lines int
	count int // of rotations
}

func (s *rotatedServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// open opens a log, which begins with the line with which all begin.
func (s *rotatedServer) open() {
	f, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	s.must(err)
	s.now = f
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		_, err = f.WriteString("#Fields: of a constant first line\n")
		s.must(err)
	}
}

func (s *rotatedServer) write(to *os.File, n int) {
	var b bytes.Buffer
	for range n {
		id := fmt.Sprintf("caller-%04d", s.rnd.IntN(killCallers))
		s.truth[id]++
		s.lines++
		fmt.Fprintf(&b, "192.0.2.1 - %s [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"test\"\n", id, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), s.lines)
	}
	_, err := to.Write(b.Bytes())
	s.must(err)
}

// rotate renames the log, or copies and truncates it.
func (s *rotatedServer) rotate() {
	s.count++
	for i := s.count; i > 0; i-- {
		for _, ending := range []string{"", ".gz"} {
			err := os.Rename(fmt.Sprintf("%s.%d%s", s.log, i, ending), fmt.Sprintf("%s.%d%s", s.log, i+1, ending))
			if !errors.Is(err, fs.ErrNotExist) {
				s.must(err)
			}
		}
	}
	if s.rnd.IntN(3) == 0 {
		text, err := os.ReadFile(s.log)
		s.must(err)
		s.must(os.WriteFile(s.log+".1", text, 0o600))
		s.must(s.now.Truncate(0))
		return
	}
	s.must(os.Rename(s.log, s.log+".1"))
	if s.rnd.IntN(3) == 0 {
		s.old = append(s.old, s.now)
	} else {
		s.must(s.now.Close())
	}
	s.open()
}

// zip compresses a renamed log as gzip does.
func (s *rotatedServer) zip() {
	path := fmt.Sprintf("%s.%d", s.log, 1+s.rnd.IntN(4))
	text, err := os.ReadFile(path)
	if err != nil || s.writes(path) {
		return // it is compressed already, or still written to
	}
	info, err := os.Stat(path)
	s.must(err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(text)
	s.must(errors.Join(err, z.Close()))
	s.must(os.WriteFile(path+".gz", b.Bytes(), 0o600))
	s.must(os.Chtimes(path+".gz", time.Time{}, info.ModTime()))
	s.must(os.Remove(path))
}

func (s *rotatedServer) writes(path string) bool {
	info, err := os.Stat(path)
	s.must(err)
	for _, f := range s.old {
		if other, err := f.Stat(); err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// move puts all logs on another file system: their numbers and that of the device change, and nothing else.
func (s *rotatedServer) move() {
	for _, f := range append(s.old, s.now) {
		s.must(f.Close())
	}
	s.old = nil
	from := s.dirs[s.at]
	s.at = (s.at + 1) % len(s.dirs)
	to := s.dirs[s.at]
	s.must(os.RemoveAll(to))
	s.must(os.Mkdir(to, 0o700))
	entries, err := os.ReadDir(from)
	s.must(err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		s.must(err)
		info, err := e.Info()
		s.must(err)
		s.must(os.WriteFile(filepath.Join(to, e.Name()), text, 0o600))
		s.must(os.Chtimes(filepath.Join(to, e.Name()), time.Time{}, info.ModTime()))
	}
	s.link()
	s.open()
}

// link makes the directory of the log lead to the present one.
func (s *rotatedServer) link() {
	s.must(os.Symlink(s.dirs[s.at], filepath.Dir(s.log)+".next"))
	s.must(os.Rename(filepath.Dir(s.log)+".next", filepath.Dir(s.log)))
}

// live lets a second or so of the server's life pass. stop and start are for ingest.
func (s *rotatedServer) live(r *ingestRun) {
	time.Sleep(time.Duration(s.rnd.IntN(300)) * time.Millisecond)
	s.write(s.now, 1+s.rnd.IntN(200))
	for _, f := range s.old {
		s.write(f, s.rnd.IntN(3))
	}
	switch s.rnd.IntN(12) {
	case 0, 1, 2, 3:
		s.rotate()
	case 4:
		for range 2 + s.rnd.IntN(3) {
			s.rotate()
			s.write(s.now, s.rnd.IntN(50))
		}
	case 5, 6:
		s.zip()
	case 7:
		if len(s.old) > 0 {
			s.must(s.old[0].Close())
			s.old = s.old[1:]
		}
	case 8:
		r.p.Kill()
		s.down(r)
	case 9:
		if code := r.p.Stop(syscall.SIGTERM); code != 0 {
			s.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.p.Text())
		}
		s.down(r)
	}
}

// down lets things happen while ingest does not run, and starts it again.
func (s *rotatedServer) down(r *ingestRun) {
	s.said.WriteString(r.p.Text())
	for range s.rnd.IntN(3) {
		s.write(s.now, 1+s.rnd.IntN(200))
		s.rotate()
		s.zip()
	}
	if s.rnd.IntN(3) == 0 {
		s.move()
	}
	r.start()
}

// TestIngestRotations rotates a log in all ways at random while ingest reads it, is killed and is started again. Each line counts once, and
// nothing is reported as lost.
func TestIngestRotations(t *testing.T) {
	t.Parallel()
	rotations := *ingestRotations
	if testenv.IsLong() {
		rotations *= 20
	}
	seed := *ingestSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "log"), "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	rules, mapping := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "mapping.yaml")
	s := &rotatedServer{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), truth: make(map[string]int64), log: filepath.Join(dir, "logs", "access.log"),
		dirs: []string{filepath.Join(dir, "one"), filepath.Join(dir, "other")}}
	if shm, err := os.MkdirTemp("/dev/shm", "floodgate-lab"); err == nil { // another device
		t.Cleanup(func() { os.RemoveAll(shm) })
		s.dirs[1] = filepath.Join(shm, "other")
	}
	s.must(errors.Join(os.WriteFile(rules, []byte(killRules), 0o600), os.WriteFile(mapping, []byte(ingestMapping), 0o600), os.Mkdir(s.dirs[0], 0o700)))
	s.link()
	s.open()
	s.write(s.now, 10)
	counting, url := killRun{broker: broker, session: "2s"}.analyze(t, dir, rules, 0)
	r := &ingestRun{t: t, broker: broker, args: []string{"--file", s.log, "--mapping", mapping, "--data", filepath.Join(dir, "positions"), "--keep-open", "5s"}}
	r.start()
	r.p.WaitFor(`msg=reading path=(\S+)`, 30*time.Second) // what is rotated before that is none of its business
	for s.count < rotations {
		s.live(r)
		if strings.Contains(r.p.Text(), "level=ERROR") {
			t.Fatalf("seed %d, %d rotations: ingest reports an error:\n%s", seed, s.count, r.p.Text())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	awaitQuiet(ctx, t, r)
	if code := r.p.Stop(syscall.SIGTERM); code != 0 || strings.Contains(r.p.Text(), "level=ERROR") {
		t.Errorf("got exit code %d, want 0 and no errors:\n%s", code, r.p.Text())
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	awaitCaughtUp(ctx, t, client, url, "floodgate.requests")
	if code := counting.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyzer: got exit code %d, want 0:\n%s", code, counting.Text())
	}
	compareStores(t, filepath.Join(dir, "counts"), s.truth)
	t.Logf("%d lines, %d rotations", s.lines, s.count)
	if t.Failed() {
		path := filepath.Join(os.TempDir(), "floodgate-rotations.log")
		s.must(os.WriteFile(path, []byte(s.said.String()+r.p.Text()), 0o600))
		t.Logf("what ingest said is in %s", path)
	}
}

// awaitQuiet waits until ingest has read all there is: also what only a look at the directory finds, each ten seconds.
func awaitQuiet(ctx context.Context, t *testing.T, r *ingestRun) {
	t.Helper()
	lines, since := -1.0, time.Now()
	processtest.Eventually(t, 2*time.Minute, "ingest at the end of all logs", func() bool {
		metrics, _ := processtest.Get(ctx, r.url+"/metrics")
		if now := processtest.MetricSum(metrics, "floodgate_ingest_lines_total"); now != lines {
			lines, since = now, time.Now()
		}
		return time.Since(since) > 12*time.Second && processtest.MetricSum(metrics, "floodgate_ingest_lag") == 0
	})
}
