package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// count makes a caller's weight in its partition.
func (a *fakeAnalyzer) count(c schemas.Caller, n uint32) {
	p := schemas.Partition(a.world.key.Hash(c.Kind, c.ID), a.world.partitions)
	if f := a.folds[p]; f != nil {
		f.Entry(&schemas.Entry{Kind: c.Kind, ID: c.ID, Time: time.Now().UnixNano(), Count: n})
	}
}

// listed starts two analyzers with 40 callers each of another weight, and returns their nodes.
func (w *world) listed(change func(*Config)) (one, two *node) {
	w.t.Helper()
	a, b := w.analyzer(0, 1), w.analyzer(2, 3)
	for i := range 40 {
		c := schemas.Caller{Kind: "ip", ID: fmt.Sprint("203.0.113.", i)}
		a.count(c, uint32(i+1))
		b.count(c, uint32(i+1))
	}
	one, two = w.node(a, change), w.node(b, change)
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
	}
	return one, two
}

// TestPagesOfAllPartitions: each analyzer gives the same pages, in order, without a gap and without one twice.
func TestPagesOfAllPartitions(t *testing.T) {
	w := newWorld(t)
	one, two := w.listed(clustered)
	for _, n := range []*node{one, two} {
		for _, sort := range []string{"share", "count"} {
			var got []int64
			cursor := ""
			for {
				var page apiv1.CallerList
				a := n.get("/v1/callers?limit=7&sort=" + sort + cursor)
				a.want(t, http.StatusOK, "")
				a.into(t, &page)
				if page.Total != 40 || len(page.At) != 4 || len(page.Missing) != 0 {
					t.Errorf("got %s, want 40 callers of 4 partitions", a.body)
				}
				for _, l := range page.Callers {
					got = append(got, l.Count)
				}
				if page.Next == "" {
					break
				}
				cursor = "&cursor=" + page.Next
			}
			if len(got) != 40 {
				t.Fatalf("got %d lines, want 40: %v", len(got), got)
			}
			for i := range got {
				if got[i] != int64(40-i) {
					t.Fatalf("got %v, want 40 to 1", got)
				}
			}
		}
		var page apiv1.CallerList
		n.get("/v1/callers?min_share=0.3&kind=ip&rule=per-ip&prefix=203.0.113.3").into(t, &page)
		if page.Total != 10 {
			t.Errorf("got %d callers, want the 10 of 0.3 or more whose address begins so", page.Total)
		}
		n.get("/v1/callers?network=203.0.113.32/29&limit=1").into(t, &page)
		if page.Total != 8 {
			t.Errorf("got %d callers, want the 8 of 203.0.113.32/29", page.Total)
		}
		n.get("/v1/callers?sort=count"+cursorOf(t, n)).want(t, http.StatusBadRequest, "sort=count")
		n.get("/v1/callers?rule=per-op").want(t, http.StatusBadRequest, "one of per-key, per-ip, slow")
		n.get("/v1/callers?partition=1&partition=2").want(t, http.StatusOK, `"partition":1`)
		for _, bad := range []string{"partition=4", "partition=-1", "partition=x", "min_share=NaN", "min_share=-1", "min_share=x", "limit=0", "sort=x", "cursor=x", "network=203.0.113.9/24", "network=203.0.113.9", "prefix=" + strings.Repeat("x", 257)} {
			n.get("/v1/callers?"+bad).want(t, http.StatusBadRequest, "")
		}
	}
}

// cursorOf returns the cursor of a page by share.
func cursorOf(t *testing.T, n *node) string {
	t.Helper()
	var page apiv1.CallerList
	n.get("/v1/callers?limit=1").into(t, &page)
	return "&cursor=" + page.Next
}

// TestAListSaysWhatIsMissing: some partitions have no owner. It is an error only if none has.
func TestAListSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	one, _ := w.listed(clustered)
	w.board.silence(3)
	var page apiv1.CallerList
	one.get("/v1/callers").into(t, &page)
	if fmt.Sprint(page.Missing) != "[3]" || len(page.At) != 3 {
		t.Errorf("got %v and %v, want only partition 3 to be missing", page.Missing, page.At)
	}
	one.get("/v1/callers?partition=3").want(t, http.StatusServiceUnavailable, "no running owner")
	one.get("/v1/callers?partition=3&sort=rate").want(t, http.StatusServiceUnavailable, "no running owner")
}

// TestTheBusiestOfAllPartitions are in one list.
func TestTheBusiestOfAllPartitions(t *testing.T) {
	w := newWorld(t)
	one, two := w.listed(clustered)
	for _, n := range []*node{one, two} {
		for _, sort := range []string{"rate", "blocked"} {
			var list apiv1.Busy
			a := n.get("/v1/callers?limit=5&sort=" + sort)
			a.want(t, http.StatusOK, "")
			a.into(t, &list)
			if len(list.At) != 4 || list.HalfNS <= 0 || len(list.Callers) > 5 {
				t.Errorf("got %s, want a list of 4 partitions", a.body)
			}
			for i := 1; i < len(list.Callers); i++ {
				if sort == "rate" && list.Callers[i].Admitted > list.Callers[i-1].Admitted {
					t.Errorf("got %s, want the busiest first", a.body)
				}
			}
		}
	}
}

