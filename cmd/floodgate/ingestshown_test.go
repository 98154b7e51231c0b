package main

import (
	"fmt"
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
