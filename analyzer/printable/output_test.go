package printable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestJSONSaysTheSame: readers get the string that was given; where JSON can't hold it, from its base64.
func TestJSONSaysTheSame(t *testing.T) {
	type line struct {
		ID     string `json:"id"`
		Base64 string `json:"id_base64,omitempty"`
	}
	seen := make(map[string]string)
	for _, s := range hostile() {
		var out bytes.Buffer
		if err := JSON(&out).Encode(line{s, Base64(s)}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if !safe(strings.TrimSuffix(text, "\n")) || strings.Count(text, "\n") != 1 {
			t.Errorf("%q: got %q", s, text)
		}
		var back line
		if err := json.Unmarshal(out.Bytes(), &back); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if back.Base64 != "" {
			id, err := base64.StdEncoding.DecodeString(back.Base64)
			if back.ID = string(id); err != nil || utf8.ValidString(s) {
				t.Errorf("%q: got %q, %v", s, back.Base64, err)
			}
		}
		if back.ID != s {
			t.Errorf("got %q back, want %q", back.ID, s)
		}
		if other, ok := seen[text]; ok && other != s {
			t.Errorf("%q and %q: got %s for both", s, other, text)
		}
		seen[text] = s
	}
}

// stringer is a value that a logger formats.
type stringer string

func (s stringer) String() string { return string(s) }

// TestALogLineIsOneLine, whatever it is about, and its values can be read from it again.
func TestALogLineIsOneLine(t *testing.T) {
	for _, s := range hostile() {
		var out bytes.Buffer
		l := slog.New(TextHandler(&out, slog.LevelInfo)).With("before", s).WithGroup("g")
		l.Warn("warning", "caller", s, "error", errors.New(s), "value", stringer(s), "list", []string{s}, "n", 7)
		line := out.String()
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, " g.n=7\n") || !safe(strings.TrimSuffix(line, "\n")) {
			t.Errorf("%q: got %q", s, line)
			continue
		}
		for _, name := range []string{"before=", "g.caller=", "g.error=", "g.value="} {
			_, rest, _ := strings.Cut(line, name)
			value, _, _ := strings.Cut(rest, " ")
			quoted, err := strconv.QuotedPrefix(rest)
			if err == nil {
				value, err = strconv.Unquote(quoted)
			} else {
				err = nil // it stands there as it is
			}
			if err != nil || value != s {
				t.Errorf("%q: got %s%q, %v", s, name, value, err)
			}
			if quoted == "" && strings.Contains(value, `\`) {
				t.Errorf("%q: got %s%s without quotes, which looks like an escape", s, name, value)
			}
		}
	}
}

func TestPlainLogLinesStay(t *testing.T) {
	var out bytes.Buffer
	slog.New(TextHandler(&out, slog.LevelInfo)).Info("owner of a partition", "state", "running", "next", 5, "who", "a b")
	if line := out.String(); !strings.Contains(line, ` level=INFO msg="owner of a partition" state=running next=5 who="a b"`+"\n") {
		t.Errorf("got %q", line)
	}
}

// TestAJSONLogLineIsOneObject, whatever strangers sent: it is valid, printable, and its values are theirs.
func TestAJSONLogLineIsOneObject(t *testing.T) {
	for _, s := range append(hostile(), "\"},{\"level\":\"ERROR", "\xff\xfe", "\u2028", "</script>") {
		var out bytes.Buffer
		l := slog.New(JSONHandler(&out, slog.LevelInfo)).With("before", s).WithGroup("g")
		l.Warn(s, "caller", s, "error", errors.New(s), "value", stringer(s), "list", []string{s}, s, "a key", "ratio", math.NaN(), "took", 1500*time.Millisecond)
		line := strings.TrimSuffix(out.String(), "\n")
		var got struct {
			Level, Msg, Before string
			G                  struct{ Caller, Error, Value, Took string }
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Contains(line, "\n") || !safe(line) {
			t.Errorf("%q: got %q, %v", s, line, err)
			continue
		}
		want := strings.ToValidUTF8(s, "\ufffd")
		if utf8.ValidString(s) && (got.Msg != want || got.Before != want || got.G.Caller != want || got.G.Error != want || got.G.Value != want) {
			t.Errorf("%q: got %+v", s, got)
		}
		if got.Level != "WARN" || got.G.Took != "1.5s" {
			t.Errorf("%q: got level %s and %s, want WARN and 1.5s", s, got.Level, got.G.Took)
		}
	}
}

// TestLevels: what is below is not written, in either format.
func TestLevels(t *testing.T) {
	for name, handler := range map[string]func(io.Writer, slog.Leveler) slog.Handler{"text": TextHandler, "json": JSONHandler} {
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			var out bytes.Buffer
			l := slog.New(handler(&out, level))
			l.Debug("a")
			l.Info("a")
			l.Warn("a")
			l.Error("a")
			if got, want := strings.Count(out.String(), "\n"), int(slog.LevelError-level)/4+1; got != want {
				t.Errorf("%s, %v: got %d lines, want %d", name, level, got, want)
			}
		}
	}
}

// TestAnErrorOfManyLinesIsOne: what is quoted in it can't look like an error beside it.
func TestAnErrorOfManyLinesIsOne(t *testing.T) {
	err := errors.Join(errors.New("open a\nfloodgate: all is well"), fmt.Errorf("got %q", "\x1b"))
	if got, want := Error(err), "open a\n    floodgate: all is well\n    got \"\\x1b\""; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range hostile() {
		for i, line := range strings.Split(Error(errors.New(s)), "\n") {
			if !safe(line) || i > 0 && !strings.HasPrefix(line, "    ") {
				t.Errorf("%q: got %q", s, line)
			}
		}
	}
}

// full is a disk or a pipe that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestFailedWritesAreErrors(t *testing.T) {
	if err := JSON(full{}).Encode("x"); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("JSON: got %v", err)
	}
	if n, err := (lineWriter{full{}}).Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("lines: got %d, %v", n, err)
	}
}
