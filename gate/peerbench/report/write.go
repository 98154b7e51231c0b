package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for people at a terminal.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	for _, t := range r.tables() {
		if _, err := fmt.Fprint(w, "\n", t.aligned()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

// aligned returns the table with its columns below each other and its head in capitals.
func (t table) aligned() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, line := range t {
		text := strings.Join(line, "\t")
		if i == 0 {
			text = strings.ToUpper(text)
		}
		fmt.Fprintln(tw, text)
	}
	_ = tw.Flush() // into memory
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// WriteMarkdown writes the report for a page of results.
func (r *Report) WriteMarkdown(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	for _, t := range r.tables() {
		fmt.Fprintln(w)
		for i, line := range t {
			fmt.Fprintf(w, "| %s |\n", strings.Join(escaped(line), " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(line)))
			}
		}
	}
	fmt.Fprintln(w)
	for _, note := range r.notes() {
		fmt.Fprintf(w, "* %s\n", note)
	}
	return nil
}

// escaped returns the cells as Markdown has them.
func escaped(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return out
}

func (r *Report) tables() []table {
	var ts []table
	if len(r.Rows) > 0 {
		ts = append(ts, r.table())
	}
	for _, g := range r.Grids {
		ts = append(ts, g.table())
	}
	return ts
}

// notes returns the lines below the tables.
func (r *Report) notes() (notes []string) {
	for _, row := range r.Rows {
		if row.Note != "" {
			notes = append(notes, row.Case+": "+row.Note)
		}
	}
	for _, s := range r.Skipped {
		notes = append(notes, "not measured: "+s)
	}
	met, all := r.bars()
	return append(notes, fmt.Sprintf("%d of %d bars met", met, all))
}

// WriteJSON writes an object a line: for each row, for each line of each grid, and last a summary.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, row := range r.Rows {
		if err := enc.Encode(struct {
			Type    string   `json:"type"`
			Case    string   `json:"case"`
			Unit    string   `json:"unit"`
			Bar     Bar      `json:"bar"`
			Figures []Figure `json:"figures"`
			Met     bool     `json:"met"`
			Note    string   `json:"note,omitempty"`
		}{"row", row.Case, row.Unit, row.Bar, row.Figures, row.Met(), row.Note}); err != nil {
			return err
		}
	}
	for _, g := range r.Grids {
		for _, l := range g.Lines {
			if err := enc.Encode(struct {
				Type    string      `json:"type"`
				Grid    string      `json:"grid"`
				Unit    string      `json:"unit"`
				Subject string      `json:"subject"`
				Cases   []string    `json:"cases"`
				Values  [][]float64 `json:"values"`
			}{"line", g.Title, g.Unit, l.Subject, g.Cases, l.Values}); err != nil {
				return err
			}
		}
	}
	met, all := r.bars()
	return enc.Encode(struct {
		Type    string   `json:"type"`
		Machine string   `json:"machine"`
		Bars    int      `json:"bars"`
		Missed  int      `json:"missed"`
		Skipped []string `json:"skipped,omitempty"`
	}{"summary", r.Machine, all, all - met, r.Skipped})
}
