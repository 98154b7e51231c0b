//go:build lab

package lab

import (
	"net/http"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestTheFileThatNginxIncludes: one line in a server block refuses the noisy client, and only by floodgate's own answer. nginx's own 403
// stays what it is.
func TestTheFileThatNginxIncludes(t *testing.T) {
	testenv.Program(t, "nginx")
	b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32") // clients are 127.0.0.2 and 127.0.0.3
	echo := newEcho(t)
	b.Backend = echo.Server
	url := beginNginxByAFile(t, asks(b))
	if status, header := processtest.GetFrom(t, "127.0.0.3", "", url+"forbidden"); status != http.StatusForbidden {
		t.Errorf("got %d %v for what nginx forbids itself, want 403", status, header)
	}
	b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
	b.Program.Kill()
	passes(t, "killed", url, echo)
}

// TestTheFileThatNginxIncludesLetsPassBadAnswers, except for those that no HTTP server gives: nginx makes a 500 of them, and only a
// configuration that knows the backend (deploy/nginx) can go on from there.
func TestTheFileThatNginxIncludesLetsPassBadAnswers(t *testing.T) {
	testenv.Program(t, "nginx")
	impostor, echo := newImpostor(t), newEcho(t)
	impostor.answer.Store(new(answerWith("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	url := beginNginxByAFile(t, question{sidecar: impostor.address, backend: echo.Listener.Addr().String()})
	for _, bad := range badAnswers() {
		if slices.Contains([]string{"another protocol", "zeros", "status 599", "status 999"}, bad.name) {
			continue
		}
		impostor.answer.Store(&bad.answer)
		passes(t, bad.name, url, echo)
	}
}
