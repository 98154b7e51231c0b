package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `2 × some processor.

CASE      BAR             FLOODGATE  RIVAL                        TIMES AS FAST
a miss    ≤ 10 ns, ≥ 5 ×  4 / 5 ns   slow / slower 80 / 1,234 ns  20 / 247       met
a hit     ≤ 10 ns, ≥ 3 ×  9 ns       slow 20 ns                   2.2            missed
memory    ≤ 64 B          64 B                                                   met
reported  ≥ 100 %         99.50 %                                                missed
garbage   ≤ 10 ns         1 ns                                                   missed: 2 allocs
no bar                    1 ns

LOOKUPS, NS    MISS     HIT
floodgate      1 / 2    3 / 4
slow | steady  80 / 90

a miss: measured twice
not measured: Redis: there is none
2 of 5 bars met
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWriteMarkdown(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	const want = `2 × some processor.

| case | bar | floodgate | rival | times as fast |  |
|---|---|---|---|---|---|
| a miss | ≤ 10 ns, ≥ 5 × | 4 / 5 ns | slow / slower 80 / 1,234 ns | 20 / 247 | met |
| a hit | ≤ 10 ns, ≥ 3 × | 9 ns | slow 20 ns | 2.2 | missed |
| memory | ≤ 64 B | 64 B |  |  | met |
| reported | ≥ 100 % | 99.50 % |  |  | missed |
| garbage | ≤ 10 ns | 1 ns |  |  | missed: 2 allocs |
| no bar |  | 1 ns |  |  |  |

| lookups, ns | miss | hit |
|---|---|---|
| floodgate | 1 / 2 | 3 / 4 |
| slow \| steady | 80 / 90 |  |

* a miss: measured twice
* not measured: Redis: there is none
* 2 of 5 bars met
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// object is any line of the JSON output.
type object struct {
	Type    string
	Case    string
	Figures []Figure
	Met     *bool
	Subject string
	Values  [][]float64
	Bars    int
	Missed  int
	Skipped []string
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), `{"type":"row","case":"a miss","unit":"ns","bar":{"at_most":10,"allocs":0,"times":5},`+
		`"figures":[{"cpus":1,"value":4.04,"allocs":0,"rival":{"name":"slow","value":80}},`) {
		t.Errorf("got %s", b.String())
	}
	var objects []object
	for dec := json.NewDecoder(&b); dec.More(); {
		var o object
		if err := dec.Decode(&o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	if len(objects) != 6+2+1 {
		t.Fatalf("got %d objects, want 6 rows, 2 lines and a summary", len(objects))
	}
	for i, row := range sample().Rows {
		o := objects[i]
		if o.Type != "row" || o.Case != row.Case || o.Met == nil || *o.Met != row.Met() || len(o.Figures) != len(row.Figures) {
			t.Errorf("got %+v, want row %q", o, row.Case)
		}
	}
	if o := objects[7]; o.Type != "line" || o.Subject != "slow | steady" || len(o.Values) != 2 || o.Values[0][1] != 90.4 {
		t.Errorf("got %+v, want the grid's second line", o)
	}
	if o := objects[8]; o.Type != "summary" || o.Bars != 5 || o.Missed != 3 || len(o.Skipped) != 1 {
		t.Errorf("got %+v, want a summary of 3 missed of 5", o)
	}
}

// broken is a terminal that has gone away.
type broken struct{ after int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.after -= len(p); b.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}
