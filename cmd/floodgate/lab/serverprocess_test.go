//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// beServer makes the test binary a server of this kind: its value is a key of serverKinds. The plan is in serverPlan.
const (
	beServer   = "FLOODGATE_TEST_BE_SERVER"
	serverPlan = "FLOODGATE_TEST_SERVER_PLAN"
)

// serverKinds are the kinds of server that tests run in processes of their own. Each has the gates, the Recorder and the link of any
// other; only its requests come from nowhere.
var serverKinds = map[string]func() server{
	"load":   func() server { return &loadServer{} },
	"steady": func() server { return &steadyServer{} },
}

// server is one of them.
type server interface {
	planned() any // a pointer to the plan, to be filled in
	prepare() (*kafkalink.Link, error)
	serve()                               // until the plan is done
	summary(*kafkalink.Link) (any, error) // of what it saw, when the link has ended
}

// startServer starts a server in a process of its own. What it prints has kind and name.
func startServer(t testing.TB, kind, name string, plan any) *processtest.Program {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], kind, name)
	cmd.Env = []string{beServer + "=" + kind, serverPlan + "=" + string(text)}
	return startCommand(t, cmd)
}

// summaryOf waits until a server has ended, and returns its summary.
func summaryOf[T any](p *processtest.Program, within time.Duration) (s T) {
	p.T.Helper()
	if err := json.Unmarshal([]byte(p.WaitFor(`^summary (.*)`, within)), &s); err != nil {
		p.T.Fatal(err)
	}
	return s
}

// runServer is the main function of a server of a kind. It prints ready, and at last its summary.
func runServer(kind, plan string) int {
	if err := runServerOf(kind, plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runServerOf(kind, plan string) error {
	create := serverKinds[kind]
	if create == nil {
		return fmt.Errorf("got kind of server %q, want one of serverKinds", kind)
	}
	s := create()
	if err := json.Unmarshal([]byte(plan), s.planned()); err != nil {
		return err
	}
	link, err := s.prepare()
	if err != nil {
		return err
	}
	defer link.Close()
	if err := link.Ready(context.Background()); err != nil {
		return err
	}
	fmt.Println("ready")
	s.serve()
	link.Close() // it sends what is recorded
	sum, err := s.summary(link)
	if err != nil {
		return err
	}
	text, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	fmt.Printf("summary %s\n", text)
	return nil
}

// linkTo returns the link of a server to topics with a suffix. backlog is how many entries may wait for Kafka; 0 is the default.
func linkTo(brokers, suffix string, set *gate.Set, rec *record.Recorder, backlog int) (*kafkalink.Link, error) {
	return kafkalink.Open(set, rec, kafkalink.Config{
		Brokers: strings.Split(brokers, ","), Backlog: backlog, Drain: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Topics: schemas.TopicNames{Requests: "floodgate.requests" + suffix, Decisions: "floodgate.decisions" + suffix},
	})
}
