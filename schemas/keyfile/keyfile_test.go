package keyfile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas/keyfile"
)

var errKeys = errors.New("bad file of keys")

// levels is a format with a word between name and sum.
func levels() keyfile.Format[int] {
	return keyfile.Format[int]{Err: errKeys, Secret: "key", Words: "NAME LEVEL SHA256", Value: func(words []string) (int, error) {
		return strconv.Atoi(words[0])
	}}
}

func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

// TestWrongLinesAreNamed, and no error repeats what may be a secret.
func TestWrongLinesAreNamed(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"too few words", "# people\n\nanna 1\n", "line 3: got 2 words, want NAME LEVEL SHA256"},
		{"too many", "anna 1 " + sum("a") + " now", "line 1: got 4 words"},
		{"the word", "anna one " + sum("a"), "line 1: strconv.Atoi"},
		{"name of tricks", "anna\x1b[2J 1 " + sum("a"), "line 1: got name"},
		{"long name", strings.Repeat("a", keyfile.MaxName+1) + " 1 " + sum("a"), "line 1: got name"},
		{"the secret itself", "anna 1 secret", "line 1: got a sum of 6 characters"},
		{"twice", "anna 1 " + sum("a") + "\nbert 2 " + strings.ToUpper(sum("a")), "line 2: the key of anna has a line already"},
		{"too long", strings.Repeat("#", keyfile.MaxSize+1), "got more than 262144 bytes"},
		{"too many lines", lines(keyfile.MaxEntries + 1), "line 1001: got more than 1000 keys"},
	} {
		_, err := levels().Parse([]byte(test.text))
		if !errors.Is(err, errKeys) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	if list, err := levels().Parse([]byte(lines(keyfile.MaxEntries))); err != nil || len(list) != keyfile.MaxEntries || list[7].Value != 7 {
		t.Errorf("got %d entries and %v, want as many as there may be", len(list), err)
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n %d %s\n", i, sum(strconv.Itoa(i)))
	}
	return b.String()
}

