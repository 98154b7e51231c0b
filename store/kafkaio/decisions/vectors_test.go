package decisions_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// vectorDir has the vectors that schemas/DECISIONS.md describes.
const vectorDir = "../../../testdata/decisions"

// partitionJSON is a partition_NAME.json.
type partitionJSON struct {
	Story     string       `json:"story"`
	Partition int32        `json:"partition"`
	Now       int64        `json:"now,string"`
	Start     int64        `json:"start,string"` // the first offset that the log holds
	Present   int          `json:"present"`
	Records   []recordJSON `json:"records"`
	Read      int64        `json:"read,string"`
	Apply     int64        `json:"apply,string"`
	Verdicts  []string     `json:"verdicts"`
	Closed    []closedJSON `json:"closed"`
}

type recordJSON struct {
	Offset int64  `json:"offset,string"`
	Time   int64  `json:"time,string"`
	Value  string `json:"value"`            // hex
	Copies int    `json:"copies,omitempty"` // how often the record is there again, at the offsets behind it
}

type closedJSON struct {
	Rule    string `json:"rule"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Mode    int    `json:"mode"`
	CloseAt int64  `json:"close_at,string"`
	Until   int64  `json:"until,string"`
	Early   bool   `json:"early,omitempty"`
	Next    string `json:"next,omitempty"`  // close_at, until, early
	Share   string `json:"share,omitempty"` // the share's fields, in their order
}

func sortClosed(list []closedJSON) {
	slices.SortFunc(list, func(a, b closedJSON) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
}

type epochJSON struct {
	Epoch  uint64 `json:"epoch,string"`
	Time   int64  `json:"time,string"` // of the record
	Now    int64  `json:"now,string"`
	Allows bool   `json:"allows"`
}

// TestVectors holds the files against what the code makes of them today. A difference is another protocol.
func TestVectors(t *testing.T) {
	want := make(map[string]string)
	for name, value := range readValues(t) {
		r, err := pb.Decode(value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want["reads_"+name+".hex"] = hexLines(value)
		want["reads_"+name+".json"] = marshal(t, valueJSON(r))
	}
	for name, value := range rejectValues(t) {
		_, err := pb.Decode(value)
		if reason := pb.Reason(err); err == nil || !strings.HasPrefix(name, reason) {
			t.Fatalf("%s: got reason %q of %v", name, reason, err)
		}
		want["rejects_"+name+".hex"] = "# reason: " + pb.Reason(mustFail(pb.Decode(value))) + "\n" + hexLines(value)
	}
	want["epochs.json"] = marshal(t, epochVectors())
	for name, p := range partitions(t) {
		read(t, &p)
		want["partition_"+name+".json"] = marshal(t, p)
	}
	if testenv.Update() {
		write(t, want)
	}
	files, err := os.ReadDir(vectorDir)
	if err != nil || len(files) != len(want)+1 { // reopening.json is held by package gate
		t.Errorf("got %d files, %v, want %d and reopening.json: %s writes them", len(files), err, len(want), testenv.UpdateCommand(t))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(vectorDir, name)); err != nil || string(got) != text {
			t.Errorf("%s differs (%v): readers in other languages would differ, too. %s writes it", name, err, testenv.UpdateCommand(t))
		}
	}
}

func mustFail(_ pb.Record, err error) error { return err }

// read fills in what a gate makes of a partition, by package decisions.
func read(t *testing.T, p *partitionJSON) {
	t.Helper()
	log := memoryOf(t, p)
	at, err := decisions.Find(t.Context(), log, p.Partition, log.clock)
	if err != nil {
		t.Fatal(err)
	}
	p.Read, p.Apply, p.Verdicts = at.Read, at.Apply, []string{}
	log.end = math.MaxInt64
	f := decisions.Follower{Partition: p.Partition}
	f.Start(at)
	closed := make(map[string]closedJSON)
	for next := at.Read; ; {
		moved := false
		for i := range log.records {
			r := &log.records[i]
			if r.Offset < next {
				continue
			}
			m, err := f.Take(r, p.Now)
			p.Verdicts = append(p.Verdicts, verdict(&m, err))
			if d := m.Decision; d != nil {
				key := fmt.Sprintf("%q %q %q", d.Rule, d.Caller.Kind, d.Caller.ID)
				closed[key] = closedBy(d)
				if (d.Until <= d.CloseAt || d.Until <= p.Now) && d.Next.Until <= p.Now {
					delete(closed, key)
				}
			}
			if moved = decisions.Reason(err) == "moved"; moved {
				break
			}
		}
		if !moved {
			break
		}
		if at, err = decisions.Find(t.Context(), log, p.Partition, log.clock); err != nil {
			t.Fatal(err)
		}
		f.Start(at)
		next = at.Read
	}
	p.Verdicts = runs(p.Verdicts)
	p.Closed = []closedJSON{}
	for _, c := range closed {
		p.Closed = append(p.Closed, c)
	}
	sortClosed(p.Closed)
}

// closedBy is what the code reads in a decision.
func closedBy(d *schemas.Decision) closedJSON {
	c := closedJSON{
		Rule: d.Rule, Kind: d.Caller.Kind, ID: d.Caller.ID, Mode: int(d.Mode), CloseAt: d.CloseAt, Until: d.Until, Early: d.Early,
	}
	if d.Next != (schemas.Span{}) {
		c.Next = fmt.Sprintln(d.Next.CloseAt, d.Next.Until, d.Next.Early)
	}
	if s := d.Share; s != nil {
		c.Share = fmt.Sprintln(s.From, s.Until, s.Period, s.Permits, s.DemandFrom, s.DemandUntil, s.Demand)
	}
	c.Next, c.Share = strings.TrimSpace(c.Next), strings.TrimSpace(c.Share)
	return c
}

// docClosed is what the document reads in a decision.
func docClosed(r *docRecord) closedJSON {
	c := closedJSON{Rule: r.rule, Kind: r.kind, ID: r.id, Mode: int(r.mode), CloseAt: r.closeAt, Until: r.until, Early: r.early}
	if r.next != (docSpan{}) {
		c.Next = fmt.Sprintf("%d %d %t", r.next.closeAt, r.next.until, r.next.early)
	}
	if r.share[3] != 0 {
		c.Share = strings.Trim(fmt.Sprint(r.share[1:]), "[]")
	}
	return c
}

// runs writes a verdict that comes n times in a row as "n verdict".
func runs(verdicts []string) []string {
	out := []string{}
	for i := 0; i < len(verdicts); {
		n := 1
		for i+n < len(verdicts) && verdicts[i+n] == verdicts[i] {
			n++
		}
		out = append(out, fmt.Sprint(n, " ", verdicts[i]))
		i += n
	}
	return out
}

func verdict(m *pb.Record, err error) string {
	switch {
	case err != nil:
		return decisions.Reason(err)
	case m.Claim != nil:
		return "claim"
	case m.Heartbeat != nil:
		return "heartbeat"
	case m.Decision != nil:
		return "decision"
	}
	return "skipped"
}

// TestTheDocumentIsEnough reads all vectors with a gate that was written after schemas/DECISIONS.md alone.
func TestTheDocumentIsEnough(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*"))
	if err != nil || len(files) < 30 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch name := filepath.Base(file); {
			case strings.HasPrefix(name, "partition_"):
				readsPartition(t, data)
			case strings.HasPrefix(name, "rejects_"):
				reason, _, _ := strings.Cut(strings.TrimPrefix(string(data), "# reason: "), "\n")
				if _, got := docRead(unhex(t, string(data))); got != reason {
					t.Errorf("got %q, want %q", got, reason)
				}
			case strings.HasSuffix(name, ".hex"):
				readsValue(t, unhex(t, string(data)), strings.TrimSuffix(file, ".hex")+".json")
			case name == "epochs.json":
				for _, e := range unmarshal[[]epochJSON](t, data) {
					if got := docAllows(e.Epoch, e.Time, e.Now); got != e.Allows {
						t.Errorf("%+v: got %v", e, got)
					}
				}
			case name == "reopening.json":
				for _, r := range unmarshal[[]reopeningJSON](t, data) {
					if got := docReopens(r.Kind, r.ID, r.CloseAt, r.Until); got != r.Reopens {
						t.Errorf("%+v: got %d", r, got)
					}
				}
			}
		})
	}
}

// readsPartition follows a partition by the document.
func readsPartition(t *testing.T, data []byte) {
	t.Helper()
	p := unmarshal[partitionJSON](t, data)
	g := docGate{partition: p.Partition, now: p.Now, start: p.Start}
	end := p.Start
	for i, r := range p.Records {
		for n := range 1 + r.Copies {
			g.log = append(g.log, docMessage{r.Offset + int64(n), r.Time, unhex(t, r.Value)})
		}
		if i < p.Present {
			end = g.log[len(g.log)-1].offset + 1
		}
	}
	if read := g.find(end); read != p.Read || g.apply != p.Apply {
		t.Errorf("got a start at %d, applying from %d, want %d and %d", read, g.apply, p.Read, p.Apply)
	}
	g.run(end)
	if !slices.Equal(runs(g.verdicts), p.Verdicts) {
		t.Errorf("got verdicts  %v\nwant          %v", runs(g.verdicts), p.Verdicts)
	}
	closed := []closedJSON{}
	for _, r := range g.closed {
		closed = append(closed, docClosed(&r))
	}
	if sortClosed(closed); !slices.Equal(closed, p.Closed) {
		t.Errorf("got closed %+v\nwant       %+v", closed, p.Closed)
	}
}

// readsValue reads a value by the document.
func readsValue(t *testing.T, value []byte, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := unmarshal[recordValueJSON](t, data)
	r, reason := docRead(value)
	if got := docJSON(r); reason != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v %q\nwant %+v", got, reason, want)
	}
}

func write(t *testing.T, files map[string]string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(vectorDir, "*_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(vectorDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func unmarshal[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// hexLines returns b in lines of 32 bytes.
func hexLines(b []byte) string {
	var out strings.Builder
	for chunk := range slices.Chunk(b, 32) {
		fmt.Fprintf(&out, "%x\n", chunk)
	}
	return out.String()
}

// unhex returns the bytes of a .hex file: all but spaces and comments.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.TrimSpace(line))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
