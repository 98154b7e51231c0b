package replay

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRealLog replays a real server's log, of which the facts were computed independently: see the README beside it.
func TestRealLog(t *testing.T) {
	dir := os.Getenv("FLOODGATE_LOGS")
	if dir == "" {
		t.Skip("FLOODGATE_LOGS does not name a directory with real logs")
	}
	for name, c := range map[string]struct {
		rule            string
		closes, blocked int64
		callers         int
		first           string
	}{
		"fixed": {
			"limit: 50, window: 1h, algorithm: fixed", 6, 135, 2,
			"ip:75.97.9.59 2015-05-18T08:05:25Z 2015-05-18T09:00:00Z",
		},
		"gcra": {
			"limit: 20, window: 1m, algorithm: gcra, burst: 20", 121, 240, 9,
			"ip:65.55.213.73 2015-05-17T14:05:55Z 2015-05-17T14:05:57Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, "apache_combined.log.gz"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := run(t, Config{Rules: rule(t, c.rule), Inputs: []Input{{Name: f.Name(), Reader: f}}})
			s := got.summary
			if s.Lines != 10000 || s.Rejected != 0 || s.Late != 0 || s.Requests != 10000 || s.Callers != 1753 {
				t.Errorf("got %+v", s)
			}
			if s.Closes != c.closes || s.Blocked != c.blocked || s.Overshoot != 0 || len(got.callers()) != c.callers {
				t.Errorf("got %d closes of %d callers, %d blocked, overshoot %v, want %+v", s.Closes, len(got.callers()), s.Blocked, s.Overshoot, c)
			}
			if len(got.closes) == 0 || got.closes[0].brief() != c.first {
				t.Errorf("got first close %v, want %s", got.closes, c.first)
			}
		})
	}
}
