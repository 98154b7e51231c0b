//go:build lab

package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// enforced is a sidecar that answers a bouncer, and an owner, which says what the test wants.
type enforced struct {
	*owner

	dir     string
	port    string // at which bouncers are answered
	sidecar *processtest.Program
}

const (
	bouncerKey  = "0123456789abcdef0123456789abcdef"
	bouncerRule = "per-ip"
)

func newEnforced(t *testing.T) *enforced {
	t.Helper()
	e := &enforced{owner: newOwner(t), dir: t.TempDir(), port: freePort(t)}
	sum := sha256.Sum256([]byte(bouncerKey))
	writeIn(t, e.dir, "keys", "# bouncers\nfirewall "+hex.EncodeToString(sum[:])+"\n")
	e.start()
	return e
}

// start runs the sidecar, always at the same port.
func (e *enforced) start() {
	e.t.Helper()
	e.sidecar = start(e.t, "sidecar", "--brokers", e.broker.Addr(), "--listen", "127.0.0.1:0",
		"--bouncer-listen", "127.0.0.1:"+e.port, "--bouncer-keys", filepath.Join(e.dir, "keys"), "--bouncer-min", "1s")
	e.sidecar.WaitFor(`msg="listening for bouncers" address=(\S+)`, 20*time.Second)
}

func (e *enforced) stop() {
	e.t.Helper()
	if code := e.sidecar.Stop(syscall.SIGTERM); code != 0 {
		e.t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
}

// closes closes an address for a time; 0 opens it.
func (e *enforced) closes(id string, d time.Duration) {
	now := time.Now()
	e.decide(&schemas.Decision{
		Rule: bouncerRule, Caller: schemas.Caller{Kind: schemas.KindIP, ID: id}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano(),
	})
}

// config writes the files of a bouncer of Debian: its own, and the overrides of deploy/crowdsec, which point at the sidecar, and returns
// the path of the first.
func (e *enforced) config(name string, replace ...string) string {
	e.t.Helper()
	installed, err := os.ReadFile("/etc/crowdsec/bouncers/" + name + ".yaml")
	if err != nil {
		e.t.Skipf("needs the configuration of %s: %v", name, err)
	}
	replace = append(replace, "127.0.0.1:8080", "127.0.0.1:"+e.port, "REPLACE-ME", bouncerKey)
	writeIn(e.t, e.dir, name+".yaml.local", configured(e.t, "crowdsec/"+name+".yaml.local", replace...))
	text := strings.ReplaceAll(string(installed), "/var/", e.dir+"/") // logs and the like
	if err := os.MkdirAll(filepath.Join(e.dir, "run"), 0o700); err != nil {
		e.t.Fatal(err)
	}
	return writeIn(e.t, e.dir, name+".yaml", strings.ReplaceAll(text, "enabled: true\n  listen_addr", "enabled: false\n  listen_addr"))
}

// within waits for something, and logs how long it took.
func (e *enforced) within(what string, ok func() bool) {
	e.t.Helper()
	begun := time.Now()
	processtest.Eventually(e.t, 30*time.Second, what, ok)
	e.t.Logf("%s: after %v", what, time.Since(begun).Round(10*time.Millisecond))
}

// TestCustomBouncerRunsItsProgram: Debian's crowdsec-custom-bouncer, with the file of deploy/crowdsec, calls a program with what floodgate
// closes, extends and opens. A sidecar that starts again loses nothing.
func TestCustomBouncerRunsItsProgram(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "crowdsec-custom-bouncer")
	e := newEnforced(t)
	log := filepath.Join(e.dir, "calls")
	ban := writeIn(t, e.dir, "ban", "#!/bin/sh\necho \"$1 $2 $3 $4\" >>"+log+"\n")
	if err := os.Chmod(ban, 0o700); err != nil {
		t.Fatal(err)
	}
	// last returns what the program was called with last about an address, and for how many seconds.
	last := func(addr string) (action string, seconds int) {
		text, _ := os.ReadFile(log)
		for line := range strings.Lines(string(text)) {
			var what, value, rule string
			var n int
			if _, err := fmt.Sscan(line, &what, &value, &n, &rule); err == nil && value == addr && rule == bouncerRule {
				action, seconds = what, n
			}
		}
		return action, seconds
	}
	is := func(addr, want string, least int) func() bool {
		return func() bool { action, seconds := last(addr); return action == want && seconds >= least }
	}
	e.closes("203.0.113.1", time.Hour)
	runForeign(t, "crowdsec-custom-bouncer", "-c", e.config("crowdsec-custom-bouncer",
		"/usr/local/bin/ban", ban, "update_frequency: 10s", "update_frequency: 3s"))
	e.within("closed before it started", is("203.0.113.1", "add", 3000))
	e.closes("203.0.113.2", time.Minute)
	e.closes("2001:db8:1:2::", time.Minute)
	e.within("closed", is("203.0.113.2", "add", 40))
	e.within("a network closed", is("2001:db8:1:2::/64", "add", 40))
	e.closes("203.0.113.2", time.Hour)
	e.within("extended", is("203.0.113.2", "add", 3000))
	e.closes("203.0.113.1", 0)
	e.within("opened", is("203.0.113.1", "del", 0))
	e.stop()
	e.closes("203.0.113.3", time.Hour)
	e.closes("203.0.113.2", 2*time.Hour)
	e.start()
	e.within("closed while the sidecar was away", is("203.0.113.3", "add", 3000))
	e.within("extended while the sidecar was away", is("203.0.113.2", "add", 6000))
	e.closes("203.0.113.3", 0)
	e.within("opened again", is("203.0.113.3", "del", 0))
	if action, _ := last("203.0.113.2"); action != "add" {
		t.Errorf("got %q, want it closed still", action)
	}
}

