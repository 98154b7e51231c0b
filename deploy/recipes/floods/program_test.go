package floods

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// bans says since when addresses are banned. Both programs ban for longer than the floods last.
type bans map[netip.Addr]time.Time

// refuses refuses all requests of an address from the second on that follows the line for which it was banned: logs have whole seconds.
func (b bans) refuses(x *Request) bool {
	at, banned := b[x.Addr]
	return banned && x.At.Sub(at) >= time.Second
}

func (b bans) add(t *testing.T, addr string, at time.Time) {
	t.Helper()
	a, err := netip.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	if was, ok := b[a]; !ok || at.Before(was) {
		b[a] = at
	}
}

// theEnd floods the end of each log. Its ban says that a program has read all of it, and that it bans.
var theEnd = netip.MustParseAddr("240.255.255.255")

// writeLog writes the requests as a log, later by a time.
func writeLog(t *testing.T, path string, requests []Request, later time.Duration) {
	t.Helper()
	var text bytes.Buffer
	all := slices.Clip(requests)
	for i := range 300 {
		path := fmt.Sprintf("/end/%d", i)
		all = append(all, Request{At: requests[len(requests)-1].At, Addr: theEnd, Method: "GET", Path: path, User: "-", Agent: "end", Status: 200})
	}
	for _, x := range all {
		x.At = x.At.Add(later)
		text.WriteString(x.Line() + "\n")
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// unpacked returns the path of a program, and the directory that its package is in, which is / if the package is installed.
func unpacked(t *testing.T, name string) (path, root string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(testenv.Program(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return path, filepath.Join(filepath.Dir(path), "../..")
}

// jails is what people write for crawlers: each address may send 300 requests in 300 s. The other two jails are Debian's own.
const jails = `
[DEFAULT]
backend = polling
action = note
logpath = %[1]s
[sshd]
enabled = false
[http-get-dos]
enabled = true
maxretry = 300
findtime = 300
bantime = 600
[nginx-botsearch]
enabled = true
[nginx-bad-request]
enabled = true
`

// fail2ban runs fail2ban-server over a log that ends now, as it reads what was written before it started: by the times in the log.
func fail2ban(t *testing.T, requests []Request) bans {
	t.Helper()
	program, root := unpacked(t, "fail2ban-server")
	dir := t.TempDir()
	etc, log, notes := filepath.Join(dir, "etc"), filepath.Join(dir, "access.log"), filepath.Join(dir, "bans")
	if err := os.CopyFS(etc, os.DirFS(filepath.Join(root, "etc/fail2ban"))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(etc, "fail2ban.local"), "[Definition]\ndbfile = None\n")
	writeFile(t, filepath.Join(etc, "jail.d/zz.local"), fmt.Sprintf(jails, log))
	writeFile(t, filepath.Join(etc, "filter.d/http-get-dos.conf"), "[Definition]\nfailregex = ^<HOST> -.*\"(GET|POST).*\n")
	writeFile(t, filepath.Join(etc, "action.d/note.conf"), "[Definition]\nactionban = echo <ip> <time> >>"+notes+"\n")

	later := time.Since(requests[len(requests)-1].At).Truncate(time.Second)
	writeLog(t, log, requests, later)
	cmd := exec.CommandContext(t.Context(), program, "-f", "-c", etc, "-s", filepath.Join(dir, "sock"), "-p", filepath.Join(dir, "pid"),
		"--loglevel", "WARNING", "--logtarget", "STDOUT", "--syslogsocket", "auto", "start")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "usr/lib/python3/dist-packages"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt) })

	deadline := time.After(3 * time.Minute)
	for {
		text, _ := os.ReadFile(notes) // it is there after the first ban
		if strings.Contains(string(text), theEnd.String()+" ") {
			_ = cmd.Process.Signal(os.Interrupt)
			<-ended
			return readNotes(t, string(text), later)
		}
		select {
		case err := <-ended:
			t.Fatalf("fail2ban-server ended: %v\n%s", err, out.String())
		case <-deadline:
			_ = cmd.Process.Signal(os.Interrupt)
			<-ended
			t.Fatalf("fail2ban-server has not read the log in 3 minutes\n%s", out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func readNotes(t *testing.T, text string, later time.Duration) bans {
	t.Helper()
	found := bans{}
	for line := range strings.Lines(text) {
		addr, unix, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(unix, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found.add(t, addr, time.Unix(int64(seconds), 0).Add(-later))
	}
	return found
}

// crowdsecItems is what Debian's package enables for nginx: its collection, with base-http-scenarios.
const crowdsecItems = `
collections/crowdsecurity/nginx collections/crowdsecurity/base-http-scenarios collections/crowdsecurity/http-cve
parsers/s00-raw/crowdsecurity/syslog-logs parsers/s01-parse/crowdsecurity/nginx-logs
parsers/s02-enrich/crowdsecurity/dateparse-enrich parsers/s02-enrich/crowdsecurity/http-logs
parsers/s02-enrich/crowdsecurity/whitelists
scenarios/crowdsecurity/http-crawl-non_statics scenarios/crowdsecurity/http-probing scenarios/crowdsecurity/http-bad-user-agent
scenarios/crowdsecurity/http-path-traversal-probing scenarios/crowdsecurity/http-sensitive-files
scenarios/crowdsecurity/http-sqli-probing scenarios/crowdsecurity/http-xss-probing
scenarios/crowdsecurity/http-backdoors-attempts scenarios/crowdsecurity/http-generic-bf scenarios/crowdsecurity/http-open-proxy
scenarios/crowdsecurity/nginx-req-limit-exceeded scenarios/ltsich/http-w00tw00t`

const crowdsecConfig = `
common: {daemonize: false, log_media: stdout, log_level: info, log_dir: %[1]s, working_dir: %[1]s}
config_paths:
  config_dir: %[1]s/etc
  data_dir: %[1]s/data
  simulation_path: %[2]s/etc/crowdsec/simulation.yaml
  hub_dir: %[2]s/usr/share/crowdsec/hub
  index_path: %[2]s/usr/share/crowdsec/hub/.index.json
crowdsec_service: {parser_routines: 1}
cscli: {output: human}
db_config: {type: sqlite, db_path: %[1]s/crowdsec.db}
prometheus: {enabled: false}
api:
  client: {credentials_path: %[1]s/credentials.yaml}
  server: {listen_uri: %[3]q, profiles_path: %[2]s/etc/crowdsec/profiles.yaml}
`

// alert is the line that CrowdSec logs when a scenario has found an address. Its profile then bans the address for four hours.
var alert = regexp.MustCompile(`Ip (\S+) performed '[^']+' \(.*\) at (\S+ \S+) \+0000 UTC`)

// crowdsec runs CrowdSec over the log, by the times in it (its "time machine").
func crowdsec(t *testing.T, requests []Request) bans {
	t.Helper()
	program, root := unpacked(t, "crowdsec")
	dir := t.TempDir()
	for item := range strings.FieldsSeq(crowdsecItems) {
		parts := strings.Split(item, "/")
		link := filepath.Join(dir, "etc", filepath.Join(parts[:len(parts)-2]...), parts[len(parts)-1]+".yaml")
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, "usr/share/crowdsec/hub", item+".yaml"), link); err != nil {
			t.Fatal(err)
		}
	}
	copyDir(t, filepath.Join(dir, "etc/patterns"), filepath.Join(root, "etc/crowdsec/patterns"))
	data := filepath.Join(dir, "data")
	copyDir(t, data, filepath.Join(root, "usr/share/crowdsec/data"))
	// The scenario asks for this name. Without it, CrowdSec logs an error for each line.
	if err := os.Rename(filepath.Join(data, "path_traversal.txt"), filepath.Join(data, "http_path_traversal.txt")); err != nil {
		t.Fatal(err)
	}
	config, log := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "access.log")
	writeFile(t, config, fmt.Sprintf(crowdsecConfig, dir, root, testenv.FreeAddress(t)))
	writeFile(t, filepath.Join(dir, "credentials.yaml"), "")
	writeLog(t, log, requests, 0)
	for _, args := range [][]string{
		{filepath.Join(filepath.Dir(program), "cscli"), "-c", config, "machines", "add", "here", "--password", "of-this-test", "--force", "-f", filepath.Join(dir, "credentials.yaml")},
		{program, "-c", config, "-dsn", "file://" + log, "-type", "nginx"},
	} {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, tail(out))
		}
		if args[0] == program {
			return readAlerts(t, out)
		}
	}
	return nil
}

func readAlerts(t *testing.T, out []byte) bans {
	t.Helper()
	found := bans{}
	for _, m := range alert.FindAllSubmatch(out, -1) {
		at, err := time.Parse("2006-01-02 15:04:05", string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		found.add(t, string(m[1]), at)
	}
	if _, ok := found[theEnd]; !ok {
		t.Fatalf("crowdsec has not banned whoever floods the end of the log\n%s", tail(out))
	}
	return found
}

func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }
