//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// begunWithLua is nginx with the gate inside, which follows a feed of this process and has closed 127.0.0.2 for ten minutes.
func begunWithLua(t *testing.T, workers int, replace ...string) (*luaNginx, *boardFeed) {
	t.Helper()
	testenv.Program(t, "nginx")
	f := newBoardFeed(t)
	f.closes("per-ip", "ip:127.0.0.2", 10*time.Minute)
	n := withLua(t, "unix:"+f.path, processtest.NewBackend(t).Listener.Addr().String(), workers, replace...)
	n.becomes(t, "refused", "127.0.0.2", http.StatusTooManyRequests)
	return n, f
}

// gateStatus is what the location floodgate_status says.
type gateStatus struct {
	Connected, Stale   bool
	Held, Dropped, Bad int
}

func (n *luaNginx) gateStatus(t *testing.T) (s gateStatus) {
	t.Helper()
	text, status := processtest.Get(t.Context(), n.url+"floodgate_status")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("got %d and %s: %v", status, text, err)
	}
	return s
}

// watched asks from two addresses until stop is called: the closed one must always be refused, and the other one never.
func (n *luaNginx) watched(t *testing.T) (stop func()) {
	t.Helper()
	var asking sync.WaitGroup
	var done atomic.Bool
	var asked atomic.Int64
	for addr, want := range map[string]int{"127.0.0.2": http.StatusTooManyRequests, "127.0.0.3": http.StatusOK} {
		asking.Go(func() {
			for !done.Load() {
				asked.Add(1)
				if status := n.status(t, addr); status != want {
					t.Errorf("%s: got %d, want %d all the time", addr, status, want)
					return
				}
			}
		})
	}
	return func() {
		done.Store(true)
		asking.Wait()
		t.Logf("%d requests meanwhile", asked.Load())
	}
}

// worker returns the first process that works and is not about to end, 0 if there is none. Before a crash, it is the one that follows.
func (n *luaNginx) worker() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", n.pid, n.pid))
	if err != nil {
		n.t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		title, _ := os.ReadFile("/proc/" + pid + "/cmdline") // of one that has ended there is none
		if strings.TrimRight(string(title), "\x00 ") == "nginx: worker process" {
			id, _ := strconv.Atoi(pid)
			return id
		}
	}
	return 0
}

// TestTheGateInNginxWithoutItsFeed: what is closed stays closed while the feed is away, and ends. When another feed comes, all is as that
// one says, within a second or so.
func TestTheGateInNginxWithoutItsFeed(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 2)
	f.closes("per-ip", "ip:127.0.0.4", 2*time.Second)
	f.closes("per-ip", "ip:127.0.0.5", 10*time.Minute)
	n.becomes(t, "closed", "127.0.0.4", http.StatusTooManyRequests)
	n.becomes(t, "closed", "127.0.0.5", http.StatusTooManyRequests)
	stop := n.watched(t)
	f.stop()
	n.becomes(t, "a closure that ends without the feed", "127.0.0.4", http.StatusOK)
	f.board = board.New(board.Options{FirstChange: uint64(time.Now().UnixNano())}) // of a process that knows no cursor of the last one
	f.board.Resize(1)
	f.closes("per-ip", "ip:127.0.0.2", 10*time.Minute)
	f.closes("per-ip", "ip:127.0.0.6", 10*time.Minute)
	f.board.Loaded(0)
	f.begin()
	began := time.Now()
	n.becomes(t, "closed by the new feed", "127.0.0.6", http.StatusTooManyRequests)
	n.becomes(t, "opened, since the new feed does not say that it is closed", "127.0.0.5", http.StatusOK)
	t.Logf("as the new feed says after %v", time.Since(began).Round(time.Millisecond))
	stop()
	if s := n.gateStatus(t); !s.Connected || s.Bad != 0 || s.Dropped != 0 {
		t.Errorf("got %+v, want it connected, and nothing bad or dropped", s)
	}
}

