//go:build lab

package lab

import (
	"slices"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

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
