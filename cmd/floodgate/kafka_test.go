package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

// TestSubcommandsReachABrokerWithTLSAndSASL runs what speaks to Kafka against a broker that wants TLS, a certificate
// and a password.
func TestSubcommandsReachABrokerWithTLSAndSASL(t *testing.T) {
	a := securetest.New(t)
	b, err := embedded.Start(embedded.Options{MinSession: time.Second, Cluster: []kfake.Opt{
		kfake.TLS(a.Server(true)), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "analyzer", "secret"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	cert, key := a.Issue("analyzer")
	password, rules := filepath.Join(dir, "password"), filepath.Join(dir, "rules.yaml")
	for path, text := range map[string]string{password: "secret\n", rules: processtest.Rules("5")} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secure := []string{
		"--brokers", b.Addr(), "--tls", "--tls-ca", a.CA, "--tls-cert", cert, "--tls-key", key,
		"--sasl", "scram-sha-512", "--sasl-user", "analyzer", "--sasl-password-file", password,
	}
	out, err := runCommand(append([]string{"topics", "--create"}, secure...)...)
	if err != nil || !strings.Contains(out, "6 topics, all as they should be") {
		t.Fatalf("topics: got %v,\n%s", err, out)
	}
	counts := []string{"--rules", rules, "--data", filepath.Join(dir, "counts")}
	p := start(t, append(append([]string{"analyze", "--listen", "127.0.0.1:0", "--session-timeout", "2s"}, secure...), counts...)...)
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	processtest.Eventually(t, 30*time.Second, "ready", func() bool { _, status := processtest.Get(t.Context(), url+"/readyz"); return status == 200 })
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyze: got exit code %d:\n%s", code, p.Text())
	}
	if out, err := runCommand(append(append([]string{"audit"}, secure...), counts...)...); err != nil || !strings.Contains(out, "4 partitions") {
		t.Errorf("audit: got %v,\n%s", err, out)
	}

	if err := os.WriteFile(password, []byte("guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand(append([]string{"topics"}, secure...)...); err == nil {
		t.Error("a wrong password: got in")
	}
}

func TestFlagsOfTheLinkThatCannotWork(t *testing.T) {
	for _, broker := range []string{"", "kafka", "kafka:", ":9092", "kafka:http", "kafka:0", "kafka:65536", "a:b:c", "http://kafka:9092", "::1:9092", "kafka:9092 "} {
		if _, err := runCommand("topics", "--brokers", broker); !command.IsUsage(err) || !strings.HasPrefix(err.Error(), "--brokers: got ") {
			t.Errorf("--brokers %q: got %v, want a usage error", broker, err)
		}
	}
	base := []string{"topics", "--brokers", "127.0.0.1:1,[::1]:1"}
	for _, c := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"--tls-ca", "ca.pem"}, "without TLS", true},
		{[]string{"--tls", "--tls-key", "k"}, "both or none", true},
		{[]string{"--sasl", "plain", "--sasl-user", "u", "--sasl-password-file", "p"}, "want --tls, or --sasl-insecure", true},
		{[]string{"--sasl", "oauth", "--sasl-user", "u", "--sasl-password-file", "p", "--tls"}, `got "oauth"`, true},
		{[]string{"--sasl", "plain", "--tls"}, "want a user", true},
		{[]string{"--tls", "--tls-ca", "/nowhere/ca.pem"}, "read authorities", false},
		{[]string{"--sasl", "plain", "--sasl-user", "u", "--sasl-password-file", "/nowhere/p", "--sasl-insecure"}, "read password", false},
	} {
		_, err := runCommand(append(base, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || command.IsUsage(err) != c.usage {
			t.Errorf("%v: got %v, want %q (usage: %v)", c.args, err, c.want, c.usage)
		}
	}
}

// TestNamesOfTopics: each subcommand refuses two topics of one name before it connects: decisions among requests would be rejects, and
// requests among decisions would be read by each gate.
func TestNamesOfTopics(t *testing.T) {
	broker := []string{"--brokers", "127.0.0.1:1"}
	for name, args := range map[string][]string{
		"analyze": {"--rules", "none", "--data", "none"}, "audit": {"--rules", "none", "--data", "none"}, "topics": {"--create"}, "rejects": nil,
		"ingest": {"--topic", "access"}, "repartition": {"--to-requests", "floodgate2.requests"}, "sidecar": nil, "notify": {"--config", "none"},
	} {
		for more, want := range map[string]string{
			"--topic-prefix=":                                 "--topic-prefix: got none",
			"--topic-name=requests=":                          "--topic-name: got requests=,",
			"--topic-name=request=mine":                       "--topic-name: got request=mine, want requests, decisions,",
			"--topic-name=state=floodgate.requests":           `--topic-name: got "floodgate.requests" for state, which is the topic of requests`,
			"--topic-name=control=same,decisions=same":        `--topic-name: got "same" for control, which is the topic of decisions`,
			"--topic-prefix=p --topic-name=state=p.decisions": `--topic-name: got "p.decisions" for state, which is the topic of decisions`,
		} {
			if text, code := shown(slices.Concat([]string{name}, broker, args, strings.Fields(more))...); code != 2 || !strings.Contains(text, want) {
				t.Errorf("%s %s: got %d and %s, want %s", name, more, code, text, want)
			}
		}
	}
	for _, kind := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
		for _, args := range [][]string{{"repartition", "--to-requests", "p." + kind}, {"ingest", "--topic", "p." + kind}, {"topics", "--topic", "p." + kind}} {
			if text, code := shown(slices.Concat(args, broker, []string{"--topic-prefix", "p"})...); code != 2 || !strings.Contains(text, "topic of "+kind) {
				t.Errorf("%q: got %d and %s", args, code, text)
			}
		}
	}
}
