package apiv1

import (
	"encoding/json"
	"testing"
	"time"
)

// TestAnEventHasTheFieldsOfItsTypeOnly: a reader of events must not take an empty field for a value.
func TestAnEventHasTheFieldsOfItsTypeOnly(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Event{
		`{"id":"1","type":"gap","time":"2026-01-02T03:04:05Z","partition":0,"offset":9,"from":7,"to":9}`:                           {ID: "1", Type: "gap", Time: at, Offset: 9, From: 7, To: 9},
		`{"id":"2","type":"rules_changed","time":"2026-01-02T03:04:05Z","partition":0,"offset":0,"rules_from":"a","rules_to":"b"}`: {ID: "2", Type: "rules_changed", Time: at, RulesFrom: "a", RulesTo: "b"},
		`{"id":"3","type":"warned","time":"2026-01-02T03:04:05Z","partition":1,"offset":2,"rule":"r","share":0.5}`:                 {ID: "3", Type: "warned", Time: at, Partition: 1, Offset: 2, Rule: "r", Share: 0.5},
	} {
		if got, err := json.Marshal(&e); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
