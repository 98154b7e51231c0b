//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// compareAnswers compares what the API and the command line say, once they say as much as was done.
func (a *actor) compareAnswers() {
	a.T.Helper()
	for name, ask := range map[string]func() ([]apiv1.Event, error){"API": a.inAPI, "command line": a.inCommand} {
		var got []apiv1.Event
		processtest.Eventually(a.T, time.Minute, name+": an event for each act", func() bool {
			var err error
			got, err = ask()
			return err == nil && len(a.decisions(name, got)) >= len(a.want)
		})
		a.compare(name, got)
	}
}

// inCommand returns what floodgate decisions --since prints.
func (a *actor) inCommand() (all []apiv1.Event, err error) {
	out, err := a.as("bob", "decisions", "--since", a.began.UTC().Format(time.RFC3339Nano), "--output", "json")
	for dec := json.NewDecoder(strings.NewReader(out)); err == nil; {
		var e apiv1.Event
		if err = dec.Decode(&e); err == nil && e.Type != "summary" {
			all = append(all, e)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// inAPI returns what GET /v1/decisions?since= answers, in pages of a few events.
func (a *actor) inAPI() (all []apiv1.Event, err error) {
	token, err := os.ReadFile(a.tokens["alice"])
	if err != nil {
		return nil, err
	}
	query := url.Values{"since": {a.began.UTC().Format(time.RFC3339Nano)}, "limit": {"3"}}
	for {
		var page apiv1.DecisionList
		if err := askAs(a.T.Context(), strings.TrimSpace(string(token)), a.api+"/v1/decisions?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Events...); page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

// askAs gets an answer of an API with a token.
func askAs(ctx context.Context, token, from string, answer any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	return errors.Join(err, json.Unmarshal(b, answer))
}

// inTopic returns what the topic of events holds, with copies.
func (a *actor) inTopic() (all []apiv1.Event) {
	a.T.Helper()
	ids := make(map[string]bool)
	for p := range decidedPartitions {
		cursor := kafkaio.NewCursor(a.Client, kafkaio.CursorConfig{Topic: "floodgate.events", Partition: p, Offset: kafkaio.Earliest, MaxBytes: 4 << 20})
		_, end, err := cursor.Range(a.T.Context())
		if err == nil {
			err = cursor.Scan(a.T.Context(), end, func(b *kafkaio.Batch) error {
				for i := range b.Records {
					e, err := event.Decode(b.Records[i].Value)
					if err != nil {
						return err
					}
					ids[e.ID] = true
					caller := event.CallerOf(e.Caller.Caller())
					all = append(all, apiv1.Event{
						ID: e.ID, Type: string(e.Type), Partition: e.Partition, Caller: &caller, Rule: e.Rule, Until: e.Until, Limit: e.Limit, Action: e.Action,
						Author: e.Author, Reason: e.Reason, Record: e.Record, Target: e.Target, RulesFrom: e.RulesFrom, RulesTo: e.RulesTo,
					})
				}
				return nil
			})
		}
		if err != nil {
			a.T.Fatalf("floodgate.events/%d: %v", p, err)
		}
	}
	a.T.Logf("topic: %d events, and %d copies", len(ids), len(all)-len(ids))
	return all
}

// decisions returns what the events say that people and the file of rules have made. Equal ids are copies.
func (a *actor) decisions(where string, events []apiv1.Event) (list []decided) {
	a.T.Helper()
	said := make(map[string]decided)
	for i := range events {
		e := &events[i]
		if e.Type != "control" && e.Type != "rules_changed" {
			continue
		}
		d := decided{
			of: e.Type, action: e.Action, rule: e.Rule, author: e.Author, reason: e.Reason, record: e.Record, target: e.Target, limit: e.Limit,
			partition: e.Partition, rulesFrom: e.RulesFrom, rules: e.RulesTo,
		}
		if e.Caller != nil && e.Caller.Kind != "" {
			d.caller = e.Caller.Caller().String()
		}
		if !e.Until.IsZero() {
			d.until = e.Until.UnixNano()
		}
		if before, is := said[e.ID]; !is {
			list = append(list, d)
		} else if before != d {
			a.T.Errorf("%s: got two events with id %s: %+v and %+v", where, e.ID, before, d)
		}
		said[e.ID] = d
	}
	return list
}

// compare wants each act once, and no other.
func (a *actor) compare(where string, events []apiv1.Event) {
	a.T.Helper()
	got := a.decisions(where, events)
	for _, d := range a.want {
		if i := slices.Index(got, d); i >= 0 {
			got = slices.Delete(got, i, i+1)
		} else {
			a.T.Errorf("%s: missing: %+v", where, d)
		}
	}
	for _, d := range got {
		a.T.Errorf("%s: foreign: %+v", where, d)
	}
}
