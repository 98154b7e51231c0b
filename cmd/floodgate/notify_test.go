package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

func TestNotifyTestSendsOneMessage(t *testing.T) {
	t.Parallel()
	var secret string
	requests := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := processtest.Verified(r, secret)
		if err != nil {
			t.Errorf("got %v, want it verified", err)
		}
		requests <- string(body)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "thanks\x1b[31m")
	}))
	defer server.Close()
	path, s := processtest.NotifySettings(t, server.URL, "")
	secret = s
	out, err := runCommand("notify", "test", "ops", "--config", path)
	if err != nil || !strings.Contains(out, "answered  202 after ") || !strings.Contains(out, `body      thanks\x1b[31m`) {
		t.Errorf("got %v and\n%s", err, out)
	}
	var body struct {
		Type string
		Data struct{ ID, Type, Rule string }
	}
	if err := json.Unmarshal([]byte(<-requests), &body); err != nil || body.Type != "test" || body.Data.Type != "test" || !strings.Contains(out, body.Data.ID) {
		t.Errorf("got %+v, %v, want a test with the id that was printed", body, err)
	}
}

// TestNotifyTestSaysWhatIsWrong with an endpoint, and its exit code is 1; a name that there is not is a mistake of the user.
func TestNotifyTestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such hook", http.StatusNotFound) }))
	defer refuse.Close()
	moved := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/", http.StatusFound))
	defer moved.Close()
	for url, want := range map[string]string{ // a message that did not arrive was not sent
		refuse.URL:            "notify test ops: send: got status 404, want 2xx",
		moved.URL:             "notify test ops: send: got status 302, want 2xx; redirects are not followed",
		"http://127.0.0.1:1/": "connection refused",
		"http://localhost:1/": "connection refused",
	} {
		path, _ := processtest.NotifySettings(t, url, "")
		text, code := shown("notify", "test", "ops", "--config", path)
		if code != 1 || !strings.Contains(text, want) || strings.Contains(text, "sent ") {
			t.Errorf("%s: got %d and %s, want %q", url, code, text, want)
		}
	}
	path, _ := processtest.NotifySettings(t, refuse.URL, "")
	if text, code := shown("notify", "test", "chat", "--config", path); code != 2 || !strings.Contains(text, `got "chat", want one of the endpoints ops`) {
		t.Errorf("got %d and %s, want the names that there are", code, text)
	}
}

// TestNotifyChecksAFile: what is understood, warnings, and mistakes with line and column.
func TestNotifyChecksAFile(t *testing.T) {
	t.Parallel()
	const cases = "../../testdata/notify/"
	for name, want := range map[string]string{
		"accepts_everything":   "ops: all events, signed by two secrets\nchat: the events of its routes, not signed\naudit-1: all events, signed\n",
		"accepts_clear":        "warning: " + cases + "accepts_clear.yaml:4:22: url: messages to ops.example.com are not encrypted: want https\nops: all events, signed\n",
		"rejects_url_metadata": "rejects_url_metadata.yaml:4:22: url: address is not public: got 169.254.169.254",
		"rejects_none":         "no such file",
	} {
		text, code := shown("notify", "check", cases+name+".yaml")
		if good := strings.HasPrefix(name, "accepts_"); good != (code == 0) || !strings.Contains(text, want) {
			t.Errorf("%s: got %d and\n%s\nwant\n%s", name, code, text, want)
		}
	}
}

func TestNotifySecretsAreNew(t *testing.T) {
	t.Parallel()
	first, err := runCommand("notify", "secret")
	if err != nil {
		t.Fatal(err)
	}
	second, _ := runCommand("notify", "secret")
	if _, err := webhook.ParseSecret(first); err != nil || first == second {
		t.Errorf("got %v, and %t the same, want new secrets", err, first == second)
	}
}

// TestNotifySaysHowItIsCalled: mistakes of the user have exit code 2, and mistakes in the file 1.
func TestNotifySaysHowItIsCalled(t *testing.T) {
	t.Parallel()
	bad := filepath.Join("..", "..", "testdata", "notify", "rejects_name_twice.yaml")
	for line, want := range map[string]string{
		"notify":                       "2 --brokers: got none",
		"notify --brokers 127.0.0.1:1": "2 --config: got none, want a file of settings",
		"notify test ops":              "2 --config: got none, want a file of settings",
		"notify send":                  `2 notify: got ["send"], want no arguments, check FILE, secret, or test ENDPOINT`,
		"notify check":                 "2 notify check: got [], want one file",
		"notify --brokers 127.0.0.1:1 --config " + bad:            "1 name: ops is taken by the endpoint in line",
		"notify --brokers 127.0.0.1:1 --session-timeout 1s":       "2 --session-timeout: got 1s",
		"notify --brokers 127.0.0.1:1 --config " + os.DevNull:     "1 want a regular file",
		"notify --brokers 127.0.0.1:1 --config /none/notify.yaml": "1 read settings: open /none/notify.yaml: no such file",
		"notify --brokers 127.0.0.1 --config none":                "2 --brokers: got \"127.0.0.1\", want host:port",
		"notify --brokers 127.0.0.1:1 --config none --partitions": "2 unknown flag: --partitions",
	} {
		code, want, _ := strings.Cut(want, " ")
		if text, got := shown(strings.Fields(line)...); fmt.Sprint(got) != code || !strings.Contains(text, want) {
			t.Errorf("%s: got %d and %s, want %s and %q", line, got, text, code, want)
		}
	}
}

// TestNotifyIsReadyOnceItHasJoined, and says before what it waits for.
func TestNotifyIsReadyOnceItHasJoined(t *testing.T) {
	t.Parallel()
	path, _ := processtest.NotifySettings(t, "https://ops.example.com/", "")
	away := begin(t, "notify", "--brokers", "127.0.0.1:1", "--config", path, "--listen", "127.0.0.1:0")
	url := "http://" + away.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	if text, code := processtest.Get(t.Context(), url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "waiting for the group of endpoint ops") {
		t.Errorf("got %d and %s, want what it waits for", code, text)
	}
	if text, code := processtest.Get(t.Context(), url+"/healthz"); code != http.StatusOK {
		t.Errorf("got %d and %s, want it alive", code, text)
	}
	if _, err := away.End(); err != nil {
		t.Errorf("got %v, want a stop without an error", err)
	}
}
