package kafkalink_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// A server that asks its gate and reports its requests. The broker is an embedded one here.
func Example() {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	brokers := []string{broker.Addr()}
	ctx := context.Background()
	client := kafkaio.New(kafkaio.Config{Brokers: brokers})
	defer client.Close()
	if _, err := client.EnsureTopics(ctx, kafkaio.Specs(schemas.DefaultTopicNames(), 4)...); err != nil {
		fmt.Println(err)
		return
	}

	set := gate.New(gate.Options{})
	keys, rec := set.Gate("key"), record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: brokers, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = link.Ready(ctx) // only this example waits: a server need not

	for range 3 { // each request:
		var c gate.Callers
		c.Add(keys, "abc")
		v := set.Check(&c)
		rec.Record(&c, v, record.Request{Resource: "/v1/search"})
		fmt.Println("closed:", v.Closed)
	}

	link.Close() // after the server has answered its last request: the link sends the rest
	fmt.Println("acknowledged:", rec.Stats().Acked)
	// Output:
	// closed: false
	// closed: false
	// closed: false
	// acknowledged: 3
}
