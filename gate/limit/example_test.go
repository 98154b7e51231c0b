package limit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/limit"
)

func ExampleRing() {
	ring := limit.NewRing(3, time.Second) // 3 in any second whatever
	noon := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	for _, ms := range []int{0, 400, 900, 950, 1000, 1100} {
		at := noon.Add(time.Duration(ms) * time.Millisecond)
		fmt.Println(ms, ring.AllowN(at, 1), ring.RetryAfter(at, 1))
	}
	// Output:
	// 0 true 0s
	// 400 true 0s
	// 900 true 100ms
	// 950 false 50ms
	// 1000 true 400ms
	// 1100 false 300ms
}

// Reserve books a turn and says how long to wait for it. What is cancelled is the next one's.
func ExampleTokenBucket_Reserve() {
	bucket := limit.NewTokenBucket(1, time.Minute, 1)
	for range 4 {
		turn := bucket.Reserve()
		fmt.Println(turn.Delay().Round(time.Second))
		if turn.Delay() > 90*time.Second {
			turn.Cancel() // too late to be of use
		}
	}
	// Output:
	// 0s
	// 1m0s
	// 2m0s
	// 2m0s
}

func ExampleSeq() {
	start := time.Now()
	for i := range limit.Seq(context.Background(), limit.NewRing(2, 50*time.Millisecond)) {
		fmt.Println(i, time.Since(start) > 45*time.Millisecond)
		if i == 3 {
			break
		}
	}
	// Output:
	// 0 false
	// 1 false
	// 2 true
	// 3 true
}

func ExampleEach() {
	words := slices.Values([]string{"slow", "but", "steady"})
	for word := range limit.Each(context.Background(), limit.NewLeakyBucket(100, time.Second, 10), words) {
		fmt.Println(word)
	}
	// Output:
	// slow
	// but
	// steady
}

func ExampleDo() {
	hello := func(context.Context) error { fmt.Println("hello"); return nil }
	err := limit.Do(context.Background(), limit.NewFixed(1, 20*time.Millisecond), hello, hello)
	fmt.Println(err)
	// Output:
	// hello
	// hello
	// <nil>
}

// Mails leave at most 100 a second, in order, and the program does not wait for them.
func ExampleSchedule() {
	mails := limit.NewSchedule(limit.NewLeakyBucket(100, time.Second, 10), 1000)
	for _, to := range []string{"ann", "bob", "eve"} {
		if err := mails.Add(func(context.Context) { fmt.Println("mail to", to) }); err != nil {
			fmt.Println(err) // the queue is full
		}
	}
	mails.Close()
	fmt.Println(mails.Run(context.Background())) // in a goroutine of the server's
	// Output:
	// mail to ann
	// mail to bob
	// mail to eve
	// <nil>
}

func ExampleKeyed() {
	logins := limit.NewKeyed(100_000, limit.NewTokenBucket(5, time.Minute, 5))
	for _, user := range []string{"ann", "ann", "ann", "ann", "ann", "ann", "bob"} {
		fmt.Print(user, " ", logins.Allow(user), "; ")
	}
	fmt.Println(logins.Key("ann").RetryAfter(time.Now(), 1) > 11*time.Second)
	// Output:
	// ann true; ann true; ann true; ann true; ann true; ann false; bob true; true
}

// While no decisions come, each address may send 100 requests a minute to this server, and each key 1000.
func ExampleLocal() {
	set := gate.New(gate.Options{Stale: gate.Local, Local: limit.Local{
		"ip":  limit.NewKeyed(100_000, limit.NewSliding(100, time.Minute, 10)),
		"key": limit.NewKeyed(10_000, limit.NewSliding(1000, time.Minute, 10)),
	}})
	fmt.Println(set.Gate("ip").ClosedAddr(netip.MustParseAddr("203.0.113.9")))
	// Output: false
}

// A decision takes milliseconds to come. What a caller sends meanwhile is capped here, before the gate.
func ExampleKeyed_burst() {
	bursts := limit.NewKeyed(100_000, limit.NewTokenBucket(50, time.Second, 3))
	burstCap := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			addr, _ := netip.ParseAddrPort(r.RemoteAddr)
			key := bursts.Key(addr.Addr().String())
			if now := time.Now(); !key.AllowN(now, 1) {
				retry := key.RetryAfter(now, 1)
				w.Header().Set("Retry-After", strconv.Itoa(int((retry+time.Second-1)/time.Second)))
				http.Error(w, "too many requests at once", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	gated := gatehttp.New(gatehttp.Options{
		Set: gate.New(gate.Options{}), Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)},
	})
	handler := burstCap(gated(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for range 4 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 200 ""
	// 200 ""
	// 429 "1"
}
