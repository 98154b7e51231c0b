//go:build lab

package lab

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// loaded is what h2load says of a load.
type loaded struct{ rate, requests float64 } // requests a second; requests

var loadSaid = regexp.MustCompile(`([0-9.]+) req/s.*(?s:.*?)requests: ([0-9]+) total.*, ([0-9]+) succeeded`)

// h2load sends requests over 16 connections of HTTP/1.1. It fails the test if one is refused or has no answer.
func h2load(t testing.TB, args ...string) loaded {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Program(t, "h2load"), append([]string{"--h1", "-c", "16", "-t", "1"}, args...)...).CombinedOutput()
	said := loadSaid.FindStringSubmatch(string(out))
	if err != nil || said == nil || said[2] == "0" || said[2] != said[3] {
		t.Fatalf("h2load %v: got %v and\n%s", args, err, out)
	}
	var l loaded
	for text, into := range map[string]*float64{said[1]: &l.rate, said[3]: &l.requests} {
		if *into, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(fmt.Errorf("h2load: %w", err))
		}
	}
	return l
}
