package processtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Get returns the body of an HTTP answer and its status; 0 if there was none.
func Get(ctx context.Context, url string) (string, int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), 0
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error(), 0
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // what was read is compared
	return string(b), resp.StatusCode
}

// Ask returns the status of the answer to a proxy's question with a field of its header; 0 if there was none.
func Ask(ctx context.Context, url, field, value string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/auth_request", nil)
	if err != nil {
		return 0
	}
	r.Header.Set(field, value)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// MetricSum adds up a metric over all its labels.
func MetricSum(body, name string) (sum float64) {
	for line := range strings.Lines(body) {
		var v float64
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err == nil {
			sum += v
		}
	}
	return sum
}

// Eventually asks until ok, or fails the test.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(d); !ok(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// AwaitReady waits until the /readyz of a URL gives the status, and text.
func AwaitReady(t testing.TB, url string, status int, text string) {
	t.Helper()
	Eventually(t, 30*time.Second, fmt.Sprintf("readyz %d %s", status, text), func() bool {
		body, got := Get(t.Context(), url+"/readyz")
		return got == status && strings.Contains(body, text)
	})
}
