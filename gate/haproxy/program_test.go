package haproxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// program is the real HAProxy with deploy/haproxy/haproxy.cfg, its composite caller included, and a Writer. At a second address it
// says what the map of keys has for the id in base64 in a header, and it believes which client a proxy before it has.
type program struct {
	*Writer

	t       testing.TB
	dir     string
	address string // for clients; p in dir takes a client's address from a test
	board   *board.Board
	cmd     *exec.Cmd
	said    *bytes.Buffer
	seq     uint64
}

func newProgram(t testing.TB) *program {
	t.Helper()
	testenv.Program(t, "haproxy")
	dir, err := os.MkdirTemp("", "haproxy") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &program{t: t, dir: dir, address: testenv.FreeAddress(t), board: board.New(board.Options{})}
	text, err := os.ReadFile("../../deploy/haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("/run/haproxy.sock group haproxy", filepath.Join(dir, "s"), "/etc/haproxy/", dir+"/", "log /dev/log len 8192", "log stdout len 8192 format raw",
		"    log global\n", "", "bind :8080", "bind "+p.address+"\n    bind "+dir+"/p accept-proxy", "    #http-request", "    http-request", "    #acl", "    acl", "    #use_backend", "    use_backend",
		"    server backend 127.0.0.1:3000", "    http-request return status 200 content-type text/plain lf-string \"%[req.hdr(id),b64dec,url_enc,map("+dir+"/closed_key.map)]\"").Replace(string(text))
	for name, text := range map[string]string{"h.cfg": config, "closed_ip.map": "", "closed_key.map": "", "closed_ip_path.map": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Writer = New(Options{
		Board: p.board, Socket: filepath.Join(dir, "s"), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Maps: []Map{{"ip", dir + "/closed_ip.map"}, {"key", dir + "/closed_key.map"}, {"ip_path", dir + "/closed_ip_path.map"}},
	})
	p.board.Resize(1)
	p.board.Loaded(0)
	return p
}

// start starts HAProxy as a master and a worker, and waits until it serves.
func (p *program) start() {
	p.t.Helper()
	p.said = &bytes.Buffer{}
	p.cmd = exec.Command(testenv.Program(p.t, "haproxy"), "-W", "-f", filepath.Join(p.dir, "h.cfg"))
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() { p.end(cmd, syscall.SIGTERM) })
	p.eventually("HAProxy serves", func() bool {
		conn, err := net.Dial("unix", p.dir+"/p")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil && p.pid() != "" // its sockets come one after the other
	})
}

// end ends HAProxy with its worker.
func (p *program) end(cmd *exec.Cmd, s syscall.Signal) {
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(s)
	_ = cmd.Wait()
	if p.t.Failed() {
		p.t.Logf("HAProxy said: %s", p.said)
	}
}

// write lets the Writer run until the function that it returns is called, or the test ends.
func (p *program) write() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			p.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	p.t.Cleanup(stop)
	return stop
}

func (p *program) decide(caller string, d time.Duration) {
	p.seq++
	now := time.Now()
	kind, id, _ := strings.Cut(caller, ":")
	p.board.Apply([]schemas.Decision{{
		Rule: "per-" + kind, Caller: schemas.Caller{Kind: kind, ID: id}, Mode: schemas.ModeEnforce, Seq: p.seq, Epoch: 1,
		CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano(), Evidence: schemas.Evidence{Limit: 10, Window: int64(time.Minute)},
	}}, now)
}

func (p *program) eventually(what string, ok func() bool) {
	p.t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			p.t.Fatalf("waited 20 s for this: %s", what)
		}
	}
}

