package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestIngestShowsRejectedLines: from a file, from a file of syslog and from a topic alike, the log shows the first three of a reason,
// escaped, and the topic of rejects has all.
func TestIngestShowsRejectedLines(t *testing.T) {
	t.Parallel()
	good := fmt.Sprintf(`203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 5 "-" "-"`, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
	syslog := "<190>Mar  1 10:00:00 web nginx: "
	for name, around := range map[string]string{"file": "", "syslog": syslog, "topic": ""} {
		t.Run(name, func(t *testing.T) {
			b := serveKafka(t, embedded.Options{MinSession: time.Second})
			lines := []string{around + good}
			for i := range 5 {
				lines = append(lines, fmt.Sprintf("%s\x1b[31mnonsense %d", around, i))
			}
			args := []string{"ingest", "--brokers", b.Addr(), "--listen", "", "--partitions", "1"}
			if name == "topic" {
				client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
				defer client.Close()
				if _, err := client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "nginx", Partitions: 1}); err != nil {
					t.Fatal(err)
				}
				message := kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(strings.Join(lines, "\n"))}
				if _, err := client.Produce(t.Context(), "nginx", 0, message); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--topic", "nginx")
			} else {
				log := filepath.Join(t.TempDir(), "access.log")
				if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--file", log, "--data", t.TempDir())
			}
			in := begin(t, args...)
			for n := range 3 {
				in.WaitFor(fmt.Sprintf(`level=WARN msg="cannot read a line" reason="client address" source=\S+ offset=\d+ bytes=\d+ line="(.*)\\x1b\[31mnonsense %d" shown="%d of at most 3`, n, n+1), 20*time.Second)
			}
			processtest.Eventually(t, 20*time.Second, "five rejects", func() bool {
				out, err := runCommand("rejects", "--brokers", b.Addr())
				return err == nil && strings.Count(out, "nonsense") == 5
			})
			if _, err := in.End(); err != nil {
				t.Errorf("got %v, want a clean end", err)
			}
			if text := in.Text(); strings.Contains(text, "\x1b") || strings.Count(text, "cannot read a line") != 3 {
				t.Errorf("got %q, want three lines shown", text)
			}
		})
	}
}

// TestIngestNoticesProxiesOfOnesOwn: a log of load balancers is warned of once, while it goes on and at the end of a short one. With
// --trusted the clients behind them are counted.
func TestIngestNoticesProxiesOfOnesOwn(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	at := time.Now().Format("02/Jan/2006:15:04:05 -0700")
	log := func(lines int) string {
		path := filepath.Join(t.TempDir(), "access.log")
		text := strings.Repeat(fmt.Sprintf("10.0.0.7 - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" \"198.51.100.9\"\n", at), lines)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := func(file string, more ...string) []string {
		return append([]string{"ingest", "--brokers", b.Addr(), "--listen", "", "--partitions", "1", "--file", file, "--data", t.TempDir()}, more...)
	}
	const warning = `level=WARN msg="clients may be behind proxies" advice=".*private addresses.*--trusted`
	long := begin(t, args(log(1000))...)
	long.WaitFor(warning, 20*time.Second)
	short := begin(t, args(log(30), "--once")...)
	if err := short.Wait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	trusting := begin(t, args(log(30), "--once", "--trusted", "10.0.0.0/8")...)
	if err := trusting.Wait(20 * time.Second); err != nil || strings.Contains(trusting.Text(), "level=WARN") {
		t.Errorf("with --trusted: got %v and %s, want no warning", err, trusting.Text())
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: r, callers: ip, limit: 5000, window: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := beginAnalyze(t, b.Addr(), t.TempDir(), "--api-listen", "127.0.0.1:0", "--rules", rules)
	api := a.WaitFor(`listening for the API.* address=(\S+)`, 10*time.Second)
	processtest.Eventually(t, 20*time.Second, "the clients behind them counted", func() bool {
		out, _ := runCommand("callers", "--api", api)
		return matches(`ip:10\.0\.0\.7 +\| r +\| enforce \| 1030 `, out) && matches(`ip:198\.51\.100\.9 +\| r +\| enforce \| 30 `, out)
	})
	if _, err := long.End(); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]*processtest.Session{"goes on": long, "short": short} {
		if text := in.Text(); !matches(warning, text) || strings.Count(text, "private addresses") != 1 {
			t.Errorf("%s: got %s, want it said once", name, text)
		}
	}
}

// TestIngestIsNotReadyWhileKafkaIsAway, and /readyz says since when, as that of analyze does.
func TestIngestIsNotReadyWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	b, err := embedded.Start(embedded.Options{MinSession: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	path := filepath.Join(t.TempDir(), "access.log")
	line := fmt.Sprintf(`203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 5 "-" "-"`+"\n", time.Now().Format("02/Jan/2006:15:04:05 -0700"))
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s := begin(t, "ingest", "--brokers", b.Addr(), "--file", path, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--partitions", "1")
	url := "http://" + s.WaitFor(`msg=listening address=(\S+)`, 30*time.Second) + "/readyz"
	processtest.Eventually(t, 30*time.Second, "ready", func() bool { _, status := processtest.Get(t.Context(), url); return status == http.StatusOK })
	b.Close()
	if err := os.WriteFile(path, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	processtest.Eventually(t, 30*time.Second, "Kafka away in /readyz", func() bool {
		text, status := processtest.Get(t.Context(), url)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "no broker of "+b.Addr()+" has answered since ")
	})
}