// TestRatesHaveAnError: where little comes, all is counted, and rates have none. In a flood five requests a second are too few for a sample,
// and the answer says so. A rate of 0 has an error, too: somebody who was not in the sample may have sent something.
func TestRatesHaveAnError(t *testing.T) {
	w := newWorld(t)
	a := w.analyzer(0, 1, 2, 3)
	n := w.node(a, nil)
	begun := time.Now().Add(-100 * time.Second)
	send := func(id string, at time.Duration) {
		p := schemas.Partition(w.key.Hash("key", id), w.partitions)
		a.folds[p].Entry(&schemas.Entry{Kind: "key", ID: id, Time: begun.Add(at).UnixNano(), Count: 1})
	}
	busiest := func(sort string) (list apiv1.Busy) {
		time.Sleep(time.Until(begun.Add(100 * time.Second))) // answers are kept for a second
		n.get("/v1/callers?limit=1000&sort="+sort).into(t, &list)
		return list
	}
	for i := range 500 {
		for c := range 20 {
			send(fmt.Sprint(c), time.Duration(i)*200*time.Millisecond)
		}
	}
	list := busiest("rate")
	if len(list.Callers) != 20 {
		t.Fatalf("got %d callers, want 20", len(list.Callers))
	}
	for _, c := range list.Callers {
		if c.Admitted < 4.8 || c.Admitted > 5.2 || c.AdmittedError != 0 || c.Blocked != 0 || c.BlockedError != 0 {
			t.Errorf("got %+v, want 5 a second, exactly", c)
		}
	}
	begun = begun.Add(1500 * time.Millisecond)
	for i := range time.Duration(400_000) {
		send(fmt.Sprint("flood-", i%1000), 100*time.Second+i*2500)
	}
	errors := 0
	for _, c := range busiest("rate").Callers {
		if c.AdmittedError > 0 {
			errors++
		}
	}
	if errors < 900 {
		t.Errorf("got %d callers with an error in a flood, want nearly all", errors)
	}
}

// TestAllCallersInLines: each caller is in one line, whichever analyzer is asked.
func TestAllCallersInLines(t *testing.T) {
	w := newWorld(t)
	one, two := w.listed(clustered)
	for _, n := range []*node{one, two} {
		a := n.get("/v1/callers", "Accept", contentLines)
		if a.header.Get("Content-Type") != contentLines {
			t.Errorf("got %v, want lines", a.header)
		}
		seen := make(map[schemas.Caller]int)
		for r := bufio.NewScanner(bytes.NewReader(a.body)); r.Scan(); {
			var part apiv1.CallerList
			if err := json.Unmarshal(r.Bytes(), &part); err != nil {
				t.Fatal(err)
			}
			for _, l := range part.Callers {
				seen[l.Caller.Caller()]++
			}
			if len(part.Missing) != 0 {
				t.Errorf("got missing partitions %v, want none", part.Missing)
			}
		}
		if len(seen) != 40 {
			t.Errorf("got %d callers, want 40", len(seen))
		}
	}
	w.board.silence(2)
	one.get("/v1/callers", "Accept", contentLines).want(t, http.StatusOK, `"missing":[2]`)
}

// TestListsForRoleReadHaveHashes, in pages, in lines, and in cursors.
func TestListsForRoleReadHaveHashes(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:operate")
	one, two := w.listed(func(c *Config) { clustered(c); c.TokenFile, c.Redact = path, true })
	for _, n := range []*node{one, two} {
		for i, tok := range toks {
			n.token = tok
			for _, q := range []string{"", "?limit=3", "?sort=rate", "?limit=3" + "&sort=count"} {
				a := n.get("/v1/callers" + q)
				a.want(t, http.StatusOK, "")
				if shows := strings.Contains(string(a.body), "203.0.113."); shows && i == 0 {
					t.Errorf("%s: got %s, want no address", q, a.body)
				}
			}
			var page apiv1.CallerList
			n.get("/v1/callers?limit=3").into(t, &page)
			a := n.get("/v1/callers?limit=3&cursor=" + page.Next)
			a.want(t, http.StatusOK, `"count":37`)
			if a := n.get("/v1/callers", "Accept", contentLines); strings.Contains(string(a.body), "203.0.113.") != (i == 1) {
				t.Errorf("lines: got %.300s, want addresses for role operate alone", a.body)
			}
		}
		n.token = toks[0]
		n.get("/v1/callers?prefix=203").want(t, http.StatusForbidden, "no prefix")
		n.get("/v1/callers?network=203.0.113.0/24").want(t, http.StatusForbidden, "in no network")
	}
}
