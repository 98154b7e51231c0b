package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestAResponseIsNoRequest: a log line is a request and its response. Statistics count it once as each, whether rules count
// responses or not.
func TestAResponseIsNoRequest(t *testing.T) {
	for _, rule := range []string{
		"  - {name: r, callers: key, limit: 100000, window: 1h}\n",
		"  - {name: r, callers: key, limit: 100000, window: 1h, match: {status: 404}}\n",
	} {
		set, err := rules.Parse("r", []byte("version: 1\nrules:\n"+rule))
		if err != nil {
			t.Fatal(err)
		}
		f := New(set, Options{NoStore: true})
		for i := range int64(1000) {
			f.Entry(&schemas.Entry{Time: i, Kind: "key", ID: "k", Count: 1})
			f.Entry(&schemas.Entry{Time: i, Kind: "key", ID: "k", Count: 1, Response: true, Status: 404})
		}
		if s := f.Stats(); s.Requests != 1000 || s.Responses != 1000 || s.Entries != 2000 {
			t.Errorf("%sgot %d requests and %d responses in %d entries, want 1000, 1000 and 2000", rule, s.Requests, s.Responses, s.Entries)
		}
	}
}

// TestWhatWasNotFoldedIsCounted: by the owner, which knows what the log no longer holds, and what it could not read.
func TestWhatWasNotFoldedIsCounted(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}"), Options{})
	f.CountLost(7)
	f.CountLost(2)
	f.CountRejected("size", 3)
	f.CountRejected("size", 1)
	if s := f.Stats(); s.Lost != 9 || s.Rejected["size"] != 4 {
		t.Errorf("got %d lost and %v rejected, want 9 and 4", s.Lost, s.Rejected)
	}
}
