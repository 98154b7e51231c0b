package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// line returns a line of a file of tokens, and the token.
func line(name string, role Role) (text, tok string) {
	tok, sum := NewToken()
	return name + " " + role.String() + " " + sum + "\n", tok
}

func TestANewTokenIsWhatAFileNamesByItsSum(t *testing.T) {
	a, sum := NewToken()
	b, other := NewToken()
	if a == b || sum == other {
		t.Errorf("got %s twice, want another token at each call", a)
	}
	want := sha256.Sum256([]byte(a))
	if len(a) != 43 || sum != hex.EncodeToString(want[:]) {
		t.Errorf("got %q with %s, want 43 characters and their SHA-256", a, sum)
	}
}

func TestWrongLinesOfTokensAreNamed(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for name, c := range map[string]struct{ text, want string }{
		"words":          {"# people\n\nanna read\n", "line 3: got 2 words, want NAME ROLE SHA256"},
		"more words":     {"anna read " + sum + " please\n", "line 1: got 4 words"},
		"role":           {"anna root " + sum, `line 1: got role "root", want read, operate or admin`},
		"empty name":     {"\x00 read " + sum, "line 1: got name"},
		"name of tricks": {"anna\x1b[2J read " + sum, "line 1: got name"},
		"long name":      {strings.Repeat("a", 65) + " read " + sum, "line 1: got name"},
		"short sum":      {"anna read abcd", "line 1: got a sum of 4 characters"},
		"twice":          {"anna read " + sum + "\nbert admin " + strings.ToUpper(sum), "line 2: the token of anna has a line already"},
		"too many":       {manyTokens(maxTokens + 1), "line 1001: got more than 1000 tokens"},
		"too long":       {strings.Repeat("#", maxTokenFile+1), "got more than"},
	} {
		_, err := tokenFormat().Parse([]byte(c.text))
		if !errors.Is(err, ErrTokens) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	// A person may paste the token where its sum belongs: no log may show it.
	tok, _ := NewToken()
	if _, err := tokenFormat().Parse([]byte("anna read " + tok)); err == nil || strings.Contains(err.Error(), tok) {
		t.Errorf("got %v, want an error that does not repeat the token", err)
	}
}

func manyTokens(n int) string {
	var b strings.Builder
	for range n {
		text, _ := line("n", roleRead)
		b.WriteString(text)
	}
	return b.String()
}

// TestTokensFollowTheirFile: within a second, and a file that cannot be used changes nothing.
func TestTokensFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	now := time.Unix(1000, 0)
	if _, err := openTokens(path, now, logger); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: got %v, want it to say so", err)
	}
	write("# nobody\n")
	if _, err := openTokens(path, now, logger); !errors.Is(err, ErrTokens) {
		t.Errorf("without a token: got %v, want %v", err, ErrTokens)
	}
	anna, annas := line("anna", roleRead)
	bert, berts := line("bert", roleAdmin)
	write(anna)
	f, err := openTokens(path, now, logger)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := f.find(annas, now); !ok || got.name != "anna" || got.role != roleRead {
		t.Errorf("got %v and %t, want anna, who reads", got, ok)
	}
	for _, wrong := range []string{"", "anna", berts, annas + "A", annas[:42], strings.Repeat("A", 43), "\x00"} {
		if got, ok := f.find(wrong, now); ok {
			t.Errorf("%q: got %v, want none", wrong, got)
		}
	}
	write(bert)
	if _, ok := f.find(annas, now.Add(tokensChecked/2)); !ok {
		t.Error("before a second is over: got none, want anna: the file is not read at each request")
	}
	now = now.Add(2 * tokensChecked)
	if _, ok := f.find(annas, now); ok {
		t.Error("got anna, whose line was taken away")
	}
	if got, ok := f.find(berts, now); !ok || got.role != roleAdmin {
		t.Errorf("got %v and %t, want bert, an admin", got, ok)
	}
	write("bert nobody")
	for range 3 {
		now = now.Add(2 * tokensChecked)
		if _, ok := f.find(berts, now); !ok {
			t.Error("with a broken file: got none, want the tokens before")
		}
	}
	if n := strings.Count(log.String(), "tokens not changed"); n != 1 {
		t.Errorf("got %d lines in the log, want one for each version of the file:\n%s", n, &log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * tokensChecked)
	if _, ok := f.find(berts, now); !ok {
		t.Error("without the file: got none, want the tokens before")
	}
	write("# all are revoked\n")
	now = now.Add(2 * tokensChecked)
	if _, ok := f.find(berts, now); ok {
		t.Error("got bert, want nobody: the file has no token any more")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte("anna read " + strings.Repeat("ab", 32) + "\n#\n"))
	f.Add([]byte("a admin 00\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := tokenFormat().Parse(text)
		if err != nil && list != nil {
			t.Errorf("got %d tokens with %v, want none", len(list), err)
		}
		for _, k := range list {
			if k.Name == "" || k.Value < roleRead || k.Value > roleAdmin {
				t.Errorf("got %v, want a name and a role", k)
			}
		}
	})
}