// get asks for a path as a client, with header fields NAME: VALUE.
func (p *program) get(client, path string, fields ...string) (status int, header http.Header, body string) {
	p.t.Helper()
	conn, err := net.Dial("unix", p.dir+"/p")
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	family := "TCP4"
	if strings.Contains(client, ":") {
		family = "TCP6"
	}
	_, _ = fmt.Fprintf(conn, "PROXY %s %s %[2]s 1 2\r\nGET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", family, client, path)
	for _, f := range fields {
		_, _ = io.WriteString(conn, f+"\r\n")
	}
	_, _ = io.WriteString(conn, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// TestProgramRefuses has the requests and verdicts that each server has, and what only HAProxy has.
func TestProgramRefuses(t *testing.T) {
	p := newProgram(t)
	p.start()
	stop := p.write()
	for _, caller := range []string{"ip:192.0.2.1", "ip:2001:db8:1:2::", "key:k1", `key:k"\;`, "ip_path:192.0.2.3|/login", "ip_path:2001:db8:1:3::|/login"} {
		p.decide(caller, time.Hour)
	}
	begun := time.Now()
	p.decide("ip:192.0.2.4", 1500*time.Millisecond)
	p.eventually("the short closure", func() bool { status, _, _ := p.get("192.0.2.4", "/"); return status == 429 })
	t.Logf("refused %v after the decision", time.Since(begun).Round(time.Millisecond))
	p.decide("key:opened", time.Hour)
	p.eventually("the third key", func() bool { return p.Stats().Entries["key"] == 3 })
	p.decide("key:opened", 0)
	p.eventually("all written", func() bool {
		n := p.Stats()
		return n.Entries["ip"] == 3 && n.Entries["key"] == 2 && n.Entries["ip_path"] == 2
	})
	stop() // as if the sidecar was killed
	for _, r := range []struct {
		client, path string
		fields       []string
		status       int
		rule         string
	}{
		{client: "192.0.2.1", path: "/", status: 429, rule: "per-ip"},
		{client: "192.0.2.1", path: "/a?b", fields: []string{"X-Forwarded-For: 192.0.2.2", "X-Api-Key: other"}, status: 429, rule: "per-ip"},
		{client: "192.0.2.2", path: "/", fields: []string{"X-Forwarded-For: 192.0.2.1"}, status: 200},
		{client: "::ffff:192.0.2.1", path: "/", status: 429, rule: "per-ip"},
		{client: "2001:db8:1:2:aaaa::1", path: "/", status: 429, rule: "per-ip"},
		{client: "2001:db8:1:3::1", path: "/", status: 200},
		{client: "2001:db8:1:3:5::1", path: "/login", status: 429, rule: "per-ip_path"},
		{client: "192.0.2.3", path: "/login?next=/", status: 429, rule: "per-ip_path"},
		{client: "192.0.2.3", path: "/", status: 200},
		{client: "192.0.2.2", path: "/", fields: []string{"X-Api-Key: k1"}, status: 429, rule: "per-key"},
		{client: "192.0.2.2", path: "/", fields: []string{`X-Api-Key: k"\;`}, status: 429, rule: "per-key"},
		{client: "192.0.2.2", path: "/", fields: []string{"X-Api-Key: k2"}, status: 200},
		{client: "192.0.2.2", path: "/", fields: []string{"X-Api-Key: opened"}, status: 200},
		{client: "192.0.2.2", path: "/", fields: []string{"X-Api-Key: k1", "X-Api-Key: k2"}, status: 400},
		{client: "192.0.2.1", path: "/", fields: []string{"X-Api-Key: k1"}, status: 429, rule: "per-key"}, // by its jitter it ends later
	} {
		status, header, body := p.get(r.client, r.path, r.fields...)
		policy := ""
		if r.rule != "" {
			policy = fmt.Sprintf(`"%s";q=10;w=60`, r.rule)
		}
		if status != r.status || header.Get("RateLimit-Policy") != policy {
			t.Errorf("%+v: got %d, %v and %q", r, status, header, body)
		}
		if seconds := header.Get("Retry-After"); r.rule != "" && (len(seconds) != 4 || seconds < "3590" || header.Get("RateLimit") != `"`+r.rule+`";r=0;t=`+seconds) {
			t.Errorf("%+v: got %v, want an hour", r, header)
		}
	}
	p.eventually("open at its end without a sidecar", func() bool { status, _, _ := p.get("192.0.2.4", "/"); return status == 200 })
	if took := time.Since(begun); took < 1500*time.Millisecond {
		t.Errorf("got it open after %v, want 1.5 s", took)
	}
}

// TestProgramKnowsEachByte closes callers whose ids are chosen to harm: each is found, no other one is, and no command comes of them.
func TestProgramKnowsEachByte(t *testing.T) {
	p := newProgram(t)
	p.start()
	p.write()
	ids := []string{"a;b", "a\nshutdown sessions server backend/backend\n", "a <<", "<<", "#0x1", "@1", "\\", "a\\ b", "\xff\xfe", " ", "+", "%41", "~.-_", "a\r\n\r\n", "quit", "é"} // and no zero byte, which no request has
	rng := rand.New(rand.NewPCG(1, 2))
	for b := 1; b < 256; b++ {
		ids = append(ids, string([]byte{byte(b), 'x'}))
	}
	for range 100 {
		id := make([]byte, 1+rng.IntN(schemas.MaxCallerID))
		for i := range id {
			id[i] = byte(1 + rng.UintN(255))
		}
		ids = append(ids, string(id))
	}
	want := 0
	for i, id := range ids {
		if i%2 == 0 {
			want++
			p.decide("key:"+id, time.Hour)
		}
	}
	p.eventually("all written", func() bool { return p.Stats().Entries["key"] == want })
	for i, id := range ids {
		_, _, body := p.get("192.0.2.2", "/", "id: "+base64.StdEncoding.EncodeToString([]byte(id)))
		if closed := strings.Contains(body, ":per-key:"); closed != (i%2 == 0) {
			t.Errorf("%q: got %q, want it closed: %v", id, body, i%2 == 0)
		}
	}
	if s := p.Stats(); s.Failures+s.Repaired+s.Fills != 1 || s.Added != uint64(want) {
		t.Errorf("got %+v, want %d added, and nothing else", s, want)
	}
	for _, id := range ids {
		p.decide("key:"+id, 0)
	}
	p.eventually("all opened", func() bool { return p.Stats().Entries["key"] == 0 })
}

// TestProgramStartsAgain: HAProxy is reloaded with other maps, killed, and changed by hand. A client that is closed stays so, but for a second.
func TestProgramStartsAgain(t *testing.T) {
	p := newProgram(t)
	p.start()
	p.write()
	for i := range 500 {
		p.decide(fmt.Sprintf("ip:192.0.2.%d", i), time.Hour) // and 244 that are no addresses
		p.decide(fmt.Sprintf("key:%d", i), time.Hour)
	}
	refused := func() bool {
		status, _, _ := p.get("192.0.2.255", "/")
		other, _, _ := p.get("192.0.2.1", "/", "X-Api-Key: none")
		free, _, _ := p.get("203.0.113.1", "/")
		return status == 429 && other == 429 && free == 200
	}
	p.eventually("refused", refused)
	for _, event := range []struct {
		name string
		do   func()
	}{
		{"reload with other maps", func() {
			if err := os.WriteFile(filepath.Join(p.dir, "closed_ip.map"), []byte("203.0.113.1 99999999999999:per-ip\n192.0.2.255 1:over\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p.reload()
		}},
		{"kill", func() {
			p.end(p.cmd, syscall.SIGKILL)
			p.eventually("the worker, too, has ended", func() bool { return p.pid() == "" })
			p.start()
		}},
		{"cleared by hand", func() { p.command("clear map " + p.dir + "/closed_ip.map") }},
		{"added by hand", func() { p.command("add map " + p.dir + "/closed_ip.map 203.0.113.1 99999999999999:x") }},
	} {
		event.do()
		begun := time.Now()
		p.eventually(event.name+": refused again", refused)
		t.Logf("%s: right again after %v", event.name, time.Since(begun).Round(time.Millisecond))
	}
	p.eventually("all there", func() bool { s := p.Stats(); return s.Entries["ip"] == 256 && s.Entries["key"] == 500 })
	if s := p.Stats(); s.Fills != 3 || s.Repaired != 257 {
		t.Errorf("got %+v, want 3 fills, and 257 entries repaired", s)
	}
}

// reload makes the master start another worker, and waits until it has.
func (p *program) reload() {
	p.t.Helper()
	before, signalled := p.pid(), time.Time{}
	p.eventually("another worker", func() bool {
		if time.Since(signalled) > 2*time.Second { // a master that has just started takes no notice of the first one
			signalled = time.Now()
			if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
				p.t.Fatal(err)
			}
		}
		pid := p.pid()
		return pid != "" && pid != before
	})
}

func (p *program) pid() string {
	s, err := openSession(p.t.Context(), p.dial)
	if err != nil {
		return ""
	}
	defer s.close()
	st, err := s.state()
	if err != nil {
		return ""
	}
	return st.pid
}

// command does what a person does with socat.
func (p *program) command(text string) {
	p.t.Helper()
	s, err := openSession(p.t.Context(), p.dial)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.close()
	if answer, err := s.ask(text); err != nil || answer != "" {
		p.t.Fatalf("%s: got %q, %v", text, answer, err)
	}
}
