package ingest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

const goldenLogs = "../../testdata/formats"

// golden returns the mapping that the golden log of a format is read with.
func golden(t testing.TB, format string) Mapping {
	t.Helper()
	if format == "json" {
		return Mapping{Callers: callers(t, "ip=ip"), Resource: "path", Status: "status"}
	}
	return Mapping{}
}

// read returns what a scanner makes of each line, one a line.
func read(s Scanner, kinds []string, log []byte) string {
	var out strings.Builder
	l := roomy()
	for line := range bytes.Lines(log) {
		if r := Scan(s, bytes.TrimSuffix(line, []byte("\n")), l); r != OK {
			fmt.Fprintf(&out, "- %v\n", r)
			continue
		}
		fmt.Fprint(&out, time.Unix(0, l.Time).UTC().Format(time.RFC3339Nano))
		for i, id := range l.IDs {
			fmt.Fprintf(&out, " %s:%s", kinds[i], id)
		}
		fmt.Fprintf(&out, " %q status %d cost %d", l.Resource, l.Status, l.Cost)
		if l.Blocked {
			fmt.Fprint(&out, " blocked")
		}
		if l.End != l.Time {
			fmt.Fprint(&out, " for ", time.Duration(l.End-l.Time))
		}
		if l.Arrived|l.Declared != 0 {
			fmt.Fprintf(&out, " arrived %d declared %d", l.Arrived, l.Declared)
		}
		fmt.Fprint(&out, []string{"", " arrival only", " response only"}[l.Part])
		fmt.Fprintln(&out)
	}
	return out.String()
}

// TestFormatsReadTheirDocumentation: the logs are the examples of each format's documentation and variations of them.
func TestFormatsReadTheirDocumentation(t *testing.T) {
	for _, name := range Formats()[1:] {
		log, err := os.ReadFile(filepath.Join(goldenLogs, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFormat(name, golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, filepath.Join(goldenLogs, name+".want"), read(f.Scanner(), f.Kinds(), log))
	}
}

// compareGolden compares a text with the file that holds it, or writes the file with -update.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if testenv.Update() {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s: got\n%swant\n%s%v(%s writes it)", path, got, want, err, testenv.UpdateCommand(t))
	}
}

// TestAutoFindsTheFormat: each golden log is read by auto as by its own format, but for those that nothing tells apart.
func TestAutoFindsTheFormat(t *testing.T) {
	for _, name := range Formats()[1:] {
		if slices.Contains([]string{"json", "csv", "tsv", "common", "cloudfront", "lighttpd"}, name) {
			continue
		}
		log, err := os.ReadFile(filepath.Join(goldenLogs, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFormat(FormatAuto, Mapping{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := NewFormat(name, Mapping{})
		if err != nil {
			t.Fatal(err)
		}
		s := f.Scanner()
		got, want := read(s, f.Kinds(), log), read(own.Scanner(), own.Kinds(), log)
		if found := s.(*auto).name; found != name || got != want {
			t.Errorf("%s: found %s, got\n%swant\n%s", name, found, got, want)
		}
	}
}

// TestAutoSticks: what a client sends can't change the format once it was found.
func TestAutoSticks(t *testing.T) {
	f, err := NewFormat(FormatAuto, Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	s, l := f.Scanner(), roomy()
	if got := Scan(s, []byte("nonsense"), l); !got.Rejected() {
		t.Fatal(got)
	}
	if got := Scan(s, []byte(benchCombined), l); got != OK {
		t.Fatal(got)
	}
	nginx := []byte(`{"time":1431857103,"remote_addr":"6.6.6.6"}`)
	if got := Scan(s, nginx, l); got != BadAddress {
		t.Errorf("got %v, want %v", got, BadAddress)
	}
	if got := Scan(f.Scanner(), nginx, l); got != OK || l.IDs[0] != "6.6.6.6" {
		t.Errorf("got %v, %q from a new scanner", got, l.IDs)
	}
}
