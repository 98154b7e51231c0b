package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// fakeActions answers GET /v1/actions from a list, the newest first, with pages of at most page records.
func fakeActions(t *testing.T, all []apiv1.Action, page int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		limit, _ := strconv.Atoi(q.Get("limit"))
		from, _ := strconv.Atoi(q.Get("cursor"))
		list := apiv1.ActionList{Actions: []apiv1.Action{}}
		for i := from; i < len(all); i++ {
			if state := q.Get("state"); state != "" && all[i].State != state {
				continue
			}
			if len(list.Actions) == min(limit, page) {
				list.Next = strconv.Itoa(i)
				break
			}
			list.Actions = append(list.Actions, all[i])
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestActionsShowsAllThatIsInForceFirst: a brake that was pulled a thousand records ago is the first thing that a person must see.
func TestActionsShowsAllThatIsInForceFirst(t *testing.T) {
	const records = 1000
	var all []apiv1.Action
	for n := range records {
		a := apiv1.Action{ID: fmt.Sprintf("id-%d", n), Offset: int64(records - n), Action: "reset", State: apiv1.StateDone, Author: "ana"}
		switch {
		case n == 10:
			a.State = apiv1.StateWaiting
		case n%100 == 50, n == records-1:
			a.State = apiv1.StateInForce
		}
		all = append(all, a)
	}
	server := fakeActions(t, all, 4)
	list := func(q actionsQuery) (ids []string) {
		t.Helper()
		var out bytes.Buffer
		api := clientFlags{config: client.Config{URL: server.URL}}
		api.output.JSON = true
		if err := q.run(context.Background(), command.Process{Stdout: &out}, &api); err != nil {
			t.Fatal(err)
		}
		var got apiv1.ActionList
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, a := range got.Actions {
			ids = append(ids, strings.TrimPrefix(a.ID, "id-"))
		}
		return ids
	}
	if got, want := strings.Join(list(actionsQuery{limit: 3}), " "), "10 50 150 250 350 450 550 650 750 850 950 999 0 1 2"; got != want {
		t.Errorf("got %s, want what is in force and then the newest: %s", got, want)
	}
	if got, want := strings.Join(list(actionsQuery{limit: 3, state: apiv1.StateDone}), " "), "0 1 2"; got != want {
		t.Errorf("of one state: got %s, want %s", got, want)
	}
}