// TestEntriesFollowTheirFile: after a second, and a file that cannot be used changes nothing and is logged once.
func TestEntriesFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	now := time.Unix(1000, 0)
	if _, err := keyfile.Open(path, levels(), now, logger); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: got %v", err)
	}
	for _, text := range []string{"# nobody", "anna"} {
		write(text)
		if _, err := keyfile.Open(path, levels(), now, logger); !errors.Is(err, errKeys) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want %v of %s", text, err, errKeys, path)
		}
	}
	write("anna 1 " + sum("annas"))
	f, err := keyfile.Open(path, levels(), now, logger)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after  time.Duration
		write  string // empty: nothing
		secret string
		want   string
	}{
		{0, "", "annas", "anna"},
		{0, "", "", ""},
		{0, "", "anna", ""},
		{0, "", sum("annas"), ""},
		{keyfile.Checked / 2, "bert 2 " + sum("berts"), "annas", "anna"},
		{keyfile.Checked, "", "annas", ""},
		{0, "", "berts", "bert"},
		{keyfile.Checked, "bert", "berts", "bert"},
		{keyfile.Checked, "", "berts", "bert"},
		{keyfile.Checked, "carl 3 " + sum("carls"), "carls", "carl"},
	} {
		if step.write != "" {
			write(step.write)
		}
		now = now.Add(step.after)
		if e, ok := f.Find(step.secret, now); e.Name != step.want || ok != (step.want != "") {
			t.Errorf("%+v: got %q and %t", step, e.Name, ok)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if e, ok := f.FindSum(sha256.Sum256([]byte("carls")), now.Add(keyfile.Checked)); !ok || e.Value != 3 {
		t.Errorf("without the file: got %+v and %t, want the entries before", e, ok)
	}
	for text, n := range map[string]int{"keys changed": 2, "keys not changed": 2, "annas": 0} {
		if got := strings.Count(log.String(), text); got != n {
			t.Errorf("got %q %d times in the log, want %d:\n%s", text, got, n, log.String())
		}
	}
}

// FuzzParse: whatever a file holds, what is accepted has a name and a sum.
func FuzzParse(f *testing.F) {
	f.Add([]byte("anna 1 " + sum("a") + "\n# x\r\nbert\t2 " + sum("b")))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := levels().Parse(text)
		if err != nil && !errors.Is(err, errKeys) {
			t.Errorf("got %v, want %v", err, errKeys)
		}
		for _, e := range list {
			if e.Name == "" || len(e.Name) > keyfile.MaxName || !strings.Contains(strings.ToLower(string(text)), hex.EncodeToString(e.Sum[:])) {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// TestManyAskAtATime: while the file changes, each request has the entries before or those after, and the file is read once a second at
// most.
func TestManyAskAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(name string) {
		t.Helper()
		next := path + ".new"
		if err := os.WriteFile(next, []byte(name+" 1 "+sum("annas")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write("anna")
	now := time.Unix(1000, 0)
	f, err := keyfile.Open(path, levels(), now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	write("bert")
	var asking sync.WaitGroup
	for i := range 8 {
		asking.Go(func() {
			for n := range 100 {
				at := now.Add(time.Duration(n) * keyfile.Checked / 10)
				if e, ok := f.Find("annas", at); !ok || e.Name != "anna" && e.Name != "bert" {
					t.Errorf("%d, %v: got %+v and %t", i, at, e, ok)
				}
			}
		})
	}
	asking.Wait()
	if e, _ := f.Find("annas", now.Add(time.Hour)); e.Name != "bert" {
		t.Errorf("got %q, want bert", e.Name)
	}
}

// TestAFormatWithoutWords has names and sums only.
func TestAFormatWithoutWords(t *testing.T) {
	format := keyfile.Format[struct{}]{Err: errKeys, Secret: "key", Words: "NAME SHA256"}
	list, err := format.Parse([]byte("anna " + sum("a")))
	if err != nil || len(list) != 1 || list[0].Name != "anna" || hex.EncodeToString(list[0].Sum[:]) != sum("a") {
		t.Errorf("got %+v and %v", list, err)
	}
	if _, err := format.Parse([]byte("anna read " + sum("a"))); err == nil {
		t.Error("with a word: got no error")
	}
}

// TestAMistakeRevokesWhatIsNotNamed: it adds nothing and raises nothing. Refused says what is wrong until it is not.
func TestAMistakeRevokesWhatIsNotNamed(t *testing.T) {
	format := levels()
	format.Lower = func(before, now int) int { return min(before, now) }
	format.Name = func(name string) error {
		if name == "dora" {
			return errors.New("not she")
		}
		return nil
	}
	line := func(name string, level int) string { return fmt.Sprintf("%s %d %s\n", name, level, sum(name)) }
	path := filepath.Join(t.TempDir(), "keys")
	now := time.Unix(1000, 0)
	var f *keyfile.File[int]
	for _, step := range []struct {
		text    string
		want    string // levels of anna, bert and carl; 0 is not there
		refused string
	}{
		{line("anna", 3) + line("bert", 2), "3 2 0", ""},
		{line("anna", 9) + "oops\n" + line("bert", 1) + line("carl", 1), "3 1 0", "line 2: got 1 words"},
		{line("carl", 1) + line("bert", 2) + line("dora", 1), "0 1 0", "line 3: not she"},
		{line("anna", 3) + line("bert", 2) + line("bert", 2), "0 1 0", "line 3: the key of bert has a line already"},
		{"oops", "0 1 0", "line 1: got 1 words"}, // no file of keys at all
		{lines(keyfile.MaxEntries + 1), "0 1 0", "got more than 1000 keys"},
		{line("anna", 3) + line("carl", 1), "3 0 1", ""},
		{"# nobody", "0 0 0", ""},
	} {
		if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f == nil {
			var err error
			if f, err = keyfile.Open(path, format, now, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			now = now.Add(keyfile.Checked)
			var got []string
			for _, name := range []string{"anna", "bert", "carl"} {
				e, _ := f.Find(name, now)
				got = append(got, strconv.Itoa(e.Value))
			}
			if why := f.Refused(now); strings.Join(got, " ") != step.want || (why == "") != (step.refused == "") || !strings.Contains(why, step.refused) {
				t.Errorf("%.60q: got %v and %q, want %s and %q", step.text, got, why, step.want, step.refused)
			}
		}
	}
}

// TestAFileThatIsAwayIsNoRevocation: what it named stays, since a file is away for a moment when it is replaced. Refused says so.
func TestAFileThatIsAwayIsNoRevocation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("anna 1 "+sum("annas")), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	f, err := keyfile.Open(path, levels(), now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(keyfile.Checked)
	if _, ok := f.Find("annas", now); !ok || !strings.Contains(f.Refused(now), "read keys") {
		t.Errorf("away: got %t and %q, want anna, and that the file cannot be read", ok, f.Refused(now))
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(keyfile.Checked)
	if _, ok := f.Find("annas", now); !ok || f.Refused(now) != "" {
		t.Errorf("back: got %t and %q, want anna and no reason", ok, f.Refused(now))
	}
}
