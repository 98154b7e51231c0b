package processtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
)

// NotifySettings writes a file of settings for an endpoint ops on loopback, and returns its path and the secret. more is more
// fields of the endpoint.
func NotifySettings(t testing.TB, url, more string) (path, secret string) {
	t.Helper()
	dir := t.TempDir()
	secret = webhook.NewSecret()
	path = filepath.Join(dir, "notify.yaml")
	text := fmt.Sprintf("version: 1\nendpoints:\n  - name: ops\n    url: %q\n    secret_files: ops.secret\n    allow_addresses: 127.0.0.0/8\n%s", url, more)
	for file, text := range map[string]string{path: text, filepath.Join(dir, "ops.secret"): secret + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, secret
}

// Verified reads a request, and says whether its signature is right.
func Verified(r *http.Request, secret string) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	return body, w.Verify(body, r.Header)
}
