package rules

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// hashing returns ids of kind key that are hashed with secrets of one letter each.
func hashing(t testing.TB, letters string) schemas.IDs {
	t.Helper()
	var secrets [][]byte
	for _, l := range []byte(letters) {
		secrets = append(secrets, bytes.Repeat([]byte{l}, schemas.MinIDSecret))
	}
	h, err := schemas.NewIDHasher([]string{"key", "key_route"}, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return schemas.IDs{Hash: h}
}

const clearKeys = `version: 1
rules:
  - name: per-key
    overrides: {sk_live_1: 7, "sk_live_2": unlimited} # sk_live_1 pays
    callers: key
    match: {resource: ["/a*", /b], status: [401, 5xx]}
    limit: 1_000
    window: 1m
    warn: [0.8, 1.0]
    count_blocked: false
    escalate: {factor: 1.5, max: 1h}
    close_for: 30s
  - {name: pool, weights: {sk_live_1: 4, sk_live_2: 0.5}, callers: key, capacity: 50000, window: 1s}
  - {name: per-tenant, callers: "tenant:a*", limit: 5, window: month, timezone: Europe/Berlin, overrides: {sk_live_3: 9}}
`

// Overrides are written in clear and hold for the callers that are hashed, under each secret. Neither the rules that go into
// Kafka nor an error shows whose they are.
func TestOverridesInClearAreHashed(t *testing.T) {
	for _, letters := range []string{"a", "ab", "ba"} {
		ids := hashing(t, letters)
		set, err := ParseWith("r", []byte(clearKeys), ids)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range letters {
			counted := hashing(t, string(l)).Hash.Kind("key")
			if limit, _ := set.Rules[0].LimitFor(counted.ID("sk_live_1")); limit != 7 {
				t.Errorf("%s, %c: got a limit of %d, want 7", letters, l, limit)
			}
			if weight := set.Pools()[0].Pool.Weight(counted.ID("sk_live_1")); weight != 4000 {
				t.Errorf("%s, %c: got weight %d, want 4000", letters, l, weight)
			}
			if _, unlimited := set.Rules[0].LimitFor(counted.ID("sk_live_2")); !unlimited {
				t.Errorf("%s, %c: got a limit, want none", letters, l)
			}
		}
		if limit, _ := set.Rules[0].LimitFor("sk_live_1"); limit != 1000 {
			t.Errorf("%s: got a limit of %d for who is not hashed, want the rule's", letters, limit)
		}
		if limit, _ := set.Rules[2].LimitFor("sk_live_3"); limit != 9 {
			t.Errorf("%s: got a limit of %d for another kind, want its override", letters, limit)
		}
		text := string(set.Text())
		if strings.Contains(text, "sk_live_1") || strings.Contains(text, "sk_live_2") || !strings.Contains(text, "sk_live_3") {
			t.Errorf("%s: got the text\n%s\nwant no key that is hashed", letters, text)
		}
		again, err := Parse("state", set.Text())
		if err != nil || again.ID() != set.ID() {
			t.Errorf("%s: got %v, want who reads the text without the secret to get the same rules", letters, err)
		}
	}
	a, errA := ParseWith("r", []byte(clearKeys), hashing(t, "a"))
	shown, errB := ParseWith("r", a.Text(), hashing(t, "a"))
	if errA != nil || errB != nil || a.ID() != shown.ID() {
		t.Errorf("got %v and %v, want overrides that are written as they are shown to be the same", errA, errB)
	}
	if plain, err := Parse("r", []byte(clearKeys)); err != nil || plain.ID() == a.ID() || string(plain.Text()) != clearKeys {
		t.Errorf("got %v, want other rules without a secret, and their text as it is", err)
	}
}

func TestWhatAHashCannotDoIsAnError(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: 1, ", i)
		}
		return b.String()
	}
	for _, test := range []struct{ rule, letters, want string }{
		{"callers: 'key:free-*'", "a", "r:2:28: callers: got a pattern of ids, want only key: ids of this kind are hashed with a secret (--hash-kinds), and a pattern sees the hash"},
		{"callers: 'key:sk_live_1'", "a", "r:2:28: callers: got a pattern of ids, want only key: ids of this kind are hashed with a secret (--hash-kinds), and a pattern sees the hash"},
		{"callers: 'key:*'", "a", ""},
		{"callers: 'key:hmac:*'", "", ""},
		{"callers: key, overrides: {sk_live_1: 0}", "a", "r:2:56: overrides: got 0 for \"" + hashing(t, "a").Hash.Kind("key").ID("sk_live_1") + "\", want 1 to 100000000000000000, or unlimited"},
		{"callers: key, overrides: {sk_live_1: 1, 'sk_live_1': 2}", "a", "r:2:59: overrides: \"" + hashing(t, "a").Hash.Kind("key").ID("sk_live_1") + "\" given twice"},
		{"callers: key, overrides: {" + many(5000) + "}", "ab", ""},
		{"callers: key, overrides: {" + many(5001) + "}", "ab", "r:2:44: overrides: got 5001, want at most 5000"},
		{"callers: key, overrides: {" + many(5001) + "}", "a", ""},
	} {
		text := "version: 1\nrules: [{name: r, " + test.rule + ", limit: 5, window: 1m}]\n"
		var ids schemas.IDs
		if test.letters != "" {
			ids = hashing(t, test.letters)
		}
		_, err := ParseWith("r", []byte(text), ids)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%.60s: got %v, want none", test.rule, err)
		case test.want != "" && (err == nil || err.Error() != test.want):
			t.Errorf("%.60s: got %v, want %s", test.rule, err, test.want)
		}
	}
}

