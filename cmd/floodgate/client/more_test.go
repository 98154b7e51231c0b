package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestWhatAnswersNotAtAll is said with the address, and without the path and the token.
func TestWhatAnswersNotAtAll(t *testing.T) {
	address := "http://" + testenv.FreeAddress(t)
	c, err := New(Config{URL: address, TokenFile: file(t, token)})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Get(t.Context(), "/v1/status", nil, nil)
	if !errors.Is(err, ErrAddress) || !strings.HasPrefix(err.Error(), "cannot ask the API at "+address+": dial tcp") || strings.Contains(err.Error(), token) {
		t.Errorf("got %v, want that nobody is at %s", err, address)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Get(over, "/v1/status", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	if _, err := c.Post(t.Context(), "/v1/open", func() {}, nil, nil); err == nil {
		t.Error("got no error of a body that is no JSON")
	}
	if err := c.Get(t.Context(), "/v1/status\x7f\n", url.Values{"a": {"\x00"}}, nil); err == nil {
		t.Error("got no error of a path that nobody serves")
	}
}

// TestATokenFile: a token is taken or without an end of line, and from no other kind of file.
func TestATokenFile(t *testing.T) {
	for text, ok := range map[string]bool{
		token: true, token + "\n": true, token + "\r\n": true, "  " + token + "  \n\n": true,
		"": false, token + "A": false, token[1:]: false, token + "\n" + token: false, strings.Repeat("A", 42) + "=": false, strings.Repeat("/", 43): false,
	} {
		_, err := New(Config{URL: "http://127.0.0.1", TokenFile: file(t, text)})
		if ok != (err == nil) {
			t.Errorf("%q: got %v, want taken %t", text, err, ok)
		}
	}
	if _, err := New(Config{URL: "http://127.0.0.1", TokenFile: t.TempDir()}); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v, want a directory refused", err)
	}
	if _, err := New(Config{URL: "http://127.0.0.1", TokenFile: os.DevNull}); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v, want an empty device refused", err)
	}
}

// TestALongLineBreaksAStream: a server cannot make the reader take any amount of memory.
func TestALongLineBreaksAStream(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: "+strings.Repeat("x", maxLine+1)+"\n\n")
	})
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Stream(ctx, nil, func(*apiv1.DecisionEvent) error {
		t.Error("got an event")
		return nil
	}, func(err error) {
		if err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("got %v, want that a line is too long", err)
		}
		cancel()
	}); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// TestAnEndlessEventBreaksAStream: lines may be short and an event endless, or its id one that no header can hold.
func TestAnEndlessEventBreaksAStream(t *testing.T) {
	for want, line := range map[string]string{
		"an event of more than": "data: " + strings.Repeat("x", 1000) + "\n", "the id of an event": "id: " + strings.Repeat("1", maxID+1) + "\n",
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 2 * maxLine / 1000 {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, "\n")
		})
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.Stream(ctx, nil, func(*apiv1.DecisionEvent) error {
			t.Errorf("%s: got an event", want)
			return nil
		}, func(err error) {
			if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			cancel()
		}); err != nil {
			t.Errorf("got %v, want a clean end", err)
		}
	}
}

// TestALongHeaderIsNoAnswer: a server cannot make the client take any amount of memory by it.
func TestALongHeaderIsNoAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
	})
	if err := c.Get(t.Context(), "/v1/status", nil, nil); !errors.Is(err, ErrAddress) {
		t.Errorf("got %v, want %v", err, ErrAddress)
	}
}

// TestPausesGrow between attempts, up to five seconds, and begin again after an event.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		attempts := &scripted{}
		c := &Client{base: &url.URL{Scheme: "http", Host: "a"}, stream: &http.Client{Transport: attempts}}
		began, pauses := time.Now(), []time.Duration{}
		err := c.Stream(ctx, nil, func(*apiv1.DecisionEvent) error { return nil }, func(error) {
			pauses = append(pauses, time.Since(began))
			if began = time.Now(); len(pauses) == 10 {
				cancel()
			}
		})
		if err != nil {
			t.Error(err)
		}
		const ms = time.Millisecond // the eighth attempt gets an event
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 5000 * ms, 5000 * ms}
		if !slices.Equal(pauses[:8], want) {
			t.Errorf("got pauses of %v, want %v", pauses[:8], want)
		}
		if pauses[9] >= pauses[7] {
			t.Errorf("got %v, want short pauses again after an event", pauses)
		}
	})
}

// scripted fails, but for its eighth attempt.
type scripted struct{ n int }

func (s *scripted) RoundTrip(*http.Request) (*http.Response, error) {
	if s.n++; s.n != 8 {
		return nil, errors.New("away")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("id: 1\ndata: {}\n\n"))}, nil
}

// TestAProblemIsPassedOn with all its parts; a later version may add some.
func TestAProblemIsPassedOn(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"type":"about:blank","title":"T","status":422,"detail":"d","pointer":"/until","got":"x","want":"a time","later":[1]}`)
	}))
	defer s.Close()
	c, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Post(t.Context(), "/v1/open", nil, nil, nil)
	p, ok := errors.AsType[*apiv1.Problem](err)
	if !ok || p.Status != 422 || p.Pointer != "/until" || p.Got != "x" || p.Want != "a time" {
		t.Errorf("got %v, want the problem", err)
	}
}
