package remote

import (
	"testing"
)

func TestHarmlessWords(t *testing.T) {
	for word, want := range map[string]bool{
		"key:noisy-1": true, "ip:203.0.113.9": true, "ip:2001:db8::": true, "--sort=b": true, "user:a@b.example": true,
		"": false, "a b": false, "$(reboot)": false, "`reboot`": false, "a;b": false, "a|b": false, "a&b": false, "~root": false, "a\nb": false,
		"a'b": false, `a"b`: false, `a\b`: false, "*": false, "a?": false, "[a]": false, "{a,b}": false, "<a": false, "#a": false, "!1": false, "é": false,
	} {
		if got := len(candidate(nil, word, "")) == 1; got != want {
			t.Errorf("%q: got %t, want %t", word, got, want)
		}
	}
}
