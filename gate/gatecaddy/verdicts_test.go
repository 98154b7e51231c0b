package gatecaddy_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// The shipped configuration answers testdata/verdicts.json as each other server does.
func TestTheVerdictsOfEachServer(t *testing.T) {
	t.Parallel()
	var table struct {
		Decisions []struct {
			Rule, Caller, Mode string
			Opens              bool
		}
		Requests []struct{ From, Claims, Key, Rule string }
	}
	text, err := os.ReadFile("../../testdata/verdicts.json")
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	k := newKafka(t, embedded.Options{})
	c := begin(t, shipped(t, k.address(), backend(t), filepath.Join(t.TempDir(), "access.log")))
	c.linked()
	for _, d := range table.Decisions {
		caller, err := schemas.ParseCaller(d.Caller)
		if err != nil {
			t.Fatal(err)
		}
		k.seq++
		now := time.Now()
		decision := schemas.Decision{
			Rule: d.Rule, Caller: caller, Mode: schemas.ModeEnforce, Epoch: 1, Seq: k.seq, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
			Evidence: schemas.Evidence{Limit: 10, Window: int64(time.Minute)},
		}
		if d.Mode == "shadow" {
			decision.Mode = schemas.ModeShadow
		}
		if d.Opens {
			decision.Until = decision.CloseAt
		}
		record, err := pb.AppendDecision(nil, &decision)
		if err != nil {
			t.Fatal(err)
		}
		k.publish(record)
	}
	k.close(time.Hour, key("last"))
	c.becomes("last", http.StatusTooManyRequests)
	for _, r := range table.Requests {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(r.From)}}).DialContext,
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for field, value := range map[string]string{"X-Forwarded-For": r.Claims, "X-Api-Key": r.Key} {
			if value != "" {
				request.Header.Set(field, value)
			}
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		status, policy := http.StatusOK, ""
		if r.Rule != "" {
			status, policy = http.StatusTooManyRequests, `"`+r.Rule+`";q=10;w=60`
		}
		if got := answer.Header.Get("RateLimit-Policy"); answer.StatusCode != status || got != policy {
			t.Errorf("%+v: got %d and %s, want %d and %s", r, answer.StatusCode, got, status, policy)
		}
	}
}