// TestFirewallBouncerHoldsTheSet: Debian's crowdsec-firewall-bouncer, with the file of deploy/crowdsec, in nftables mode and in a network
// namespace of its own: its set holds what is closed, through extensions, openings, and a sidecar that starts again.
func TestFirewallBouncerHoldsTheSet(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"crowdsec-firewall-bouncer", "nft", "ip"} {
		testenv.Program(t, name)
	}
	space := newNetworkSpace(t)
	e := newEnforced(t)
	space.forward("127.0.0.1:" + e.port)
	// left returns for how many seconds the set holds an address; 0 is that it does not.
	left := func(addr string) (seconds int) {
		family, table, set := "ip", "crowdsec", "crowdsec-blacklists"
		if strings.Contains(addr, ":") {
			family, table, set = "ip6", "crowdsec6", "crowdsec6-blacklists"
		}
		return setElements(space.run("nft", "-j", "list", "set", family, table, set))[addr]
	}
	is := func(addr string, least int) func() bool { return func() bool { return left(addr) >= least } }
	gone := func(addr string) func() bool { return func() bool { return left(addr) == 0 } }
	e.closes("203.0.113.1", time.Hour)
	config := e.config("crowdsec-firewall-bouncer", "update_frequency: 10s", "update_frequency: 1s")
	space.do(func() { runForeign(t, "crowdsec-firewall-bouncer", "-c", config) })
	e.within("closed before it started", is("203.0.113.1", 3000))
	e.closes("203.0.113.2", 20*time.Second)
	e.closes("2001:db8:1:2::", time.Minute)
	e.within("closed", is("203.0.113.2", 10))
	e.within("a network closed, by its first address only", is("2001:db8:1:2::", 40))
	e.closes("203.0.113.2", time.Hour)
	e.within("extended: it left the set at its first end, and came back", is("203.0.113.2", 3000))
	e.closes("203.0.113.1", 0)
	e.within("opened", gone("203.0.113.1"))
	e.closes("203.0.113.4", 4*time.Second)
	e.within("closed for a short time", is("203.0.113.4", 1))
	e.within("and open again by its time", gone("203.0.113.4"))
	e.stop()
	e.closes("203.0.113.3", time.Hour)
	if !is("203.0.113.2", 3000)() {
		t.Error("without a sidecar: got the set without the address, want it as it was")
	}
	e.start()
	e.within("closed while the sidecar was away", is("203.0.113.3", 3000))
	if !is("203.0.113.2", 3000)() {
		t.Error("after a restart: got the set without the other address, want it as it was")
	}
	e.closes("203.0.113.3", 0)
	e.within("opened again", gone("203.0.113.3"))
	if !is("203.0.113.2", 3000)() {
		t.Error("got the set without the other address, want it closed still")
	}
}

// setElements returns how many seconds the elements of a set have left, from nft's JSON.
func setElements(text string) map[string]int {
	var list struct {
		Nftables []struct {
			Set struct {
				Elem []struct {
					Elem struct {
						Val     string
						Expires int
					}
				}
			}
		}
	}
	seconds := map[string]int{}
	if json.Unmarshal([]byte(text), &list) != nil {
		return seconds
	}
	for _, part := range list.Nftables {
		for _, e := range part.Set.Elem {
			seconds[e.Elem.Val] = max(e.Elem.Expires, 1)
		}
	}
	return seconds
}
