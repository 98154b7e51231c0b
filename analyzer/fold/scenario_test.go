package fold

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// scenario is a file of testdata/scenarios: rules, a line of dashes, and then entries in log order with what each of
// them does. Its name begins with the verdict: closes_, or stays_open_.
//
//	12:00:30  key:a  x9  /search  blocked  status=503  cost=7   => per-key closed until 12:01:00 as 1st; other warned 0.8
//
// Only the time, on Monday, 2 March 2026, UTC, or in RFC 3339, and the caller are required. A status, a cost or the word
// response makes it a response. What follows the arrow is all that anybody would notice: nothing, where there is none.
type scenario struct {
	name  string
	rules *rules.Set
	lines []scenarioLine
}

type scenarioLine struct {
	number int
	entry  schemas.Entry
	want   string // effects, joined by "; "
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../testdata/scenarios/*.txt")
	if err != nil || len(files) < 15 {
		t.Fatalf("got %d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		s := readScenario(t, file)
		t.Run(s.name, func(t *testing.T) {
			t.Run("uninterrupted", s.uninterrupted)
			t.Run("restarted after each entry", s.restarted)
			t.Run("framed, each frame twice", s.framed)
		})
	}
}

// uninterrupted gives the entries to one fold.
func (s *scenario) uninterrupted(t *testing.T) {
	f := New(s.rules, Options{})
	closes := 0
	for i := range s.lines {
		e := s.lines[i].entry
		f.Entry(&e)
		closes += s.check(t, &s.lines[i], f.TakeChanges())
	}
	if verdict := strings.HasPrefix(s.name, "closes_"); verdict != (closes > 0) {
		t.Errorf("got %d closes, want what the name says", closes)
	}
}

// restarted stops after each entry, and goes on with what the store holds.
func (s *scenario) restarted(t *testing.T) {
	var rows fakeStore
	f := New(s.rules, Options{})
	for i := range s.lines {
		e := s.lines[i].entry
		f.Entry(&e)
		s.check(t, &s.lines[i], f.TakeChanges())
		rows.commit(t, f)
		f = rows.restore(t, s.rules, Options{})
	}
}

// framed gives each entry in a frame of its own, which Kafka delivers twice.
func (s *scenario) framed(t *testing.T) {
	f := New(s.rules, Options{})
	var newest int64
	for i := range s.lines {
		line := &s.lines[i]
		newest = max(newest, line.entry.Time)
		fr := foldtest.Frame(uint64(i+1), newest, line.entry)
		for range 2 {
			if err := f.Frame(Record{Offset: int64(i), Time: newest, Value: foldtest.Encode(t, fr)}); err != nil {
				t.Fatalf("line %d: %v", line.number, err)
			}
		}
		s.check(t, line, f.TakeChanges())
	}
	if got := f.Stats().Duplicate; got != uint64(len(s.lines)) {
		t.Errorf("got %d duplicates, want %d", got, len(s.lines))
	}
}

// check compares what an entry did with what the scenario says, and returns how many closes there were.
func (s *scenario) check(t *testing.T, line *scenarioLine, changes []Change) int {
	t.Helper()
	closes := 0
	var got []string
	for i := range changes {
		c := &changes[i]
		if c.Caller != line.entry.Caller() || c.At != line.entry.Time {
			t.Errorf("line %d: got a change of %s at %d, want the entry's", line.number, c.Caller, c.At)
		}
		switch c.Kind {
		case policy.Same:
			got = append(got, fmt.Sprintf("%s warned %v", c.Rule.Name, c.Warn))
		case policy.Closed:
			closes++
			if c.Closure.CloseAt != line.entry.Time {
				t.Errorf("line %d: got close_at %d, want the entry's time", line.number, c.Closure.CloseAt)
			}
			got = append(got, fmt.Sprintf("%s closed until %s as %d", c.Rule.Name, scenarioClock(c.Closure.Until), c.Closure.Nth))
		default:
			got = append(got, fmt.Sprintf("%s %s until %s", c.Rule.Name, c.Kind, scenarioClock(c.Closure.Until)))
		}
	}
	if got := strings.Join(got, "; "); got != line.want {
		t.Errorf("line %d: got %q, want %q", line.number, got, line.want)
	}
	return closes
}

func readScenario(t *testing.T, file string) *scenario {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
	head, body, ok := bytes.Cut(data, []byte("\n---\n"))
	if !ok {
		t.Fatalf("%s: no line of dashes", file)
	}
	if s.rules, err = rules.Parse(file, head); err != nil {
		t.Fatal(err)
	}
	first := bytes.Count(head, []byte("\n")) + 3
	for i, text := range strings.Split(string(body), "\n") {
		if text, _, _ = strings.Cut(text, "#"); strings.TrimSpace(text) == "" {
			continue
		}
		line, err := parseScenarioLine(text)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, first+i, err)
		}
		line.number = first + i
		s.lines = append(s.lines, line)
	}
	return s
}

func parseScenarioLine(text string) (scenarioLine, error) {
	said, effects, _ := strings.Cut(text, "=>")
	words := strings.Fields(said)
	if len(words) < 2 {
		return scenarioLine{}, fmt.Errorf("got %q, want a time and a caller", said)
	}
	at, err := parseScenarioTime(words[0])
	if err != nil {
		return scenarioLine{}, err
	}
	caller, err := schemas.ParseCaller(words[1])
	if err != nil {
		return scenarioLine{}, err
	}
	e := schemas.Entry{Time: at, Kind: caller.Kind, ID: caller.ID, Count: 1}
	for _, word := range words[2:] {
		if err := readScenarioWord(&e, word); err != nil {
			return scenarioLine{}, err
		}
	}
	return scenarioLine{entry: e, want: strings.Join(strings.Fields(effects), " ")}, nil
}

func readScenarioWord(e *schemas.Entry, word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	var n uint64
	switch {
	case word[0] == '/':
		e.Resource = word
	case word[0] == 'x':
		n, err = strconv.ParseUint(word[1:], 10, 32)
		e.Count = uint32(n)
	case word == "blocked":
		e.Blocked = true
	case word == "response":
		e.Response = true
	case key == "status":
		n, err = strconv.ParseUint(value, 10, 16)
		e.Status, e.Response = uint16(n), true
	case key == "cost":
		e.Cost, err = strconv.ParseInt(value, 10, 64)
		e.Response = true
	default:
		err = fmt.Errorf("got %q, want xN, /resource, blocked, response, status=N or cost=N", word)
	}
	return err
}

// scenarioDay is the day of times without a date.
const scenarioDay = "2026-03-02"

func parseScenarioTime(text string) (int64, error) {
	if !strings.Contains(text, "T") {
		text = scenarioDay + "T" + text + "Z"
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at.UnixNano(), err
}

func scenarioClock(t int64) string {
	at := time.Unix(0, t).UTC()
	if at.Format(time.DateOnly) == scenarioDay {
		return at.Format("15:04:05.999999999")
	}
	return at.Format(time.RFC3339Nano)
}
