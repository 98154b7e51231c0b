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

// TestAnAddressThatIsExtendedDuringAnAnswerStaysClosed: "deleted" and "new" of one answer are written one after the other. An address of
// "deleted" whose closure gets another end in between is in "new" too: without that, a firewall would let it in until the next poll.
func TestAnAddressThatIsExtendedDuringAnAnswerStaysClosed(t *testing.T) {
	const n = 4 * pieces
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
	}
	slices.Sort(ids)
	for name, query := range map[string]string{"a delta": "/v1/decisions/stream", "all again": "/v1/decisions/stream?scopes=ip"} {
		t.Run(name, func(t *testing.T) {
			s, b, stop := large(t, n)
			defer stop()
			s.streamed("startup=true")
			began := time.Now()
			closeUntil(s, b, n+1, began.Add(2*time.Hour), ids...)
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
				closeUntil(s, b, 2*n+1, began.Add(3*time.Hour), ids[0], ids[n-1])
				closeUntil(s, b, 2*n+3, time.Unix(0, 0), ids[1])
				closeUntil(s, b, 2*n+4, time.Unix(0, 0), ids[2])
				closeUntil(s, b, 2*n+5, began.Add(3*time.Hour), ids[2])
			})
			open := []string{ids[1], ids[2]} // and the second of them was closed once more, which is a change behind this answer
			held := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(open, id) })
			if list := values(got.New); !slices.Equal(list, held) {
				t.Errorf("got %d new, want the %d that stay closed", len(list), len(held))
			}
			next := ask(nil)
			if list, want := values(next.New), []string{ids[0], ids[2], ids[n-1]}; !slices.Equal(list, want) {
				t.Errorf("the next answer: got %v new, want %v", list, want)
			}
			if list, want := values(next.Deleted), []string{ids[0], ids[1], ids[2], ids[n-1]}; !slices.Equal(list, want) {
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
