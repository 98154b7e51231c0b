package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const page = "# title\n\nbefore\n\n" + Begin + "\nold\n" + End + "\n\nafter\n"

func TestRewriteReplacesTheBlockAndNothingElse(t *testing.T) {
	got, err := sample().Rewrite([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "# title\n\nbefore\n\n"+Begin+"\n\n") || !strings.HasSuffix(text, "\n\n"+End+"\n\nafter\n") {
		t.Errorf("got %q, want all outside the block as it was", text)
	}
	for _, want := range []string{"`" + Command + "`", "2 × some processor.", "| a miss | ≤ 10 ns, ≥ 5 × | 4 / 5 ns |", "* 2 of 5 bars met"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("got %q, want it to say %q once", text, want)
		}
	}
	if strings.Contains(text, "old") {
		t.Error("got the old block, want it replaced")
	}
}

func TestRewriteRefusesAPageWithoutOneBlock(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no end": Begin, "no begin": End, "the wrong way round": End + Begin,
		"two begins": Begin + Begin + End, "two ends": Begin + End + End, "two blocks": Begin + End + Begin + End,
	} {
		if got, err := sample().Rewrite([]byte(text)); !errors.Is(err, ErrNoBlock) || got != nil {
			t.Errorf("%s: got %q and error %v, want %v", name, got, err, ErrNoBlock)
		}
	}
}

func TestUpdateKeepsTheFileIfItCannot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := sample().Update(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, fs.ErrNotExist)
	}
	if err := os.WriteFile(path, []byte("no block"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := sample().Update(path); !errors.Is(err, ErrNoBlock) || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want %v and the path", err, ErrNoBlock)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "no block" {
		t.Errorf("got %q, %v, want the file as it was", got, err)
	}
}

// The page of the repository must have the place that -update writes to.
func TestTheRepositorysPageHasABlock(t *testing.T) {
	text, err := os.ReadFile("../RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sample().Rewrite(text); err != nil {
		t.Error(err)
	}
}

// FuzzRewrite: whatever is outside of the block stays, to the byte, and a page without one block is refused.
func FuzzRewrite(f *testing.F) {
	f.Add("# title\n", "old", "\nafter\n")
	f.Add("", "", "")
	f.Add(Begin, "x", End)
	f.Add("\xff\x00", "| a |\n|---|", "\r\n")
	f.Fuzz(func(t *testing.T, before, old, after string) {
		text := before + Begin + old + End + after
		got, err := sample().Rewrite([]byte(text))
		one := strings.Count(text, Begin) == 1 && strings.Count(text, End) == 1
		if one != (err == nil) {
			t.Fatalf("%q: got error %v, want one only without one block", text, err)
		}
		if err == nil && (!strings.HasPrefix(string(got), before+Begin) || !strings.HasSuffix(string(got), End+after)) {
			t.Errorf("%q: got %q, want all outside the block as it was", text, got)
		}
	})
}