// A file that changes while the analyzer runs is read with the same secrets.
func TestAWatcherHashesOverridesToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(clearKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var got *Set
	w := NewWatcher(path, 1, func(s *Set, _ error) { got = s; stop() })
	w.IDs = hashing(t, "a")
	if err := w.Run(ctx); err != nil || got == nil {
		t.Fatalf("got %v and %v, want the rules", got, err)
	}
	want, err := LoadWith(path, hashing(t, "a"))
	if err != nil || got.ID() != want.ID() || bytes.Contains(got.Text(), []byte("sk_live_1")) {
		t.Errorf("got %v and the text %q, want the overrides hashed", err, got.Text())
	}
}

// FuzzHashedText: whatever the rules say, the text in which their overrides are hashed says the same, and whoever has no
// secret reads the same rules in it.
func FuzzHashedText(f *testing.F) {
	f.Add(clearKeys)
	f.Add("version: 1\nrules: []\n")
	f.Add("version: 1\nrules:\n  - {name: r, callers: key_route, limit: 1, window: 1m, overrides: {\"a\\u2028|<b>&\": 1, \"\\x01\": 2, 'x: y': 3}}\n")
	f.Add("version: 1\nrules:\n  - {hold: {resources: {overrides: 1, '\"': 2}, estimate: 1_0, margin: 0.5}, callers: key, charge: arrival, measure: cost, limit: 1, window: 1m, name: r}\n")
	f.Add("version: 1\nrules:\n  - {overrides: {hmac:00000000000000000000000000000000: 1, 12: 3, true: 4}, callers: key, limit: 1, window: 1m, name: r}\n")
	f.Add("version: 1\nrules:\n  - {weights: {sk_1: 0.25, 'x: y': 1e1}, protect: 00.10%, callers: key, capacity: 1_0, window: 1.5s, name: r}\n")
	f.Fuzz(func(t *testing.T, text string) {
		ids := hashing(t, "ab")
		set, err := ParseWith("r", []byte(text), ids)
		if err != nil {
			return
		}
		again, err := Parse("r", set.Text())
		if err != nil || again.ID() != set.ID() || len(again.Rules) != len(set.Rules) {
			t.Errorf("%q: got %v of the text %q, want the same rules", text, err, set.Text())
		}
	})
}