// TestTheGateInNginxResumes: a connection that ends costs no closure, and what was decided meanwhile comes.
func TestTheGateInNginxResumes(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 1)
	stop := n.watched(t)
	f.stop()
	f.closes("per-ip", "ip:127.0.0.6", 10*time.Minute)
	f.begin()
	n.becomes(t, "closed while nginx was not connected", "127.0.0.6", http.StatusTooManyRequests)
	stop()
	processtest.Eventually(t, 10*time.Second, "two held", func() bool { return n.gateStatus(t).Held == 2 })
}

// TestNginxReloadsAndCrashesWithTheGateInside: closures stay, no request fails, and decisions go on.
func TestNginxReloadsAndCrashesWithTheGateInside(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 2)
	for i, what := range []string{"reload", "crash", "reload"} {
		t.Run(fmt.Sprint(i, what), func(t *testing.T) {
			addr, old := fmt.Sprintf("127.0.0.%d", 10+i), n.worker()
			if what == "reload" {
				stop := n.watched(t)
				defer stop()
				_ = syscall.Kill(n.pid, syscall.SIGHUP)
			} else {
				_ = syscall.Kill(old, syscall.SIGKILL)
			}
			processtest.Eventually(t, 10*time.Second, "another worker", func() bool { return n.worker() != old })
			began := time.Now()
			f.closes("per-ip", "ip:"+addr, 10*time.Minute)
			n.becomes(t, "closed after a "+what, addr, http.StatusTooManyRequests)
			t.Logf("closed %v after the %s", time.Since(began).Round(time.Millisecond), what)
			if status := n.status(t, "127.0.0.2"); status != http.StatusTooManyRequests {
				t.Errorf("the one that was closed before: got %d", status)
			}
			f.opens("per-ip", "ip:"+addr)
			n.becomes(t, "opened", addr, http.StatusOK)
		})
	}
	f.closes("per-ip", "ip:127.0.0.20", 10*time.Minute)
	processtest.Eventually(t, 10*time.Second, "two held", func() bool { return n.gateStatus(t).Held == 2 })
	if status := n.status(t, "127.0.0.2"); status != http.StatusTooManyRequests {
		t.Errorf("the one that was closed before: got %d", status)
	}
}

// TestAFeedStartsInNginxMeanwhile: a new worker applies the start of a feed between any two reads of another one. If that one looks a caller
// up, the caller is closed. If it follows, and writes over what the new one wrote, the new one begins anew.
func TestAFeedStartsInNginxMeanwhile(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	n := nginxWithLua(t, port, 1, `
lua_shared_dict story 1m;
server {
    listen 127.0.0.1:`+port+`;
    location / { return 200; }
    location = /race {
        content_by_lua_block {
            local floodgate, dict = require "floodgate", ngx.shared.story
            local decision = '{"type":"decision","kind":"ip","id":"a","rule":"r","mode":"enforce","spans":[{"from":1,"until":9}]}'
            local meanwhile, reads -- what another worker does after that many reads
            local shared = setmetatable({}, { __index = function(_, name)
                return function(_, ...)
                    local value = dict[name](dict, ...)
                    if name == "get" and meanwhile then
                        reads = reads - 1
                        if reads == 0 then
                            local f = meanwhile
                            meanwhile = nil
                            f()
                        end
                    end
                    return value
                end
            end })
            local function new() return floodgate.Follower(shared, function() end, function(f, ...) f(...) end) end
            local function starts(follower)
                follower:line('{"type":"start","version":1}', 5, 5)
                follower:line(decision, 5, 5)
                follower:line('{"type":"current","cursor":"9"}', 5, 5)
            end
            local gate = floodgate.Gate(shared, "hold")
            local function asked() return gate:check({ "ip:a" }, 1, 5, 5) and "closed" or "open" end
            starts(new())
            for i = 1, 3 do
                meanwhile, reads = function() starts(new()) end, i
                ngx.say("asked, and a start after read ", i, ": ", asked())
            end
            for i = 1, 3 do
                local first, second = new()
                starts(first)
                meanwhile, reads = function() second = new() starts(second) end, i
                first:line(decision, 5, 5)
                local err = second:line('{"type":"heartbeat","cursor":"10"}', 5, 5)
                local cursor = second.cursor or "none"
                if err then starts(second) end -- over another connection
                first:adopt(function() end)
                ngx.say("told, and a start after read ", i, ": ", err or "goes on", ", cursor ", cursor, "; ", asked(), ", its own ",
                    second:owns(dict:get "ip:a") ~= nil, ", ", second:line('{"type":"heartbeat"}', 5, 5) or "goes on")
            end
        }
    }
}`)
	said, _ := processtest.Get(t.Context(), n.url+"race")
	if want := `asked, and a start after read 1: closed
asked, and a start after read 2: closed
asked, and a start after read 3: closed
told, and a start after read 1: another worker has written meanwhile, cursor none; closed, its own true, goes on
told, and a start after read 2: another worker has written meanwhile, cursor none; closed, its own true, goes on
told, and a start after read 3: goes on, cursor 10; closed, its own true, goes on
`; said != want {
		t.Errorf("got\n%s\nwant\n%s", said, want)
	}
}

