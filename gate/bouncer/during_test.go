package bouncer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// closeUntil applies closures of addresses on a board of large, until they end at a time, and returns when the server has looked at all.
func closeUntil(s *Server, b *board.Board, seq uint64, until time.Time, ids ...string) {
	now := time.Now()
	ds := make([]schemas.Decision, 0, len(ids))
	for i, id := range ids {
		ds = append(ds, schemas.Decision{
			Rule: "per-ip", Caller: schemas.Caller{Kind: schemas.KindIP, ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: until.UnixNano(), Epoch: 1, Seq: seq + uint64(i),
		})
	}
	b.Apply(ds, now)
	v := s.view(ruleFilter{}, now)
	for _, id := range ids {
		for known := false; !known; runtime.Gosched() {
			v.mu.Lock()
			slot := v.table.find(mustAddr(id))
			known = slot != none && (v.table.at(slot).closed && v.table.at(slot).until == until.UnixNano() || !v.table.at(slot).closed && !until.After(now))
			v.mu.Unlock()
		}
	}
}

// values returns the addresses of items, in order.
func values(items []decision) (list []string) {
	for _, d := range items {
		list = append(list, d.Value)
	}
	slices.Sort(list)
	return list
}

// TestWhatChangesDuringAnAnswer: "deleted" and "new" of one answer are written one after the other. An address that is closed in between may
// be in "deleted" already. Then it is not in "new", because some bouncers apply "new" first: it comes with the next answer.
func TestWhatChangesDuringAnAnswer(t *testing.T) {
	const n = 4 * pieces
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
	}
	slices.Sort(ids)
	closed, open := ids[:n/2], ids[n/2:]
	for name, query := range map[string]string{"a delta": "/v1/decisions/stream", "all again": "/v1/decisions/stream?scopes=ip"} {
		t.Run(name, func(t *testing.T) {
			s, b, stop := large(t, n)
			defer stop()
			s.streamed("startup=true")
			began := time.Now()
			closeUntil(s, b, n+1, began.Add(2*time.Hour), closed...)
			closeUntil(s, b, 2*n+1, time.Unix(0, 0), open...)
			b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 9}, time.Now())
			ask := func(during func()) (got stream) {
				text := &strings.Builder{}
				out := &meanwhile{sink: sink{header: http.Header{}}, do: during, to: text}
				s.ServeHTTP(out, request(query))
				if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			got := ask(func() {
				closeUntil(s, b, 3*n+1, began.Add(3*time.Hour), closed[0], open[0], open[n/2-1])
				closeUntil(s, b, 3*n+4, time.Unix(0, 0), closed[1], closed[2])
				closeUntil(s, b, 3*n+6, began.Add(3*time.Hour), closed[2])
			})
			if list, want := values(got.Deleted), open[:n/2-1]; !slices.Equal(list, want) {
				t.Errorf("got %d deleted, want the %d that were open when their turn came", len(list), len(want))
			}
			if list, want := values(got.New), append([]string{closed[0]}, closed[3:]...); !slices.Equal(list, want) {
				t.Errorf("got %d new, want the %d that were closed all the time", len(list), len(want))
			}
			next := ask(nil)
			if list, want := values(next.New), []string{closed[0], closed[2], open[0], open[n/2-1]}; !slices.Equal(list, want) {
				t.Errorf("the next answer: got %v new, want %v", list, want)
			}
			if list, want := values(next.Deleted), []string{closed[1]}; !slices.Equal(list, want) {
				t.Errorf("the next answer: got %v deleted, want %v", list, want)
			}
		})
	}
}

// meanwhile does something when the first piece is sent, and passes on what is sent.
type meanwhile struct {
	sink

	do func()
	to io.Writer // nil: nowhere
}

func (m *meanwhile) Write(b []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	if m.to != nil {
		_, _ = m.to.Write(b) // a strings.Builder takes all
	}
	return m.sink.Write(b)
}
