package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// text returns a secret of n bytes as a file has it.
func text(n int) string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestSecretsAreWhsecAndBase64(t *testing.T) {
	for _, good := range []string{text(24), text(32), text(64), " " + text(24) + "\r\n", NewSecret()} {
		if _, err := ParseSecret(good); err != nil {
			t.Errorf("%q: got %v, want a secret", good, err)
		}
	}
	for _, bad := range []string{"", "whsec_", text(23), text(65), "whsek_" + text(32)[6:], text(32)[6:], text(32) + "!", text(32) + "\n" + text(32), "WHSEC_" + text(32)[6:]} {
		_, err := ParseSecret(bad)
		if !errors.Is(err, ErrSecret) {
			t.Errorf("%q: got %v, want ErrSecret", bad, err)
			continue
		}
		if key := strings.TrimPrefix(bad, secretPrefix); len(key) > 8 && strings.Contains(err.Error(), key[:8]) {
			t.Errorf("got %q, want no error that repeats a secret", err)
		}
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	s, err := ParseSecret(text(32))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, s); got != "a secret of 32 bytes" {
			t.Errorf("%s: got %q, want its length", verb, got)
		}
	}
}

// TestTheLibraryOfStandardWebhooksVerifies what is signed here, by each secret of a rotation, and nothing that was changed.
func TestTheLibraryOfStandardWebhooksVerifies(t *testing.T) {
	before, after := text(24), NewSecret()
	var secrets []Secret
	for _, s := range []string{before, after} {
		secret, err := ParseSecret(s)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	at := time.Now()
	for _, body := range []string{"", "{}", "a.b.c", strings.Repeat("\x00\xff", 1000)} {
		header := http.Header{}
		header.Set(standardwebhooks.HeaderWebhookID, "ev_1")
		header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
		header.Set(standardwebhooks.HeaderWebhookSignature, signatures(secrets, "ev_1", at, []byte(body)))
		for _, s := range []string{before, after} {
			w, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Verify([]byte(body), header); err != nil {
				t.Errorf("%.20q: got %v, want it verified", body, err)
			}
			if err := w.Verify([]byte(body+" "), header); err == nil {
				t.Errorf("%.20q: got a changed body verified", body)
			}
		}
		stranger, err := standardwebhooks.NewWebhook(NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		if stranger.Verify([]byte(body), header) == nil {
			t.Errorf("%.20q: got it verified by another secret", body)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{"", "whsec_", text(24), text(64), text(65), "whsec_AAAA\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		secret, err := ParseSecret(s)
		if err == nil && (len(secret.key) < minSecret || len(secret.key) > maxSecret) {
			t.Fatalf("%q: got a key of %d bytes", s, len(secret.key))
		}
	})
}
