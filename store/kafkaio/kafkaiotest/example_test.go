package kafkaiotest_test

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// The answer to the first produce is lost, so that the appender sends its message again. The log holds it twice.
func ExampleKafka_SetFault() {
	k := kafkaiotest.New()
	k.Create(1, "requests")
	k.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op == kafkaiotest.OpProduce && c.N == 1 {
			return kafkaiotest.LostAnswer()
		}
		return kafkaiotest.Fault{}
	})
	a := kafkaio.NewAppender(k, kafkaio.AppenderConfig{Topic: "requests"})
	offset, err := a.Append(context.Background(), kafkaio.Message{Value: []byte("frame")})
	fmt.Println(offset, err, len(k.Records("requests", 0)))
	// Output: 1 <nil> 2
}

// Retention removes two records before the cursor comes to them, and the third is corrupt.
func ExampleKafka_Trim() {
	k := kafkaiotest.New()
	k.Create(1, "requests")
	for _, v := range []string{"a", "b", "c", "d"} {
		k.Append("requests", 0, kafkaio.Message{Value: []byte(v)})
	}
	k.Trim("requests", 0, 2)
	k.Corrupt("requests", 0, kafkaiotest.Corruption{From: 2, To: 2})
	c := kafkaio.NewCursor(k, kafkaio.CursorConfig{Topic: "requests"})
	for range 3 {
		b, err := c.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, s := range b.Skipped {
			fmt.Println(s.From, s.To, s.Reason)
		}
		for _, r := range b.Records {
			fmt.Printf("%d %s\n", r.Offset, r.Value)
		}
	}
	// Output:
	// 0 1 lost
	// 2 2 corrupt
	// 3 d
}
