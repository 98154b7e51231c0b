package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// TestServeSaysWhatIsWrong where nothing can work: a usage error that names the flag, what was got, and what is wanted.
func TestServeSaysWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"log": "", "newer/serve.json": `{"version":2,"partitions":4}`, "torn/serve.json": `{"version":1,"part`, "none/serve.json": `{"version":1}`,
		"analyze/cluster.json": `{}`, "points/log/recovery-points": "x", "positions/files/positions.json": "{", "rules/rules.yaml": "version: 1\nrules: [{name: x}]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		processtest.WriteFile(t, path, text)
	}
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                                                 "--data: got none, want a directory",
		"--data d":                                         "--file, --record: got neither, want a log",
		"--data d --record x":                              `serve: got ["x"], want flags only`,
		"--data d --record --file log":                     "got both, want one of them, or arrivals: none in the mapping: each request would count twice",
		"--data d --file log --file ./log":                 "log twice",
		"--data d --file log --listen=":                    "--listen: got none, want host:port or unix:PATH",
		"--data d --file log --listen 127.0.0.1":           "--listen: ",
		"--data d --file log --keep 59s":                   "--keep: got 59s, want 1m or more",
		"--data d --file log --keep-bytes 99MB":            "--keep-bytes: got 99MB, want 100 MB or more",
		"--data d --file log --keep-bytes much":            `got "much", want a number of bytes such as 500MB or 10GB`,
		"--data d --file log --dashboard --api-listen=":    "--dashboard: got no --api-listen, want an address for it",
		"--data d --file log --api-listen 0.0.0.0:1":       "--api-listen: ",
		"--data d --file log --bouncer-listen 127.0.0.1:0": "--bouncer-keys: got none",
		"--data d --file log --haproxy-socket s":           "--haproxy-map: got none",
		"--data d --file log --notify none":                "--notify: ",
		"--data d --file log --rules none":                 "--rules: ",
		"--data d --file log --mapping missing":            "mapping: ",
		"--data d --file log --format none":                `bad mapping: got format "none", want one of`,
		"--data d --file log --callers ip":                 "--callers: ",
		"--data d --file .":                                "which is a directory, want a file",
		"--data d --file pipe":                             "which is a pipe, want a file",
		"--data d --file /dev/null":                        "which is a device, want a file",
		"--data d --file log/access.log":                   "--file: stat ",
		"--data log --file log":                            "--data: make data directory: ",
		"--data /proc/none --file log":                     "--data: make data directory: ",
		"--data newer --file log":                          "serve.json: got version 2, want 1: another version of floodgate has written it",
		"--data torn --file log":                           "--data: torn/serve.json: ",
		"--data none --file log":                           "serve.json: got 0 partitions, want 1 or more",
		"--data analyze --file log":                        "which has the counts of an analyzer that reads Kafka; want a directory of its own for serve",
		"--data positions --file log":                      "--data: ",
		"--data points --file log":                         `--data: open log: points/log/recovery-points: got "x", want it to begin with`,
		"--data rules --file log":                          "--rules: rules/rules.yaml:",
	} {
		args := strings.Fields(strings.Replace(line, "--data d", "--data "+t.TempDir(), 1)) // what has failed has its directory locked until the process ends
		text, code := shown(append([]string{"serve", "--metrics-listen=", "--api-listen", "127.0.0.1:0"}, args...)...)
		if code != 2 || !strings.Contains(text, want) {
			t.Errorf("%s: got %d and %s, want 2 and %q", line, code, text, want)
		}
	}
}

// TestServeCheckSaysWhatWouldCountTwice: a log and the questions of proxies.
func TestServeCheckSaysWhatWouldCountTwice(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	processtest.WriteFile(t, log, processtest.Line("192.0.2.1", time.Now()))
	out, err := runCommand("serve", "--check", "--record", "--file", log, "--data", t.TempDir(), "--listen=127.0.0.1:0", "--metrics-listen=", "--api-listen=")
	if !command.IsUsage(err) || !strings.Contains(out, "each request would count twice") {
		t.Errorf("got %v and\n%s", err, out)
	}
}

// TestServeSaysWhichAddressesAreTaken, all at once and before anything is counted.
func TestServeSaysWhichAddressesAreTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at, dir := taken.Addr().String(), t.TempDir()
	processtest.WriteFile(t, filepath.Join(dir, "keys"), "b "+strings.Repeat("0", 64)+"\n")
	_, err = runCommand("serve", "--record", "--data", filepath.Join(dir, "data"), "--listen", at, "--metrics-listen", at, "--api-listen", at,
		"--bouncer-listen", at, "--bouncer-keys", filepath.Join(dir, "keys"))
	if !command.IsUsage(err) || !matches("(?s)--listen: .*--metrics-listen: .*--api-listen: .*--bouncer-listen: .* in use", err.Error()) {
		t.Errorf("got %v, want a usage error that names the four flags", err)
	}
}

// TestAHangupWhileServeStarts ends nothing: a reload may come before it listens.
func TestAHangupWhileServeStarts(t *testing.T) {
	t.Parallel()
	p := start(t, "serve", "--record", "--data", t.TempDir(), "--listen=127.0.0.1:0", "--metrics-listen=", "--api-listen=")
	p.WaitFor(`msg="starting serve" (\S+)`, 10*time.Second)
	send(t, p, syscall.SIGHUP)
	p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
}

// TestServeGoesOn where what is missing may come, or a part can be read.
func TestServeGoesOn(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered + "  - {name: per-key, callers: key, limit: 5, window: 1h}\n")
	late := h.Log + ".late"
	h.Start("--file", late)
	h.Program.WaitFor(`level=WARN msg=.*rule=per-key.*`, 10*time.Second)
	writeLines := func(text string) {
		if err := os.WriteFile(late, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A log that comes late counts from its first line.
	writeLines(strings.Repeat(processtest.Line("192.0.2.1", time.Now()), 5))
	h.AwaitAnswer("192.0.2.1", 403)
	// Clocks: lines an hour ahead count now, and lines an hour behind count in their own time.
	h.Append(strings.Repeat(processtest.Line("192.0.2.2", time.Now().Add(time.Hour)), 5))
	h.AwaitAnswer("192.0.2.2", 403)
	h.Append(strings.Repeat(processtest.Line("192.0.2.3", time.Now().Add(-2*time.Hour)), 5) + processtest.Line("192.0.2.4", time.Now()))
	h.AwaitMetric("floodgate_ingest_lines_total", 16)
	// Bytes that are no text, then text: what can be read counts.
	h.Append("\x00\xff\x80\n" + strings.Repeat("\xfe", 1<<20) + "\n")
	h.Append(strings.Repeat(processtest.Line("192.0.2.5", time.Now()), 5))
	h.AwaitAnswer("192.0.2.5", 403)
	h.AwaitMetric("floodgate_ingest_rejected_total", 2)
	// A rotation to another format.
	if err := os.Rename(h.Log, h.Log+".1"); err != nil {
		t.Fatal(err)
	}
	h.Append(strings.Repeat(`{"remote_addr":"192.0.2.6","time_iso8601":"`+time.Now().Format(time.RFC3339)+`","request":"GET / HTTP/1.1","status":"200"}`+"\n", 5))
	h.AwaitAnswer("192.0.2.6", 403)
	h.Passes("192.0.2.3", "192.0.2.4")
}