// TestAFullDictionaryDropsWhatEndsFirst, and counts it.
func TestAFullDictionaryDropsWhatEndsFirst(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 1, "floodgate 16m;", "floodgate 160k;")
	const callers = 1500
	for _, i := range rand.Perm(callers) {
		f.closes("per-key", fmt.Sprintf("key:k%04d", i), time.Hour+time.Duration(i)*30*time.Second) // more than they are jittered by
	}
	var s gateStatus
	processtest.Eventually(t, 10*time.Second, "all told", func() bool {
		s = n.gateStatus(t)
		return s.Held+s.Dropped == callers+1
	})
	if s.Held < 100 || s.Dropped < 100 {
		t.Errorf("got %+v, want some held and some dropped", s)
	}
	for i, want := range map[int]int{0: 200, callers - s.Held - 1: 200, callers - s.Held: 429, callers - s.Held + 1: 429, callers - 1: 429} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", fmt.Sprintf("k%04d", i))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("of %d, of which %d are held, caller %d in the order of their ends: got %d, want %d", callers, s.Held, i, resp.StatusCode, want)
		}
	}
	if status := n.status(t, "127.0.0.2"); status != http.StatusOK {
		t.Errorf("the one that ends first: got %d, want it dropped", status)
	}
}

// TestTheGateInNginxTakesIDsOfEveryByte that a header may have, and long ones.
func TestTheGateInNginxTakesIDsOfEveryByte(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 1)
	var every []byte
	for b := 1; b < 256; b++ {
		if b != '\n' && b != '\r' {
			every = append(every, byte(b))
		}
	}
	ids := map[string]string{
		"every byte": "a" + string(every) + "z", "long": strings.Repeat("l", 5000), "quotes": `{"id":"\u0000"}`, "hash": "~" + strings.Repeat("0", 32), "composite": "a|b",
		"hmac": "hmac:" + strings.Repeat("0", 32) + "x",
	}
	for _, id := range ids {
		f.board.Apply([]schemas.Decision{{
			Rule: "per-key", Caller: schemas.IDs{}.Caller(schemas.Caller{Kind: "key", ID: id}), Mode: schemas.ModeEnforce,
			CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Minute).UnixNano(),
		}}, time.Now())
	}
	processtest.Eventually(t, 10*time.Second, "all held", func() bool { return n.gateStatus(t).Held == len(ids)+1 })
	for what, id := range ids {
		for end, want := range map[string]bool{"": true, "!": false} {
			got := sendRaw(t, n.url, "127.0.0.3", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: "+id+end+"\r\n\r\n")
			if (got == http.StatusTooManyRequests) != want { // the server behind nginx does not take every byte
				t.Errorf("%s, and %q: got %d, want it refused %t", what, end, got, want)
			}
		}
	}
}

