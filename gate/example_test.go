package gate_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

func closeFor(rule, caller string, d time.Duration) schemas.Decision {
	c, err := schemas.ParseCaller(caller)
	if err != nil {
		panic(err)
	}
	now := time.Now()
	return schemas.Decision{
		Rule: rule, Caller: c, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano(),
	}
}

func ExampleGate_Closed() {
	set := gate.New(gate.Options{})
	keys := set.Gate("key") // once, not for every request
	fmt.Println(keys.Closed("abc"))
	set.Apply([]schemas.Decision{closeFor("per-key", "key:abc", time.Minute)})
	fmt.Println(keys.Closed("abc"), keys.Closed("def"))
	// Output:
	// false
	// true false
}

// One request of several callers: all are hashed once, for the gates and for the recorder.
func ExampleSet_Check() {
	set := gate.New(gate.Options{})
	ips, keys := set.Gate("ip"), set.Gate("key")
	set.Apply([]schemas.Decision{closeFor("per-ip", "ip:203.0.113.9", time.Minute)})

	var c gate.Callers
	c.AddAddr(ips, netip.MustParseAddr("::ffff:203.0.113.9"))
	c.Add(keys, "abc")
	v := set.Check(&c)
	fmt.Println(v.Closed, v.Caller, v.Rule, v.ClosedFor(0), v.ClosedFor(1))
	// Output: true ip:203.0.113.9 per-ip true false
}

// The kill switch.
func ExampleSet_SetMode() {
	set := gate.New(gate.Options{})
	set.Apply([]schemas.Decision{closeFor("per-key", "key:abc", time.Minute)})
	for _, m := range []gate.Mode{gate.Enforce, gate.Shadow, gate.Off} {
		set.SetMode(m)
		fmt.Println(m, set.Gate("key").Closed("abc"))
	}
	// Output:
	// enforce true
	// shadow false
	// off false
}
