//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

const accuracyPage = "../../.github/ACCURACY.md"

// simulations are commands of the page, and the table behind them: its head, and the rows. The first cell of a row is written by
// people, the others are what the commands print.
var simulations = regexp.MustCompile("```sh\n((?:floodgate simulate [^\n]+\n)+)```\n(?:\n(\\|[^\n]+\\|\n\\|[-:|]+\\|\n)((?:\\|[^\n]+\\|\n)+))?")

// TestAccuracyPageIsTrue: the tables and pictures of ACCURACY.md are what the commands above them print.
func TestAccuracyPageIsTrue(t *testing.T) {
	if !testenv.Update() {
		testenv.Long(t)
	}
	text, err := os.ReadFile(accuracyPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	blocks := simulations.FindAllStringSubmatch(page, -1)
	if len(blocks) < 5 {
		t.Fatalf("got %d blocks of commands, want 5 or more", len(blocks))
	}
	for _, b := range blocks {
		commands, rows := strings.Split(strings.TrimSpace(b[1]), "\n"), strings.SplitAfter(b[3], "\n")
		for i := range commands {
			runs, name := runsOf(t, commands[i])
			if name != "" {
				continue // it is a picture
			}
			perRow := rendering(t, b[2])
			for n, row := range perRow(runs) {
				j := i*len(perRow(runs)) + n
				if j >= len(rows)-1 {
					t.Fatalf("%s\ngot more results than the %d rows of the table", commands[i], len(rows)-1)
				}
				label, _, _ := strings.Cut(strings.TrimPrefix(rows[j], "| "), " | ")
				want := "| " + label + " | " + row + " |\n"
				if rows[j] != want && !testenv.Update() {
					t.Errorf("%s\ngot the row\n%swant\n%s(%s -timeout 1h writes it)", commands[i], rows[j], want, testenv.UpdateCommand(t))
				}
				rows[j] = want
			}
		}
		page = strings.Replace(page, b[0], strings.Replace(b[0], b[3], strings.Join(rows, ""), 1), 1)
	}
	if testenv.Update() {
		write(t, accuracyPage, page)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// accuracyRun is what a table shows of a run.
type accuracyRun struct {
	Scenario, Predict string
	Rules             []struct {
		Overshoot        struct{ Mean, P99 float64 }
		Lost             float64
		Innocents        int64
		InnocentsClosed  int64   `json:"innocents_closed"`
		InnocentsBlocked float64 `json:"innocents_blocked"`
		InnocentLongest  float64 `json:"innocent_closed_longest_seconds"`
		DecisionRate     float64 `json:"decisions_per_second"`
		Limiters         []accuracyLimiter
	}
}

// accuracyLimiter is a limiter of requests that last.
type accuracyLimiter struct {
	Overshoot struct{ Mean, P99 float64 }
	InTime    struct {
		N         int
		Mean, P99 float64
	} `json:"overshoot_in_time"`
	Used float64
}

// cell returns what a table shows of the limiter.
func (l *accuracyLimiter) cell() string {
	over := l.Overshoot
	if l.InTime.N > 0 {
		over.Mean, over.P99 = l.InTime.Mean, l.InTime.P99
	}
	return fmt.Sprintf("%.1f / %.0f / %.1f", 100*over.Mean, 100*over.P99, 100*l.Used)
}

// runsOf runs a command of the page. If it draws a picture, that is compared with the one beside the page, whose name is
// returned.
func runsOf(t *testing.T, command string) (runs []accuracyRun, picture string) {
	t.Helper()
	args := append(strings.Fields(command)[1:], "--output", "json")
	drawn := filepath.Join(t.TempDir(), "drawn.svg")
	for i := range args {
		if i > 0 && args[i-1] == "--svg" {
			picture, args[i] = filepath.Join("..", "..", args[i]), drawn
		}
	}
	out, err := runCommand(args...)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r accuracyRun
		if err := d.Decode(&r); err != nil || len(r.Rules) != 1 {
			t.Fatalf("%s: got %v and %d rules, want one rule", command, err, len(r.Rules))
		}
		runs = append(runs, r)
	}
	if picture == "" {
		return runs, ""
	}
	got, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if testenv.Update() {
		write(t, picture, string(got))
	}
	if want, err := os.ReadFile(picture); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes, and %v, want the %d bytes of %s (%s -timeout 1h writes it)", command, len(got), err, len(want), picture, testenv.UpdateCommand(t))
	}
	return runs, picture
}

// rendering returns how the rows of a table with this head are written: all that a command prints in one row, or each run in a row
// of its own.
func rendering(t *testing.T, head string) func([]accuracyRun) []string {
	t.Helper()
	percent := func(x float64) string { return fmt.Sprintf("%.2f", 100*x) }
	switch {
	case strings.Contains(head, "| off | early | lost | shares | lost |"):
		return func(runs []accuracyRun) []string {
			var cells []string
			for i := range runs {
				r := &runs[i].Rules[0]
				cells = append(cells, percent(r.Overshoot.Mean)+" / "+percent(r.Overshoot.P99))
				if runs[i].Predict != "off" {
					cells = append(cells, percent(r.Lost))
				}
			}
			return []string{strings.Join(cells, " | ")}
		}
	case strings.Contains(head, "| over | lost | innocents closed | their requests refused | longest | decisions/s |"):
		return func(runs []accuracyRun) (rows []string) {
			for i := range runs {
				r := &runs[i].Rules[0]
				rows = append(rows, fmt.Sprintf("%s | %s | %d of %d | %.4f | %.0f ms | %.2f", percent(r.Overshoot.Mean), percent(r.Lost),
					r.InnocentsClosed, r.Innocents, 100*r.InnocentsBlocked, 1000*r.InnocentLongest, r.DecisionRate))
			}
			return rows
		}
	case strings.Contains(head, "| floodgate |"):
		return func(runs []accuracyRun) []string {
			var cells []string
			for i := range runs[0].Rules[0].Limiters {
				cells = append(cells, runs[0].Rules[0].Limiters[i].cell())
			}
			return []string{strings.Join(cells, " | ")}
		}
	}
	t.Fatalf("got a table with the head\n%s, want one that this test can write", head)
	return nil
}
