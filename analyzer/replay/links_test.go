package replay_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestReplayLinksNoDatabase: whoever replays a log needs neither Kafka nor Badger, and the fold that counts it needs neither
// of them, nor a logger.
func TestReplayLinksNoDatabase(t *testing.T) {
	const own = "github.com/509da70d/floodgate/"
	for pkg, forbidden := range map[string][]string{
		own + "analyzer/replay": {"github.com/dgraph-io/", "github.com/segmentio/", "github.com/twmb/", own + "analyzer", own + "store", own + "store/kafkaio"},
		own + "analyzer/fold":   {"github.com/dgraph-io/", "github.com/segmentio/", "log/slog", "net/http", own + "analyzer", own + "store", own + "store/kafkaio"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("list what %s links: %v", pkg, err)
		}
		linked := strings.Fields(string(out))
		if len(linked) < 10 {
			t.Fatalf("%s links %v, want more: the list is wrong", pkg, linked)
		}
		for _, dep := range linked {
			for _, f := range forbidden {
				if dep == f || strings.HasSuffix(f, "/") && strings.HasPrefix(dep, f) {
					t.Errorf("%s links %s", pkg, dep)
				}
			}
		}
	}
}
