package replay_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
)

func ExampleRun() {
	set, err := rules.Parse("rules.yaml", []byte(`
version: 1
rules:
  - {name: per-ip, callers: ip, limit: 2, window: 1m, algorithm: fixed}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	format, err := ingest.NewFormat("common", ingest.Mapping{})
	if err != nil {
		fmt.Println(err)
		return
	}
	log := `192.0.2.1 - - [14/Mar/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 10
192.0.2.1 - - [14/Mar/2026:09:00:09 +0000] "GET / HTTP/1.1" 200 10
192.0.2.7 - - [14/Mar/2026:09:00:05 +0000] "GET / HTTP/1.1" 200 10
192.0.2.1 - - [14/Mar/2026:09:00:07 +0000] "GET / HTTP/1.1" 200 10
`
	sum, err := replay.Run(context.Background(), replay.Config{
		Rules: set, Format: format, Reorder: replay.DefaultReorder,
		Inputs: []replay.Input{{Name: "access.log", Reader: strings.NewReader(log)}},
		OnClose: func(c replay.Close) error {
			fmt.Println(c.Caller, "closed at", c.CloseAt.Format("15:04:05"), "until", c.Until.Format("15:04:05"))
			return nil
		},
	})
	fmt.Println(sum.Requests, "requests,", sum.Blocked, "blocked,", err)
	// Output:
	// ip:192.0.2.1 closed at 09:00:07 until 09:01:00
	// 4 requests, 1 blocked, <nil>
}