// TestTheClockOfNginxIsSetBack and forward: closures begin and end by the clock as it is, none is lost, and the feed goes on.
func TestTheClockOfNginxIsSetBack(t *testing.T) {
	testenv.Program(t, "nginx")
	testenv.Program(t, "faketime")
	clock := writeIn(t, t.TempDir(), "clock", "+0\n")
	t.Setenv("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
	t.Setenv("FAKETIME_TIMESTAMP_FILE", clock)
	t.Setenv("FAKETIME_NO_CACHE", "1")
	t.Setenv("DONT_FAKE_MONOTONIC", "1")
	n, f := begunWithLua(t, 1)
	set := func(offset string) {
		t.Helper()
		if err := os.WriteFile(clock, []byte(offset+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("-3600")
	n.becomes(t, "not closed yet", "127.0.0.2", http.StatusOK)
	f.closes("per-ip", "ip:127.0.0.6", 10*time.Minute) // by the right clock
	processtest.Eventually(t, 10*time.Second, "both held", func() bool { return n.gateStatus(t).Held == 2 })
	set("+0")
	n.becomes(t, "closed once the clock is right", "127.0.0.2", http.StatusTooManyRequests)
	n.becomes(t, "closed once the clock is right", "127.0.0.6", http.StatusTooManyRequests)
	set("+3600")
	n.becomes(t, "over", "127.0.0.2", http.StatusOK)
	if s := n.gateStatus(t); !s.Connected {
		t.Errorf("got %+v, want it connected", s)
	}
}

// TestTheGateInNginxHearsStrangers: whatever a feed sends, closures stay, innocents pass, and what cannot be read is counted. The right
// feed is followed afterwards.
func TestTheGateInNginxHearsStrangers(t *testing.T) {
	t.Parallel()
	n, f := begunWithLua(t, 2)
	const head, begin = "HTTP/1.0 200 OK\r\n\r\n", `{"type":"start","version":1,"resumed":true}` + "\n"
	answers := []string{ // nginx asks a second later each time
		"SSH-2.0-OpenSSH_9.2\r\n" + strings.Repeat("\x00", 64<<10), "HTTP/1.1 503 Unavailable\r\nRetry-After: 1\r\n\r\nlater",
		head + `{"type":"start","version":2}` + "\n", head + begin + strings.Repeat("a", 1<<20),
		head + "<html>\n<body>\n" + begin + "garbage\n[]\n{}\n" + `{"type":"decision","kind":"ip","id":"127.0.0.3","mode":"enforce","spans":[{"from":1,"until":"2"}]}` + "\n",
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "feed.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var heard atomic.Int64
	serving.Go(func() {
		for _, answer := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
			heard.Add(1)
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	stop := n.watched(t)
	f.stop()
	if err := os.Rename(l.Addr().String(), f.path); err != nil {
		t.Fatal(err)
	}
	processtest.Eventually(t, 30*time.Second, "all answers heard", func() bool { return heard.Load() == int64(len(answers)) })
	_ = os.Remove(f.path)
	f.begin()
	f.closes("per-ip", "ip:127.0.0.6", 10*time.Minute)
	n.becomes(t, "closed by the right feed", "127.0.0.6", http.StatusTooManyRequests)
	stop()
	if s := n.gateStatus(t); s.Bad != 4 {
		t.Errorf("got %+v, want the four lines counted that cannot be read", s)
	}
}

// TestNginxKeepsItsPagesWithTheGateInside: a page of one's own for 429, and a rewritten request, which is refused as well.
func TestNginxKeepsItsPagesWithTheGateInside(t *testing.T) {
	t.Parallel()
	n, _ := begunWithLua(t, 1, "    location / {", "    error_page 429 /slow.html;\n    location = /slow.html { return 429 slow; }\n    location /old { rewrite ^ /new last; }\n    location / {")
	for _, path := range []string{"", "old", "floodgate"} {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
		}}
		resp, err := client.Get(n.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || string(body) != "slow" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("/%s: got %d %q and %v, want 429, its page and Retry-After", path, resp.StatusCode, body, resp.Header)
		}
	}
}
