package daemon

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/analyzer/migrate"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
)

// migrated is what migrate prints.
type migrated struct {
	Partitions []migratedPartition `json:"partitions"`
	Again      bool                `json:"again"` // all had been migrated before
	Next       []string            `json:"next"`  // the commands to run
}

// migratedPartition is what was brought of a partition.
type migratedPartition struct {
	Partition int   `json:"partition"`
	Rows      int   `json:"rows"` // rules × callers
	Senders   int   `json:"senders"`
	Closures  int   `json:"closures"` // of enforcing rules, in force now
	Records   int   `json:"records"`  // control records
	From      int64 `json:"from"`     // offset in the log of serve, …
	To        int64 `json:"to"`       // … and in the topic of requests that it became
}

// report prints what was migrated, and what to run next.
func (m *move) report(r migrate.Report) error {
	all := migrated{Again: r.Again}
	for p, part := range r.Partitions {
		// What was migrated is still in the data of serve; the new directories belong to analyze and ingest from now on.
		f, _, err := analyzer.Inspect(filepath.Join(m.serve.data, strconv.Itoa(p)), m.host.rules, fold.Options{})
		if err != nil {
			return fmt.Errorf("read what was migrated: %w", err)
		}
		stats, closures := f.Stats(), f.View().Closures(time.Now().UnixNano())
		closures = slices.DeleteFunc(closures, func(c fold.Change) bool { return c.Rule.Mode != schemas.ModeEnforce })
		all.Partitions = append(all.Partitions, migratedPartition{p, stats.Rows, stats.Senders, len(closures), part.Records, part.From, part.Base})
	}
	var err error
	if all.Next, err = m.next(); err != nil {
		return err
	}
	if m.output.JSON {
		return json.NewEncoder(m.process.Stdout).Encode(all)
	}
	m.print(all)
	return nil
}

func (m *move) print(all migrated) {
	out := m.process.Stdout
	t := terminal.NewTable(out, "partition", "rows", "senders", "closures in force", "decided by hand")
	for _, p := range all.Partitions {
		t.AppendRow(terminal.Cells(p.Partition, p.Rows, p.Senders, p.Closures, p.Records))
	}
	t.Render()
	if all.Again {
		fmt.Fprint(out, "All of this had been migrated before; nothing was changed.\n")
	}
	fmt.Fprint(out, "Run these now:\n\n")
	for _, command := range all.Next {
		fmt.Fprintf(out, "    %s\n", command)
	}
	if m.host.asked != nil {
		fmt.Fprintf(out, "\nWhen the sidecar is ready, let the proxies ask it. Then stop this process, which answers them at %s until then.\n", m.host.asked.Address())
	}
}

// elsewhere is where the sidecar listens while migrate still answers at the address that proxies know.
const elsewhere = "127.0.0.1:9098"

// next returns the commands to run after migrate.
func (m *move) next() ([]string, error) {
	commands := []string{m.command(Analyze(m.process), "--rules", m.serve.rules, "--data", m.to)}
	side := Sidecar(m.process)
	var values []string
	if m.followed() {
		ingest, err := m.files()
		if err != nil {
			return nil, err
		}
		commands = append(commands, m.command(Ingest(m.process), append(ingest, "--data", m.positions)...))
	} else {
		values = append(values, "--record")
	}
	if m.flags.Changed("trusted") { // those of this host are trusted only by default
		values = append(append(values, "--trusted"), valuesOf(side.Flags().Lookup("trusted"))...)
	}
	if m.host.asked != nil {
		values = append(values, "--listen", elsewhere)
	}
	return append(commands, m.command(side, values...)), nil
}

// files returns the flags of ingest for the files that serve has followed.
func (m *move) files() (flags []string, err error) {
	p, err := tail.OpenPositions(m.source(), nil)
	if err != nil {
		return nil, err
	}
	for _, path := range p.Paths() {
		flags = append(flags, "--file", path)
	}
	return flags, p.Close()
}

// command returns the command line of a subcommand, with these flags. It also has the flags of migrate that mean the same there.
func (m *move) command(cmd *cobra.Command, more ...string) string {
	words := []string{"floodgate", cmd.Name()}
	m.flags.Visit(func(f *pflag.Flag) {
		if cmd.Flags().Lookup(f.Name) == nil || slices.Contains([]string{"data", "rules", "listen", "output"}, f.Name) {
			return
		}
		for _, value := range valuesOf(f) {
			if f.Value.Type() == "bool" {
				words = append(words, "--"+f.Name+"="+value)
				continue
			}
			words = append(words, "--"+f.Name, value)
		}
	})
	words = append(words, more...)
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// valuesOf returns the values of a flag, as somebody gives them.
func valuesOf(f *pflag.Flag) []string {
	list, many := f.Value.(pflag.SliceValue)
	switch {
	case many && f.Value.Type() == "stringSlice":
		return []string{strings.Join(list.GetSlice(), ",")}
	case many:
		return list.GetSlice()
	}
	return []string{strings.Trim(f.Value.String(), "[]")} // of --topic-name
}

// quoted returns a word as a shell reads it. What cannot be printed is replaced.
func quoted(word string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_=+,./:@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	word = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, word)
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// progress returns what shows a person how far the migration is, and what removes that again.
func (m *move) progress() (show func(partition int, step migrate.Step), done func()) {
	if !terminal.Interactive(m.process.Stderr) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(m.host.partitions*migrate.Steps, progressbar.OptionSetWriter(m.process.Stderr), progressbar.OptionClearOnFinish())
	return func(partition int, step migrate.Step) {
		at := m.host.partitions + partition*(migrate.Steps-1) + int(step) - 1 // all partitions count first
		if step == migrate.Counting {
			at = partition
		}
		bar.Describe(fmt.Sprintf("%s, partition %d", step, partition))
		_ = bar.Set(at) // the bar is not essential
	}, func() { _ = bar.Finish() }
}
