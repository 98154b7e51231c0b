package notify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestAMistakeInTheSettingsKeepsThoseFromBefore, and says so until it is mended.
func TestAMistakeInTheSettingsKeepsThoseFromBefore(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		w.write("version: 1\nendpoints: [{name: ops}]\n")
		time.Sleep(11 * time.Second)
		id := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(id)
		if !w.n.Stats().Refused {
			t.Error("got no sign of the mistake")
		}
		w.write(settingsText)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if w.n.Stats().Refused {
			t.Error("got the mistake still reported")
		}
	})
}

// TestEndpointsComeAndGo while events are delivered, and each works by itself.
func TestEndpointsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := strings.ReplaceAll(strings.TrimPrefix(settingsText, "version: 1\nendpoints:\n"), "ops", "chat")
		sent := make(map[string]int)
		members := make(map[string]*world)
		var w *world
		w = newWorld(t, settingsText, func(c *Config) {
			c.Join = func(group string) (Membership, error) {
				m := &world{t: t, committed: map[int]int64{0: -1, 1: -1}}
				members[group] = m
				return m, nil
			}
			c.Sender = func(c webhook.Config) Sender { return &host{w, c.URL, sent} }
		})
		w.run()
		time.Sleep(time.Second)
		w.happens(0, "a")
		time.Sleep(time.Second)
		w.write(settingsText + second)
		time.Sleep(15 * time.Minute) // what was before is too old for a new endpoint
		w.happens(0, "b")
		time.Sleep(time.Second)
		w.write("version: 1\nendpoints:\n" + second)
		time.Sleep(11 * time.Second)
		w.happens(0, "c")
		time.Sleep(time.Second)
		w.tried()
		if got := fmt.Sprint(sent); got != "map[https://chat.example.com/:3 https://ops.example.com/:2]" {
			t.Errorf("got %s, want each what happened while it was there, and the new one what was shortly before", got)
		}
		if members["g.ops"] == nil || members["g.chat"] == nil || len(members) != 2 {
			t.Errorf("got groups %v, want one for each endpoint", members)
		}
		if s := w.n.Stats(); len(s.Endpoints) != 1 || s.Endpoints[0].Name != "chat" || s.Endpoints[0].Delivered != 3 {
			t.Errorf("got %+v, want what is there now", s)
		}
		w.stop()
	})
}

// host counts what one URL gets.
type host struct {
	*world

	url  string
	sent map[string]int
}

func (h *host) Send(ctx context.Context, m webhook.Message, at time.Time) webhook.Answer {
	h.mu.Lock()
	h.sent[h.url]++
	h.mu.Unlock()
	return h.world.Send(ctx, m, at)
}

// TestANewSecretSignsTheNextAttempt: files of secrets are read again too, and what waits is tried at once.
func TestANewSecretSignsTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var secrets []int
		w := newWorld(t, settingsText, nil)
		sender := w.n.c.Sender
		w.n.c.Sender = func(c webhook.Config) Sender {
			secrets = append(secrets, len(c.Secrets))
			return sender(c)
		}
		w.run()
		time.Sleep(time.Second)
		w.answer(func(string, webhook.Message) webhook.Answer { return status(401) })
		id := w.happens(0, "a")
		time.Sleep(7 * time.Minute)
		w.tried()
		file := filepath.Join(filepath.Dir(w.path), "ops.secret")
		if err := os.WriteFile(file, []byte(webhook.NewSecret()), 0o600); err != nil {
			t.Fatal(err)
		}
		w.write(strings.Replace(settingsText, "digest: off", "digest: off, secret_files: [ops.secret]", 1))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		w.answer(ok)
		if err := os.WriteFile(file, []byte(webhook.NewSecret()), 0o600); err != nil {
			t.Fatal(err)
		}
		w.tried()
		time.Sleep(11 * time.Second)
		if got := w.tried(); len(got) == 0 || got[len(got)-1] != id || fmt.Sprint(secrets) != "[0 1 1]" {
			t.Errorf("got %v tried and %v secrets, want it delivered by the newest", got, secrets)
		}
		w.stop()
	})
}

// TestAnEndpointThatNeverAnswersHoldsBackNoOther, and its events wait in the topic once there are too many.
func TestAnEndpointThatNeverAnswersHoldsBackNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := settingsText + strings.ReplaceAll(strings.TrimPrefix(settingsText, "version: 1\nendpoints:\n"), "ops", "silent")
		sent := make(map[string]int)
		var w *world
		w = newWorld(t, both, func(c *Config) {
			c.MaxPending = 20
			c.Join = func(string) (Membership, error) { return &world{t: t, committed: map[int]int64{0: -1, 1: -1}}, nil }
			c.Sender = func(c webhook.Config) Sender {
				if strings.Contains(c.URL, "silent") {
					return silent{}
				}
				return &host{w, c.URL, sent}
			}
		})
		w.run()
		time.Sleep(time.Second)
		for n := range 100 {
			w.happens(0, fmt.Sprint(n))
		}
		time.Sleep(time.Minute)
		w.tried()
		if s := w.n.Stats().Endpoints; s[0].Delivered != 100 || s[1].Delivered != 0 || s[1].Pending != 20 {
			t.Errorf("got %+v, want all delivered to one, and 20 waiting for the other", s)
		}
		w.stop()
	})
}

// silent never answers.
type silent struct{}

func (silent) Send(ctx context.Context, _ webhook.Message, _ time.Time) webhook.Answer {
	ctx, stop := context.WithTimeout(ctx, webhook.DefaultTimeout)
	defer stop()
	<-ctx.Done()
	return webhook.Answer{Err: ctx.Err()}
}

// TestAReachedQuotaIsToldOnce (openmeter 94): there, whoever wanted to know that a customer had reached a quota had to ask again and again. Here
// an endpoint that wants warnings gets each of them once, also if the topic has it twice, and nothing else.
func TestAReachedQuotaIsToldOnce(t *testing.T) {
	story(t, strings.Replace(settingsText, "digest: off", "digest: off, routes: [{types: [warned]}]", 1), func(w *world) {
		time.Sleep(time.Second)
		w.happens(0, "a") // a close
		warning := closed("a", 1)
		warning.Type = event.Warned
		warning.Identify()
		for range 2 {
			w.kafka.Append(topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: warning.Encode()})
		}
		time.Sleep(time.Second)
		w.wantTried(warning.ID)
		w.wantCommitted(0, 3)
	})
}
